"""The cache on disk: what is kept is used again, and whatever is wrong with it costs only time."""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import ninepoint as npt
from own_process import output, start
from seams import forget

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

VARIABLE = "NINEPOINT_CACHE_DIR"
X = np.arange(42, dtype="int16").reshape(6, 7)


def edge(x):
    """Apply a stencil that was never called before."""

    @npt.stencil(boundary="wrap")
    def edge(x):
        return x[-1, 0] * 2 - x[1, 1]

    return edge(x)


def first(x):
    """Apply a kernel of the general path, whose machine code Numba keeps."""

    @npt.stencil(boundary="wrap", neighborhood=((-1, 1), (-1, 1)))
    def first(x):
        near = x[-1:2, 0]
        return near[near < 99][0] * 2 - x[1, 1]

    return first(x)


EXPECTED = dict.fromkeys((edge, first), 2 * np.roll(X, 1, 0) - np.roll(X, (-1, -1), (0, 1)))

SCRIPT = """
import numpy as np
import ninepoint as npt

@npt.stencil(boundary="wrap")
def edge(x):
    return x[-1, 0] * 2 - x[1, 1]

X = np.arange(42, dtype="int16").reshape(6, 7)
assert (edge(X) == 2 * np.roll(X, 1, 0) - np.roll(X, (-1, -1), (0, 1))).all()
"""


