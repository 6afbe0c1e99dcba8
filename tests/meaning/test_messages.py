"""The pages of docs/messages show what ninepoint says: each wrong program raises its text.

A `python` fence and the `text` fence behind it are a mistake and its message. A `python` fence
alone defines what the rows of the tables below it use: an expression, and the error that it
raises. `--update-golden` writes the messages into the pages; read every line that changed.
"""

import re
import sys
import tomllib
import types
from pathlib import Path

import numpy as np
import pytest

import ninepoint as npt

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
    return f"{type(error).__name__}: {error}"


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
