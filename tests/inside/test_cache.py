"""The cache on disk: what is kept is used again, and whatever is wrong with it costs only time."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

import ninepoint as npt
from nightly import only
from ninepoint.cli import main
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


EXPECTED = {
    edge: 2 * np.roll(X, 1, 0) - np.roll(X, (-1, -1), (0, 1)),
    first: 2 * np.roll(X, 1, 0) - np.roll(X, (-1, -1), (0, 1)),
}

SCRIPT = """
import warnings
warnings.simplefilter("error")
import numpy as np
import ninepoint as npt

@npt.stencil(boundary="wrap")
def edge(x):
    return x[-1, 0] * 2 - x[1, 1]

X = np.arange(42, dtype="int16").reshape(6, 7)
result = edge(X)
np.testing.assert_array_equal(result, 2 * np.roll(X, 1, 0) - np.roll(X, (-1, -1), (0, 1)))
import sys
print("ninepoint.backends.llvm.printing" in sys.modules)
"""


def start(folder: Path, script: str = SCRIPT, **variables: str) -> subprocess.Popen[str]:
    """Begin a process whose cache is `folder`/new/cache."""
    file = folder / "script.py"
    # At once: a process that has begun before may just be reading it.
    (folder / "new.py").write_text(textwrap.dedent(script))
    (folder / "new.py").replace(file)
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    own = {VARIABLE: str(folder / "new" / "cache"), "PYTHONPATH": paths.strip(os.pathsep)}
    # What is verified is compiled in each process.
    others = {name: value for name, value in os.environ.items() if name != "NINEPOINT_VERIFY"}
    return subprocess.Popen(
        [sys.executable, file],
        env={**others, **own, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip()


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


def inferred(place):
    """What was compiled of a kernel alone, to learn what it gives."""
    (point,) = place.glob("first_*.point.*.nb")
    return point


def test_cold_processes_at_once_and_a_warm_one(tmp_path):
    place = tmp_path / "new" / "cache"
    cold = [start(tmp_path) for _ in range(3)]
    assert {output(process) for process in cold} <= {"True", "False"}
    before = contents(place)
    assert sorted(Path(name).suffix for name in before) == [".kernel", ".o", ".well"]
    assert output(start(tmp_path)) == "False"
    assert contents(place) == before


FILES = ["edge_*.o", "first_*.band.*.nb", "POINT"]


@pytest.mark.parametrize(
    ("file", "how"), only(6, itertools.product(FILES, ["empty", "half", "garbage"]))
)
def test_damaged_files_are_made_anew(filled, place, file, how):
    shutil.copytree(filled, place)
    kernel = edge if file.startswith("edge") else first
    file = inferred(place) if file == "POINT" else next(place.glob(file))
    whole = file.read_bytes()
    file.write_bytes(
        {
            "empty": b"",
            "half": whole[: len(whole) // 2],
            "garbage": bytes(range(255, 0, -1)) * 9,
        }[how]
    )
    with pytest.warns(RuntimeWarning, match="anew") as warned:
        np.testing.assert_array_equal(kernel(X), EXPECTED[kernel])
    assert len(warned) == 1
    forget()
    np.testing.assert_array_equal(kernel(X), EXPECTED[kernel])


def test_machine_code_that_is_gone_is_made_again(filled, place):
    shutil.copytree(filled, place)
    gone = [*place.glob("edge_*.o"), *place.glob("*.nb")]
    assert len(gone) == 3
    for file in gone:
        file.unlink()
    np.testing.assert_array_equal(edge(X), EXPECTED[edge])
    first(X)
    assert all(file.exists() for file in gone)


@pytest.mark.parametrize(
    ("kernel", "count"), [(edge, 3), (first, 0), pytest.param(first, 6, marks=pytest.mark.nightly)]
)
def test_a_flipped_bit_never_runs(filled, place, kernel, count):
    """Wherever it is: what is loaded is what was written."""
    shutil.copytree(filled, place)
    random = np.random.default_rng(0)
    used = [*place.glob("edge_*.o")]
    if kernel is first:
        used = [*place.glob("first_*.band.*.nb"), inferred(place)]
    for file in used:
        whole = file.read_bytes()
        for at in (*random.integers(0, len(whole), count), 30, len(whole) - 1):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << int(random.integers(8))
            file.write_bytes(damaged)
            forget()
            with pytest.warns(RuntimeWarning, match="anew"):
                np.testing.assert_array_equal(kernel(X), EXPECTED[kernel])
            file.write_bytes(whole)


def test_files_under_the_names_of_others_are_not_loaded(filled, place):
    shutil.copytree(filled, place)
    (band,) = place.glob("first_*.band.*.nb")
    inferred(place).write_bytes(band.read_bytes())
    with pytest.warns(RuntimeWarning, match="anew"):
        np.testing.assert_array_equal(first(X), EXPECTED[first])


NOBODY = 65534
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are POSIX's")


def others(path):
    if os.geteuid():
        pytest.skip("only root gives files away")
    os.chown(path, NOBODY, NOBODY)


def open_to_all(path):
    path.chmod(0o777)


@posix
@pytest.mark.parametrize(("kernel", "change"), [(edge, others), (first, open_to_all)])
def test_a_folder_that_others_may_write_is_not_used(filled, place, kernel, change):
    shutil.copytree(filled, place)
    change(place)
    before = contents(place)
    with pytest.warns(RuntimeWarning, match="does not use the cache folder") as warned:
        np.testing.assert_array_equal(kernel(X), EXPECTED[kernel])
    assert len(warned) == 1
    assert VARIABLE in str(warned[0].message)
    assert contents(place) == before


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def link(path):
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


@posix
@pytest.mark.parametrize(
    ("file", "change"),
    only(5, itertools.product(["edge_*.o", "first_*.band.*.nb"],
                              [others, open_to_all, pipe, link])),
)  # fmt: skip
def test_a_file_that_others_may_write_is_not_loaded(filled, place, file, change):
    shutil.copytree(filled, place)
    kernel = edge if file.startswith("edge") else first
    (file,) = place.glob(file)
    change(file)
    with pytest.warns(RuntimeWarning, match="does not use"):
        np.testing.assert_array_equal(kernel(X), EXPECTED[kernel])
    forget()
    np.testing.assert_array_equal(kernel(X), EXPECTED[kernel])


@posix
def test_our_folder_is_private_whatever_the_mask(place):
    before = os.umask(0)
    try:
        edge(X)
        first(X)
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in place.iterdir()} == {0o600}


def test_a_folder_that_cannot_be_made(place):
    place.write_text("a file is in the way")
    with pytest.warns(RuntimeWarning, match=f"cannot use the cache folder.*{VARIABLE}"):
        np.testing.assert_array_equal(edge(X), EXPECTED[edge])
    assert place.read_text() == "a file is in the way"


def test_machine_code_that_cannot_be_written(filled, place):
    shutil.copytree(filled, place)
    (machine_code,) = place.glob("edge_*.o")
    machine_code.unlink()
    machine_code.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot keep the machine code of edge_"):
        np.testing.assert_array_equal(edge(X), EXPECTED[edge])


def test_overloads_that_cannot_be_written(filled, place):
    shutil.copytree(filled, place)
    for file in place.glob("*.nb"):
        file.unlink()
        file.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot keep the machine code of first_"):
        np.testing.assert_array_equal(first(X), EXPECTED[first])


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")
@pytest.mark.parametrize("limit", [10, 5_000])
def test_a_full_disk(tmp_path, limit):
    """There is room for nothing, or for short files only."""
    script = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    script += SCRIPT.replace('("error")', '("ignore")')
    process = start(tmp_path, script)
    assert output(process) == "True"
    assert not list(tmp_path.rglob(".new-*"))


def test_types_and_settings_have_files_of_their_own(place):
    for dtype in ("int16", "int32"):
        edge(X.astype(dtype))
    assert len(list(place.glob("edge_*.o"))) == 2


def damped(rate, x):
    """Apply a stencil with a number of its own."""

    @npt.stencil(boundary="wrap")
    def damped(x):
        return x[0, 0] * rate + x[0, 1] * (1 - rate)

    return damped(x)


def codes(place):
    """The files of machine code of kernels."""
    return {file for file in place.glob("*.o") if not file.name.startswith("shared")}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_that_differ_in_numbers_have_machine_code_of_their_own(place, dtype):
    x = np.linspace(0, 1, 42, dtype=dtype).reshape(6, 7)
    for rate in (0.3, 0.7, 0.3, -1e30, 0.1, 0.5):
        expected = x * x.dtype.type(rate) + np.roll(x, -1, 1) * x.dtype.type(1 - rate)
        np.testing.assert_array_equal(damped(rate, x), expected)
    assert len(codes(place)) == 5


@pytest.mark.parametrize(
    ("dtype", "widths"), [("uint8", (1.02, 1.13)), ("float64", (3.02, 3.1, 12.03, 12.04))]
)
def test_a_gaussian_of_another_width_is_compiled_once(place, dtype, widths):
    x = np.random.default_rng(1).integers(0, 256, (70, 90)).astype(dtype)
    for width in (*widths, *widths):
        right = ndimage.gaussian_filter(x.astype(float), width)
        given = npt.filters.gaussian(x, width)
        np.testing.assert_allclose(
            given, np.rint(right) if dtype == "uint8" else right, rtol=1e-12
        )
    assert len(codes(place)) == len(widths)


def test_clear_leaves_what_is_not_ours(place):
    edge(X)
    (place / "notes.py").write_text("mine")
    forget()
    main(["cache", "--clear"])
    assert [file.name for file in place.iterdir()] == ["notes.py"]
    (place / "notes.py").unlink()
    np.testing.assert_array_equal(edge(X), EXPECTED[edge])
    main(["cache", "--clear"])
    assert not place.exists()
    main(["cache", "--clear"])


def test_without_a_home(tmp_path):
    script = """
        import os
        del os.environ["NINEPOINT_CACHE_DIR"]
        os.environ.pop("HOME", None)
        os.getuid = lambda: 123456789
        from ninepoint.cli import main
        main(["cache"])
    """
    found = output(start(tmp_path, script)).partition(":")[0]
    assert "ninepoint" in found
    assert not Path(found).exists(), "removed at the end"


def test_a_folder_that_can_be_written_is_the_only_one(tmp_path, monkeypatch):
    """A process that is killed would leave another behind."""
    script = """
        import os, tempfile
        os.makedirs("empty")
        tempfile.tempdir = os.path.abspath("empty")
        import numpy as np
        import ninepoint as npt

        @npt.stencil
        def edge(x):
            return x[1] - x[-1]

        edge(np.ones(5))
        print(os.listdir(tempfile.tempdir))
    """
    monkeypatch.chdir(tmp_path)
    assert output(start(tmp_path, script)) == "[]"


def test_numba_switched_off(tmp_path):
    script = """
        import warnings
        warnings.simplefilter("error")
        import numpy as np
        from ninepoint import stencil
        x = np.arange(42).reshape(6, 7) % 11
        for part in (slice(-1, 2), slice(0, 5), slice(-3, -1)):
            for kernel in (lambda x: x[part, part].sum(), lambda x: np.median(x[part, 0])):
                made = stencil(boundary="mirror")(kernel)
                np.testing.assert_array_equal(made(x), made.debug(x))

        @stencil(neighborhood=((-1, 1),))
        def general(x, n=1):
            near = x[-1:2]
            return near[near < n].sum()

        try:
            general(np.ones(4))
        except RuntimeError as error:
            print(error)
    """
    words = output(start(tmp_path, script, NUMBA_DISABLE_JIT="1"))
    assert words == (
        "'general' is compiled by Numba as it is written (it takes the general path), "
        "so it does not run with NUMBA_DISABLE_JIT=1; unset that variable."
    )
