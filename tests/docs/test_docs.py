"""Every Python block of the documentation runs, and prints what the page says.

The blocks of a page run in order, in one namespace and in an empty folder. A block marked
`text` that follows a Python block is what that block prints.  What stands between the lines
`<!-- gpu -->` and `<!-- end gpu -->` runs where there is a GPU.
"""

import contextlib
import doctest
import importlib.util
import inspect
import io
import itertools
import pkgutil
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import ninepoint as npt
import ninepoint.xarray

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Those of a field, and those for whom another tool is known; they stand alone.
FIELDS = sorted((ROOT / "docs" / "howto").glob("*.md"))
COMING = sorted((ROOT / "docs" / "coming").glob("*.md"))
MEANING = sorted((ROOT / "docs" / "meaning").glob("*.md"))
RUN = [*PAGES, *MEANING, *FIELDS, *COMING]
NAMES = sorted(found.name for found in pkgutil.walk_packages(npt.__path__, "ninepoint."))
GPU = re.compile(r"^<!-- gpu -->$.*?^<!-- end gpu -->$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block: its language, its text, and the place of its first line and its fence."""

    language: str
    text: str
    line: int
    start: int
    end: int


def blocks(page: str) -> list[Block]:
    found = [
        (one[1], one[2], one.start(2), one.start(), one.end()) for one in FENCE.finditer(page)
    ]
    return [Block(a, b, page.count("\n", 0, at) + 1, *rest) for a, b, at, *rest in found]


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


class Row(NamedTuple):
    """One line of a table of what each line of another tool becomes."""

    tool: str
    theirs: str
    ours: str
    line: int


def rows(page: str) -> list[Row]:
    """The rows of all tables whose second column is of ninepoint and holds code."""
    found = []
    tool = None
    for number, line in enumerate(page.splitlines(), 1):
        cells = re.split(r" \| |\|(?=-)", line.strip("|"))
        if not line.startswith("|") or len(cells) != 2:
            tool = None
        elif cells[1].strip() == "ninepoint":
            tool = cells[0].strip()
        elif tool is not None and not line.startswith("|---"):
            theirs, ours = (cell.strip().strip("`") for cell in cells)
            found.append(Row(tool, theirs, ours, number))
    return found


# The tools that are installed where the tests run.
INSTALLED = ("scipy.ndimage", "with Dask")


class Program:
    """The program of a page: its pieces, run one after the other in one namespace."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.namespace = {"__name__": "__main__"}

    def run(self, text: str, line: int) -> str:
        """Run a piece that begins on a line of the page; gives what it prints."""
        # A stencil reads its own source, so each piece is a file, as each cell of a notebook is.
        # It begins with as many empty lines as make tracebacks show the line of the page.
        text = "\n" * (line - 1) + text
        script = self.folder / f"{self.path.stem}_{line}.py"
        script.write_text(text)
        code = compile(text, str(script), "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self.namespace)
        return printed.getvalue()


def without_gpu(page):
    """The page with as many lines, but without the blocks that need a GPU."""
    return GPU.sub(lambda found: "\n" * found[0].count("\n"), page)


@pytest.mark.parametrize("path", RUN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_page(path, tmp_path, monkeypatch):
    run_page(path, without_gpu(path.read_text()), tmp_path, monkeypatch)


@pytest.mark.gpu
@pytest.mark.parametrize("path", [one for one in RUN if GPU.search(one.read_text())])
def test_page_on_a_gpu(path, tmp_path, monkeypatch):
    cupy = pytest.importorskip("cupy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"no GPU: {error}")
    run_page(path, path.read_text(), tmp_path, monkeypatch)


def run_page(path, page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = Program(path, tmp_path)
    for block, following in itertools.zip_longest(blocks(page), blocks(page)[1:]):
        if block.language != "python":
            continue
        printed = program.run(block.text, block.line)
        if (
            following is not None
            and following.language == "text"
            and not page[block.end : following.start].strip()
        ):
            assert printed == following.text, f"{path.name}, line {following.line}"
    for row in rows(page):
        assigned = " = " in row.ours.partition("(")[0]
        program.run(row.ours if assigned else f"ours = {row.ours}", row.line)
        if row.tool in INSTALLED:
            program.run(f"theirs = {row.theirs}", row.line)
            ours, theirs = (np.asarray(program.namespace[name]) for name in ("ours", "theirs"))
            np.testing.assert_allclose(
                ours, theirs, rtol=1e-9, atol=1e-12, err_msg=f"{path.name}, line {row.line}"
            )


def test_the_picture_of_a_kernel_is_the_one_that_notebooks_show(tmp_path, golden):
    path = ROOT / "docs" / "howto" / "notebooks.md"
    first = next(block for block in blocks(path.read_text()) if block.language == "python")
    program = Program(path, tmp_path)
    program.run(first.text, first.line)
    golden(program.namespace["sharpen"]._repr_svg_(), ROOT / "docs" / "images" / "kernel.svg")


def test_a_page_is_cut_into_blocks_and_tables_and_links_lead_somewhere():
    page = "a\n<!-- gpu -->\n```python\nx = 1\n```\n<!-- end gpu -->\n```python\ny = 2\n```\n"
    assert [one[:3] for one in blocks(without_gpu(page))] == [("python", "y = 2\n", 8)]
    table = "| C | ninepoint |\n|---|---|\n| `a + b` | `b + a` |\n\n| C | here |\n"
    assert rows(table) == [("C", "a + b", "b + a", 3)]
    for path in COMING:
        assert path.stem == "index" or len(rows(path.read_text())) > 5
    # Those of the other pages are checked where the site is made.
    prose = FENCE.sub("", (ROOT / "README.md").read_text())
    targets = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", prose)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def shows_something(name):
    """Whether a module has examples: of most it takes long to find that there are none."""
    spec = importlib.util.find_spec(name)
    return re.search(r"^ *>>> ", Path(spec.origin).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in NAMES if shows_something(name)])
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    failed, tried = doctest.testmod(module, extraglobs={"np": np, "npt": npt})
    assert failed == 0
    assert tried > 0


def _public(where):
    """Every public name of a module or class that documents itself, with what it names."""
    names = where.__all__ if inspect.ismodule(where) else vars(where)
    return {name: getattr(where, name) for name in names if not name.startswith("_")}


MODULES = {"filters": npt.filters, "shapes": npt.shapes}
API = {f"ninepoint.{name}": value for name, value in _public(npt).items() if name not in MODULES}
for home, module in MODULES.items():
    API |= {f"ninepoint.{home}.{name}": value for name, value in _public(module).items()}
API |= {"ninepoint.filters.Options": npt.filters.Options}
API |= {f"ninepoint.xarray.{name}": value for name, value in _public(ninepoint.xarray).items()}


def test_the_reference_lists_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text()
    listed = set()
    for module, names in re.findall(
        r"currentmodule:: ([\w.]+)\n(.*?)(?=\.\. currentmodule|\Z)", page, re.DOTALL
    ):
        listed |= {f"{module}.{name}" for name in re.findall(r"^   (\w+)$", names, re.MULTILINE)}
    assert listed == set(API)


def test_every_public_name_has_an_example_that_runs():
    found = dict(API)
    for name, value in API.items():
        if inspect.isclass(value):
            found |= {
                f"{name}.{one}": method
                for one, method in _public(value).items()
                if inspect.isfunction(method)
            }
    without = {
        name
        for name, value in found.items()
        if not re.search(r"^Examples\n-{8}\n(?!.*\+SKIP).*>>> ", inspect.getdoc(value) or "",
                         re.MULTILINE | re.DOTALL)
    }  # fmt: skip
    assert not without


def test_pages_list_every_program_of_the_gallery_and_every_filter():
    page = (ROOT / "docs" / "gallery.md").read_text()
    named = re.findall(r"\(\.\./examples/gallery/(\w+)\.py\)", page)
    assert sorted(named) == sorted(path.stem for path in (ROOT / "examples/gallery").glob("*.py"))
    page = (ROOT / "docs" / "filters.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `?(.*?)`? ?\| ", page, re.MULTILINE))
    wanted = {}
    for name in npt.filters.__all__:
        _, *own = inspect.signature(getattr(npt.filters, name)).parameters.values()
        own = [p for p in own if p.name not in npt.filters.Options.__annotations__]
        texts = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in own]
        wanted[name] = ", ".join(texts)
    assert rows == wanted