def contents(place: Path) -> dict[str, tuple[int, bytes]]:
    """The files of kernels: what all of them call has a file as well, which is made once."""
    files = (file for file in place.rglob("*") if file.is_file())
    files = (file for file in files if not file.name.startswith("shared_"))
    return {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that holds a kernel of each kind."""
    place = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(place))
        forget()
        np.testing.assert_array_equal(edge(X), EXPECTED[edge])
        np.testing.assert_array_equal(first(X), EXPECTED[first])
    return place


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    forget()
    yield tmp_path / "cache"
    forget()


# Kernels of many kinds; the first of them are there in a warm process without being read.
MANY = """
    import os, sys, warnings
    import numpy as np
    import ninepoint as npt

    warnings.filterwarnings("ignore", "ninepoint does not use .* damaged")
    FACTOR = int(os.environ["FACTOR"])
    WEIGHTS = np.array([1, FACTOR, 1])
    x = np.random.default_rng(0).integers(0, 200, (40, 50)).astype("uint8")

    @npt.stencil(boundary="reflect")
    def mean(x, k=2):
        return np.mean(x[-1:2, -1:2]) * FACTOR + k

    @npt.stencil(boundary="nearest", standard_indexing=("w",))
    def weighted(x, w):
        return w[0] * x[0, -1] + w[1] * x[0, 1] + np.sum(x[0, -1:2] * WEIGHTS)

    @npt.ufunc
    def half(a, b=2.0):
        return a / b

    made = [
        mean(x), mean(x, 3.5), mean(x.astype("float32"), np.int8(3)), mean(x, every=2),
        weighted(x, np.array([1.5, 2.0])), half(x), half(x, 3),
    ]
    compilers = "language.parse", "lowering.passes", "backends.llvm.printing"
    read = any(f"ninepoint.{name}" in sys.modules for name in compilers)

    @npt.stencil(boundary="keep")
    def placed(x):
        return x[0, 1] + npt.index(x)[0] * len(x)

    colours = np.stack([x] * 3, -1)
    made += [
        placed(x), mean(x, upsample=(2, 2)), mean(colours, axes=(0, 1)), mean(x.T),
        mean.iterate(x.astype("float64"), steps=5), npt.filters.gaussian(x, 2),
    ]
    assert "mean" in mean.source("uint8") and mean.ir("uint8") and mean.explain(x)
    print(repr(float(sum(np.asarray(one, "float64").sum() for one in made))), read)
"""


def test_cold_processes_at_once_and_warm_ones(tmp_path):
    """A warm one neither reads nor lowers nor prints a kernel again, and gives the same."""

    def started(factor="3"):
        return start(tmp_path, MANY, FACTOR=factor)

    place = tmp_path / "cache"
    cold = {output(one).split()[0] for one in [started(), started()]}
    assert len(cold) == 1
    before = contents(place)
    assert {Path(name).suffix for name in before} == {".kernel", ".o", ".well"}
    assert output(started()).split() == [*cold, "False"]
    assert contents(place) == before
    # Another constant is another kernel, and what is damaged is compiled anew.
    changed, read = output(started("4")).split()
    assert changed not in cold
    assert read == "True"
    for file in place.glob("*.kernel"):
        file.write_bytes(file.read_bytes()[:-20])
    assert output(started()).split() == [*cold, "True"]


# What may happen to a file, and what is said of it then.
NOBODY = 65534
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are POSIX's")
root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root's")


def flip(path, at, bit=3):
    whole = bytearray(path.read_bytes())
    whole[at] ^= 1 << bit
    path.write_bytes(whole)


def link(path):
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


def replaced(path, make):
    path.unlink()
    make(path)


HARMS = {
    "empty": (lambda path: path.write_bytes(b""), "damaged"),
    "cut": (
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        "damaged",
    ),
    "garbage": (lambda path: path.write_bytes(bytes(range(255, 0, -1)) * 9), "damaged"),
    "begins otherwise": (lambda path: flip(path, 30), "damaged"),
    "ends otherwise": (lambda path: flip(path, -1), "damaged"),
    "another": (lambda path: shutil.copy(next(path.parent.glob("*.o.*")), path), "damaged"),
    "of others": (lambda path: os.chown(path, NOBODY, NOBODY), "does not use"),
    "open to all": (lambda path: path.chmod(0o777), "does not use"),
    "pipe": (lambda path: replaced(path, os.mkfifo), "does not use"),
    "link": (link, "does not use"),
    "folder": (lambda path: replaced(path, Path.mkdir), "cannot keep"),
    "gone": (Path.unlink, ""),
}
MARKED = {"of others": root, "open to all": posix, "pipe": posix}


def harmed(kernel, path, harm, words):
    """Harm a file; the kernel warns in these words, gives what is right, and makes it anew."""
    forget()
    harm(path)
    with pytest.warns(RuntimeWarning, match=words) if words else contextlib.nullcontext():
        np.testing.assert_array_equal(kernel(X), EXPECTED[kernel])
    if "cannot" not in words:
        forget()
        np.testing.assert_array_equal(kernel(X), EXPECTED[kernel])
        assert path.exists()


@pytest.mark.parametrize(
    "harm", [pytest.param(harm, marks=MARKED.get(harm, ())) for harm in HARMS if harm != "another"]
)
def test_whatever_is_wrong_with_a_file_it_is_made_anew(filled, place, harm):
    shutil.copytree(filled, place)
    (path,) = place.glob("edge_*.o")
    harmed(edge, path, *HARMS[harm])


@pytest.mark.parametrize(("file", "harm"), [
    ("point", "another"),
    ("o", "ends otherwise"),
    pytest.param("o", "open to all", marks=posix),
    *(
        pytest.param(file, harm, marks=pytest.mark.nightly)
        for file in ("point", "o")
        for harm in ("begins otherwise", "cut", "folder", "gone")
    ),
])  # fmt: skip
def test_so_is_one_of_numbas(filled, place, file, harm):
    shutil.copytree(filled, place)
    (path,) = place.glob(f"first_*.{file}.*.nb")
    harmed(first, path, *HARMS[harm])


@pytest.mark.nightly
def test_a_flipped_bit_never_runs(filled, place):
    """Wherever it is: what is loaded is what was written."""
    shutil.copytree(filled, place)
    draw = np.random.default_rng(0)
    for path in (*place.glob("edge_*.o"), *place.glob("first_*.nb")):
        kernel, whole = edge if path.suffix == ".o" else first, path.read_bytes()
        for at in map(int, draw.integers(0, len(whole), 5)):
            harmed(kernel, path, lambda path, at=at: flip(path, at, at % 8), "damaged")
            path.write_bytes(whole)


@root
def test_a_folder_that_others_may_write_is_not_used(filled, place):
    shutil.copytree(filled, place)
    before = contents(place)
    for harm in ("open to all", "of others"):
        forget()
        HARMS[harm][0](place)
        with pytest.warns(RuntimeWarning, match="does not use the cache folder") as warned:
            np.testing.assert_array_equal(edge(X), EXPECTED[edge])
        assert len(warned) == 1
        assert VARIABLE in str(warned[0].message)
        assert contents(place) == before


@posix
def test_our_folder_is_private_whatever_the_mask_and_the_only_one(place, tmp_path, monkeypatch):
    """A process that is killed would leave another behind."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "empty"))
    before = os.umask(0)
    try:
        edge(X)
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in place.iterdir()} == {0o600}
    assert not list((tmp_path / "empty").iterdir())


