"""Every Python block of the documentation runs, and prints what the page says.

The blocks of a page run in order, in one namespace and in an empty folder. A block marked
`text` that follows a Python block is what that block prints.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import itertools
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ninepoint as npt

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted(found.name for found in pkgutil.walk_packages(npt.__path__, "ninepoint."))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its text, and the place of its first line and its fence."""

    language: str
    text: str
    line: int
    start: int
    end: int


def blocks(page: str) -> list[Block]:
    return [
        Block(
            found[1], found[2], page.count("\n", 0, found.start(2)) + 1, found.start(), found.end()
        )
        for found in FENCE.finditer(page)
    ]


CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(\w+/)+([\w-]+\.\w+)?|\w+\.py|tests/[\w/]+")


@pytest.mark.parametrize("page", ["docs/adding.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_are_there(page):
    words = [word for code in CODE.findall((ROOT / page).read_text()) for word in code.split()]
    found = [word for word in words if FILE.fullmatch(word)]
    places = (ROOT, ROOT / "src" / "ninepoint", ROOT / "tests")
    missing = [name for name in found if not any((place / name).exists() for place in places)]
    assert len(found) > 30
    assert not missing


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page(path, tmp_path, monkeypatch):
    page = path.read_text()
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for block, following in itertools.zip_longest(blocks(page), blocks(page)[1:]):
        if block.language != "python":
            continue
        # A stencil reads its own source, so each block is a file, as each cell of a notebook is.
        # It begins with as many empty lines as make tracebacks show the line of the page.
        text = "\n" * (block.line - 1) + block.text
        script = tmp_path / f"{path.stem}_{block.line}.py"
        script.write_text(text)
        code = compile(text, str(script), "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        if (
            following is not None
            and following.language == "text"
            and not page[block.end : following.start].strip()
        ):
            assert printed.getvalue() == following.text, f"{path.name}, line {following.line}"


def test_a_page_is_cut_into_blocks():
    page = "one\n```python\nx = 1\n```\n\n```text\n1\n```\n"
    assert [(b.language, b.text, b.line) for b in blocks(page)] == [
        ("python", "x = 1\n", 3),
        ("text", "1\n", 7),
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links_between_pages_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", path.read_text()):
        assert not target or (path.parent / target).exists(), target


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, extraglobs={"np": np, "npt": npt})
    assert failed == 0


def test_the_page_of_filters_names_all_with_their_defaults():
    page = (ROOT / "docs" / "filters.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `?(.*?)`? ?\| ", page, re.MULTILINE))
    wanted = {}
    for name in npt.filters.__all__:
        own = list(inspect.signature(getattr(npt.filters, name)).parameters.values())[1:-1]
        texts = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in own]
        wanted[name] = ", ".join(texts)
    assert rows == wanted
