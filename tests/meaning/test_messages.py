"""What ninepoint says of mistakes: on the pages of docs/messages, in other places, in tracebacks.

A `python` fence of a page and the `text` fence behind it are a mistake and its message. A `python`
fence alone defines what the rows of the tables below it use: an expression, and the error that it
raises. `--update-golden` writes the messages into the pages; read every line that changed.
"""

import pickle
import re
import statistics
import subprocess
import sys
import tomllib
import traceback
import types
from pathlib import Path

import numba
import numpy as np
import pytest

import kernels
import ninepoint as npt
from compared import refuses
from ninepoint.base import tracebacks
from own_process import session

PAGES = sorted((Path(__file__).parents[2] / "docs" / "messages").glob("*.md"))
PIECE = re.compile(
    r"^```python\n(?P<program>.*?)^```\n(?:\n```text\n(?P<text>.*?)^```\n)?"
    r"|^\| `(?P<row>[^\n]+?)` \| `(?P<error>[^\n]+)` \|\n",
    re.MULTILINE | re.DOTALL,
)
RAISED = (ValueError, TypeError, IndexError, AttributeError, OSError, ImportError)


def message(run, *arguments):
    with pytest.raises(RAISED) as caught:
        run(*arguments)
    error = caught.value
    if isinstance(error, npt.StencilError):
        check_place(error)
        return str(error)
    return " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])


def check_place(error):
    """The caret's place is a piece of the line that is shown, and there is a cure."""
    at, lines = error.diagnostic.span, str(error).splitlines()
    file = Path(at.file)
    if file.exists():
        assert at.text == file.read_text(encoding="utf-8").splitlines()[at.line - 1]
    assert at.text[at.start : at.end].strip()
    assert lines[2] == f"    {at.line} | {at.text}"
    assert re.fullmatch(r" +\| \s*\^+ \S.+", lines[3])
    assert re.fullmatch(r"  Help: .+\.", lines[4])


def as_said_now(page, folder, monkeypatch):
    """The page, with the messages that its programs raise now."""
    module = types.ModuleType("kernel")
    monkeypatch.setitem(sys.modules, "kernel", module)
    names = vars(module)
    given = dict(names) | {"np": np, "npt": npt}
    names.update(given)

    def piece(found):
        if found["row"]:
            error = message(eval, found["row"], names).replace("|", "\\|")
            error = error.replace(str(folder), "/home/you")
            return f"| `{found['row']}` | `{error}` |\n"
        # A stencil reads its own source, so each program is a file.
        file = folder / str(found.start()) / "kernel.py"
        file.parent.mkdir()
        file.write_text(found["program"], encoding="utf-8")
        names.clear()
        names.update(given)
        code = compile(found["program"], str(file), "exec", dont_inherit=True)
        if found["text"] is None:
            exec(code, names)
            return found[0]
        error = message(exec, code, names).replace(str(file), file.name)
        return f"```python\n{found['program']}```\n\n```text\n{error}\n```\n"

    return PIECE.sub(piece, page)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_of_messages(path, tmp_path, monkeypatch, request):
    page = path.read_text(encoding="utf-8")
    for module in re.findall(r"^import (dask|xarray)", page, re.MULTILINE):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    now = as_said_now(page, tmp_path, monkeypatch)
    if request.config.getoption("--update-golden"):
        path.write_text(now, encoding="utf-8")
    assert now == path.read_text(encoding="utf-8")


def test_nothing_on_a_page_is_left_unchecked():
    for path in PAGES:
        rest = PIECE.sub("", path.read_text(encoding="utf-8"))
        assert not re.search(r"^(\| [^e]|```(?!\{toctree\}|$))", rest, re.MULTILINE), path.name


def test_every_kind_of_mistake_has_words_and_an_entry():
    package = Path(npt.__file__).parent
    words = tomllib.loads((package / "language" / "mistakes.toml").read_text(encoding="utf-8"))
    text = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    said = re.findall(r'(?:mistake[(,]|cure\()\s*"([a-z-]+)"(?: if \w+ else "([a-z-]+)")?', text)
    made = {code for codes in said for code in codes if code}
    assert made == {*words["mistakes"]}
    made.remove("slow-kernel")  # a warning
    pages = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    shown = set(re.findall(r" \[([a-z-]+)\]$", pages, re.MULTILINE))
    # These are tested elsewhere: no program alone makes them, or the words are another library's.
    assert made - shown == {
        "source-changed", "lambda-ambiguous", "not-compiled", "foreign-function", "too-deep",
        "body-not-compiled",
    }  # fmt: skip


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


def test_options_of_other_packages_and_functions_of_numba_are_refused():
    with pytest.raises(npt.StencilError, match="'mode'; what lies beyond the border is boundary="):
        npt.stencil(lambda x: smooth(x, mode="wrap")[0])

    @numba.njit
    def twice(x):
        return smooth(x) * 2

    refuses(numba.TypingError, "makes whole arrays, so no function that Numba", twice, np.zeros(5))


def test_a_name_too_long_for_a_file_and_nothing_is_written_before_an_error():
    name = "f" * 240
    function = kernels.compiled(f"def {name}(x):\n    return x[-1] + x[1]\n", name)
    assert npt.stencil(function)(np.arange(3)).tolist() == [0, 2, 0]
    edges = npt.stencil(lambda x: (x[-1], x[1]))
    out = np.full(5, 7.0), np.full(4, 7.0)
    refuses(ValueError, "shape", edges, np.zeros(5), out=out)
    assert all((one == 7).all() for one in out)


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
    refuses(npt.StencilError, words, keeping, np.zeros(3))


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


def test_a_mistake_shows_no_frame_of_ours_but_what_a_user_was_handling(cut, tmp_path):
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