def test_a_folder_that_cannot_be_made(place):
    place.write_text("a file is in the way")
    with pytest.warns(RuntimeWarning, match=f"does not use the cache folder.*{VARIABLE}"):
        np.testing.assert_array_equal(edge(X), EXPECTED[edge])
    assert place.read_text() == "a file is in the way"


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")
@pytest.mark.parametrize("limit", [5_000, pytest.param(10, marks=pytest.mark.nightly)])
def test_a_full_disk(tmp_path, limit):
    """There is room for nothing, or for short files only."""
    full = f"""
        import resource, warnings
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
    """
    output(start(tmp_path, full, SCRIPT))
    assert not list(tmp_path.rglob(".new-*"))


def damped(rate, x):
    """Apply a stencil with a number of its own."""

    damped = npt.stencil(lambda x: x[0, 0] * rate + x[0, 1] * (1 - rate), boundary="wrap")

    return damped(x)


def test_types_and_numbers_have_machine_code_of_their_own_which_is_made_once(place):
    for dtype, rates in (("float32", (0.3, 0.7, 0.3, -1e30)), ("float64", (0.3, 0.1, 0.3))):
        x = np.linspace(0, 1, 42, dtype=dtype).reshape(6, 7)
        for rate in rates:
            expected = x * x.dtype.type(rate) + np.roll(x, -1, 1) * x.dtype.type(1 - rate)
            np.testing.assert_array_equal(damped(rate, x), expected)
    for width in (3.02, 3.1, 3.02):
        npt.filters.gaussian(x, width)
    codes = [file for file in place.glob("*.o") if not file.name.startswith("shared")]
    assert len(codes) == 3 + 2 + 2


def test_without_a_home_it_is_among_temporary_files(tmp_path):
    script = """
        import os
        del os.environ["NINEPOINT_CACHE_DIR"]
        os.environ.pop("HOME", None)
        os.getuid = lambda: 123456789
        from ninepoint.cli import main
        main(["cache"])
    """
    found = output(start(tmp_path, script, TMPDIR=str(tmp_path))).partition(":")[0]
    assert found == str(tmp_path / "ninepoint-123456789")
    assert not Path(found).exists()


def test_numba_switched_off(tmp_path):
    """What Numba compiles as it is written does not run; all else does."""
    script = """
        @npt.stencil(neighborhood=((-1, 1),))
        def general(x, n=1):
            near = x[-1:2]
            return near[near < n].sum()

        @npt.gufunc("(n),()->(n)")
        def scaled(x, p, out):
            for i in range(len(x)):
                out[i] = x[i] * p

        assert scaled.debug(np.arange(3.0), 2).tolist() == [0, 2, 4]
        for call in (lambda: general(np.ones(4)), lambda: scaled(np.ones(4), 2)):
            try:
                call()
            except RuntimeError as error:
                print(error)
    """
    words = output(start(tmp_path, SCRIPT, script, NUMBA_DISABLE_JIT="1")).splitlines()
    assert words[0] == (
        "'general' is compiled by Numba as it is written, so it does not run with "
        "NUMBA_DISABLE_JIT=1; unset that variable, or call general.debug(...)."
    )
    assert "does not run with NUMBA_DISABLE_JIT=1; unset that variable, or call" in words[1]
