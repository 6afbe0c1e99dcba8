"""Mistakes that no page of messages shows, their places, and the frames of a traceback."""

import pickle
import statistics
import subprocess
import sys
import traceback

import numba
import numpy as np
import pytest

import kernels
import ninepoint as npt
from ipython_session import session
from ninepoint.base import tracebacks


@npt.stencil
def smooth(x):
    return x[-1] + x[1]


TABLE = np.arange(6).reshape(2, 3)
LINE = np.array([1.0, 2.0, 3.0])


def weighing(dtype):
    weights = np.zeros(3, dtype)
    return lambda x: (x[-1:2] * weights).sum()


@pytest.mark.parametrize(("kernel", "words"), [
    *(
        (weighing(dtype), "'weights' cannot be used in a kernel")
        for dtype in ("longdouble", "clongdouble", "U1", "M8[D]", "object")
    ),
    (lambda x: LINE * 2 if x[0] is None else LINE, r"must be a number\. \[not-a-number\]"),
    (lambda x: (x[0], 1) + 2, r"has no meaning for a tuple of 2\. \[bad-op"),
    (lambda x: np.signbit(x[0] + 1j), "np.signbit"),
    (lambda x: (x[0], 1) * (1, 2), r"has no meaning for a tuple of 2\. \[bad-op"),
    (lambda x: x[0.5], "offset"),
    # What Python raises while a kernel is read says where that is.
    (lambda x: TABLE[x[-1:2]].sum(), "."),
    (lambda x: x[0] + TABLE[0:1, 9].sum(), "."),
    (lambda x: x[0] + TABLE[TABLE].sum(), "."),
    (lambda x: x[0] + len(), "."),
    (lambda x: x[0] + len((1, 2) * 2**64), "."),
    (lambda x: x[0] + len((1, 2) * 2**40), "."),
])  # fmt: skip
def test_no_mistake_is_an_error_without_a_place(kernel, words):
    with pytest.raises(npt.StencilError, match=words) as caught:
        npt.stencil(kernel)(np.arange(4), boundary="nearest")
    assert "lambda x:" in caught.value.diagnostic.span.text
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.diagnostic) == (str(caught.value), caught.value.diagnostic)


def test_lambdas_without_places_are_ambiguous(tmp_path):
    program = tmp_path / "ambiguous.py"
    program.write_text(
        "import ninepoint as npt\n"
        "a, b = (npt.stencil(lambda x: x[-1]), npt.stencil(lambda x: x[1]))\n"
    )
    command = [sys.executable, "-X", "no_debug_ranges", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "several lambdas that cannot be told apart. [lambda-ambiguous]" in done.stderr
    assert "line 2" in done.stderr


def test_functions_of_other_packages_are_shown_where_they_are_called():
    pd, ndimage = pytest.importorskip("pandas"), pytest.importorskip("scipy.ndimage")

    def missing(value):
        return pd.isna(value)

    def filled(x):
        return 0 if missing(x[0]) else x[0]

    with pytest.raises(npt.StencilError, match=r"'pd.isna' cannot be compiled") as caught:
        npt.stencil(filled)(np.zeros(5), boundary="wrap")
    found = caught.value.diagnostic
    assert (found.code, found.span.file) == ("foreign-function", __file__)
    assert found.span.text.strip() == "return pd.isna(value)"
    assert "np.isnan is pandas.isna" in found.help
    # One of the standard library, and one that cannot even be captured.
    for kernel, name in (
        (lambda x: statistics.fmean((x[-1], x[0], x[1])), "statistics.fmean"),
        (lambda x: ndimage.gaussian_filter(x[0], 2), "gaussian_filter"),
    ):
        with pytest.raises(npt.StencilError, match=name) as caught:
            npt.stencil(kernel)(np.zeros(5))
        assert caught.value.diagnostic.span.file == __file__
        assert name in caught.value.diagnostic.span.text


def test_options_of_other_packages_are_refused_in_kernels():
    with pytest.raises(npt.StencilError, match="'mode'; what lies beyond the border is boundary="):
        npt.stencil(lambda x: smooth(x, mode="wrap")[0])


def test_numba_function_that_calls_a_stencil():
    @numba.njit
    def twice(x):
        return smooth(x) * 2

    with pytest.raises(numba.TypingError, match="makes whole arrays, so no function that Numba"):
        twice(np.zeros(5))


def test_name_that_is_too_long_for_a_file():
    name = "f" * 240
    function = kernels.compiled(f"def {name}(x):\n    return x[-1] + x[1]\n", name)
    assert npt.stencil(function)(np.arange(3)).tolist() == [0, 2, 0]


def test_not_compiled_says_why():
    @npt.stencil
    def middle(x):
        buffer = np.zeros(3)
        for k in range(3):
            buffer[k] = x[k - 1]
        buffer.partition(1)
        return buffer[1]

    with pytest.raises(npt.StencilError, match=r"(?s)\[not-compiled\].*partition") as caught:
        middle(np.zeros(5))
    assert "buffer.partition(1)" in caught.value.diagnostic.span.text
    # A name of small letters before an address is not taken for words.
    keeping = npt.stencil(lambda x: np.nanmean(x[-1:2], keepdims=True))
    words = r"(?s)No implementation of function 'nanmean' for these arguments"
    with pytest.raises(npt.StencilError, match=words):
        keeping(np.zeros(3))


def test_nothing_is_written_before_an_error():
    edges = npt.stencil(lambda x: (x[-1], x[1]))
    out = np.full(5, 7.0), np.full(4, 7.0)
    with pytest.raises(ValueError, match="shape"):
        edges(np.zeros(5), out=out)
    assert all((one == 7).all() for one in out)


# The smallest piece of source that is wrong stands between « and ».
LAMBDAS = """
ΔΔ = dict(
    left=npt.stencil(lambda x: x[-1]), right=npt.stencil(lambda größe: größe[1] * größe[«2.5»])
)
"""
PROGRAMS = {
    "the kernel of a decorator with lines of its own": """
@npt.stencil(
    boundary="nearest",
    neighborhood=((-1, 1),),
)
def smooth(
    x,
    weight=2,
):
    return «x[-3]» * weight
""",
    "a statement that goes on": """
@npt.stencil
def smooth(image):
    return image[-1:2, -1:2] + image[
        0,
        «0.5»,
    ]
""",
    "a helper": """
def gradient(field, axis):
    return field[«1.0»] - field[-1]

@npt.stencil
def slope(x):
    return gradient(x, 0)
""",
    "one of two lambdas on a line": LAMBDAS,
    "a lambda over lines": """
smooth = npt.stencil(
    lambda x: (
        x[-1]
        + x[«1.5»]
    ),
)
""",
    "below a text without indentation": '''
@npt.stencil
def smooth(x):
    """Smooth.
It has a text
without indentation.
    """
    return x[-1] + x[«1.5»]
''',
    "a chain of operators": """
@npt.stencil
def shifted(μ, k):
    return σ * μ[0, «k»] - μ[0, 0]
""",
    "indented by tabs": """
def build():
\t@npt.stencil
\tdef smooth(x):
\t\treturn x[-1] +\t«wieght» * x[1]
build()
""",
    "below a wide letter and an accent that combines": """
@npt.stencil
def 平滑(图像):
    e\u0301 = 2
    return e\u0301 * 图像[0, 0] + 图像[0, «0.5»]
""",
}


def mistake(program, file):
    text = program.replace("«", "").replace("»", "")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(npt.StencilError) as caught:
        exec(compile(text, str(file), "exec"), {"npt": npt, "σ": 0.5})
    return caught.value


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_carets_mean_the_piece_that_is_wrong(program, tmp_path):
    at = mistake(program, tmp_path / "kernel.py").diagnostic.span
    before, _, rest = program.partition("«")
    line = before.rpartition("\n")[2]
    assert at.line == before.count("\n") + 1
    assert (at.start, at.text[at.start : at.end]) == (len(line), rest.partition("»")[0])


@pytest.mark.parametrize(("program", "carets"), [
    ("indented by tabs", "      | \t\t              \t^^^^^^ "),
    ("below a wide letter and an accent that combines", f"      | {' ' * 36}^^^ "),
])  # fmt: skip
def test_carets_stand_below_what_a_terminal_shows(program, carets, tmp_path):
    lines = str(mistake(PROGRAMS[program], tmp_path / "kernel.py")).splitlines()
    assert lines[3].startswith(carets)


PACKAGE = npt.__file__.removesuffix("__init__.py")

KERNELS = """
import numpy as np
import ninepoint as npt

smooth = npt.stencil(lambda x, weight=1: weight * (x[-1] + x[1]))
half = npt.ufunc(lambda x: x / 2)
total = npt.gufunc("(n)->()")(lambda x: np.sum(x))
square = lambda x: x[0] ** 2
mixed = lambda x: x[0, 1] + x[1]

@npt.gufunc("(n)->(n)")
def changed(x):
    x[0] = 1
    return x

x = np.zeros(5)
"""
# One for each door, and for each way in which errors come to it.
MISTAKES = [
    "npt.stencil(mixed)", "npt.stencil(boundary='wrap')(mixed)",
    "npt.stencil(square, bondary='wrap')", "npt.ufunc(square)",
    "npt.gufunc('(n),(n)->()')(square)", "smooth(x, boundary='reflet')", "smooth(x, x)",
    "smooth(x, cval=np.nan, dtype='int8', overflow='wrap')", "smooth(x, out=x[:3])",
    "smooth.iterate(x, steps=-1)", "smooth.explain('float32', 'float32')", "smooth.bench(3)",
    "smooth.debug(x, boundary=3)", "half(x, 1)", "half('text')", "total(3)", "changed(x)",
    "npt.filters.median(x, boundary='reflet')", "npt.shapes.disk(-1)", "npt.dirichlet('no')",
    "npt.spacing('x')", "npt.index(x)", "npt.imread('none.png')", "npt.open('none.zarr')",
    "npt.save(x, '')", "npt.lazy('text')",
]  # fmt: skip


@pytest.fixture
def cut(monkeypatch):
    monkeypatch.delenv("NINEPOINT_TRACEBACKS", raising=False)


def ours(lines):
    return sum(line.count(f'File "{PACKAGE}') for line in lines)


def test_a_mistake_shows_no_frame_of_ours(cut, tmp_path):
    file = tmp_path / "mine.py"
    line = f'File "{file}", line {KERNELS.count(chr(10)) + 1}'
    for mistake in MISTAKES:
        file.write_text(KERNELS + mistake, encoding="utf-8")
        with pytest.raises(Exception) as caught:  # noqa: PT011 (whichever it is)
            exec(compile(file.read_text(), str(file), "exec"), {"__name__": "mine"})
        lines = traceback.format_exception(caught.value)
        assert ours(lines) == 0, mistake
        assert line in "".join(lines), mistake
        assert "direct cause" not in "".join(lines), mistake


def test_what_a_user_was_handling_is_shown(cut):
    def handled():
        try:
            raise KeyError("the user's")
        except KeyError:
            npt.stencil(lambda x: x[-1])(np.zeros(3), boundary="reflet")

    with pytest.raises(ValueError, match="reflet") as caught:
        handled()
    assert 'KeyError: "the user\'s"' in "".join(traceback.format_exception(caught.value))


def test_what_is_not_a_users_mistake_keeps_its_frames(cut, monkeypatch):
    @tracebacks.door
    def asserts():
        raise AssertionError("ours")

    @tracebacks.door
    def foreign():
        return np.dtype("no such type")

    def user(*_):
        raise ValueError("a mistake in a function that ninepoint calls")

    def frames(error, call):
        with pytest.raises(error) as caught:
            call()
        return ours(traceback.format_exception(caught.value))

    smooth, x = npt.stencil(lambda x: x[-1] + x[1]), np.zeros(3)
    assert frames(AssertionError, asserts) == 1
    assert frames(TypeError, foreign) == 1
    assert frames(ValueError, lambda: smooth.iterate(x, steps=2, callback=user)) > 1
    monkeypatch.setenv("NINEPOINT_TRACEBACKS", "whole")
    assert frames(ValueError, lambda: smooth(x, boundary="reflet")) > 1


def test_in_a_notebook(cut, tmp_path):
    given = [("", KERNELS, False), *((one, one, True) for one in MISTAKES)]
    for mistake, printed in zip(MISTAKES, session(given, tmp_path)[1:], strict=True):
        assert PACKAGE not in printed, mistake
        assert len(printed.splitlines()) < 16, printed
