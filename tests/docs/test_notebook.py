"""What the documentation shows works in a notebook too, and every script of the examples runs.

Every block of some pages, every script of the gallery and the demo is pasted as a cell into one
session of IPython, with an unrelated error between each two, whose traceback IPython shows.
Scripts of the course and the blog check that their numbers are the original's; the pages that say
what each line becomes name every cell of them, and no other.
"""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import blocks, without_gpu

from own_process import ran, session

pytest.importorskip("IPython")

ROOT = Path(__file__).parents[2]

# Pages on which each way to write a kernel is found.
PASTED = ("README.md", "docs/start.md", "docs/gufunc.md")

# Fewer points and steps than the pictures need: here the compiler is tested.
SMALLER = {"demo.py": ("EXPOSURES = 4", "EXPOSURES = 1")}

ERRORS = ["undefined_name(3)", "1 / 0", "1 +", "def f(v):\n    return v[7]\n\nf([1, 2])"]


def between_errors(cells, folder):
    """Run cells, each with its name, one after the other in a new session."""
    every = []
    for number, (name, text) in enumerate(cells):
        every += [(name, text, False), ("an error", ERRORS[number % len(ERRORS)], True)]
    assert all("Error" in said for said in session(every, folder)[1::2])


def test_pages(tmp_path):
    cells = [
        (f"{name}, line {block.line}", block.text)
        for name in PASTED
        for block in blocks(without_gpu((ROOT / name).read_text()))
        if block.language == "python"
    ]
    between_errors(cells, tmp_path)


def test_gallery_and_demo(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("skimage")
    cells = [("settings", "import matplotlib; matplotlib.rcParams['figure.dpi'] = 20")]
    cells.append(("arguments", "import sys; sys.argv[1:] = ['demo-output']"))
    for path in (*sorted((ROOT / "examples/gallery").glob("*.py")), ROOT / "examples/demo.py"):
        text = path.read_text()
        before, after = SMALLER.get(path.name, ("", ""))
        assert before in text
        cells.append((path.name, text.replace(before, after) if before else text))
    between_errors(cells, tmp_path)


IMPORTS = "import math, numpy as np, ninepoint as npt\n"
KERNEL = "@npt.stencil\ndef f(x):\n    return math.sqrt(x[0]) + np.hypot(x[1], 2.0)\n"
CHECK = "assert f(np.ones(3))[0] == 1 + math.sqrt(5)"
SAME = IMPORTS + KERNEL + CHECK
USED = [
    ("in one cell", SAME),
    ("once more", SAME),
    ("after a magic", "%pwd\n" + SAME),
    ("timed", "%%time\n" + SAME),
    ("timed once more", "%%time\n" + IMPORTS + KERNEL.replace("sqrt", "cbrt")),
    ("changed", "assert f(np.full(3, 8.0)).tolist()[0] == 2 + math.hypot(8, 2)"),
    ("captured", "%%capture\n" + SAME),
    ("decorated later", "def g(x):\n    return math.exp(x[0])\n"),
    ("later", "s = npt.stencil(g)\nassert s(np.zeros(2)).tolist() == [1, 1]"),
    ("two of a name", "def g(x):\n    return x[0]\nbefore = npt.stencil(g)\n"
     "def g(x):\n    return 2 * x[0]\nafter = npt.stencil(g)\n"
     "assert before(np.ones(1))[0] == 1 and after(np.ones(1))[0] == 2"),
    ("lambdas", "a, b = npt.stencil(lambda x: math.sin(x[0])), npt.stencil(lambda x: "
     "math.cos(x[0]))\nassert a(np.zeros(1)) == 0 < b(np.zeros(1))"),
    ("awaited", "import asyncio\nawait asyncio.sleep(0)\nr = npt.stencil(lambda x: x[1])"),
    ("its mistake", "try:\n    npt.stencil(lambda x: x[0.5])\nexcept npt.StencilError as error:\n"
     "    assert 'npt.stencil(lambda x: x[0.5])' in str(error)"),
    ("annotations", "from __future__ import annotations"),
    ("annotated", "@npt.stencil(\n    boundary='nearest',\n)\n"
     "def h(x: np.ndarray, k: float = 2) -> float:\n    t: float = math.floor(x[1])\n"
     "    return k * t\nassert h(np.arange(3.0)).tolist() == [2, 4, 4]"),
    ("helper", "def half(v):\n    return v / 2\n"),
    ("its user", "@npt.stencil\ndef f(x):\n    return half(x[0])"),
    ("redefined", "def half(v):\n    return v / 4\n"),
    ("kept", "assert f(np.ones(1))[0] == f.debug(np.ones(1))[0] == 0.5"),
    # A tool that rewrites every cell, as SymPy's does, which makes exact numbers of literals.
    ("tool", "import ast\nclass Integers(ast.NodeTransformer):\n"
     "    def visit_Constant(self, node):\n"
     "        if not isinstance(node.value, int):\n            return node\n"
     "        name = ast.Name('int', ast.Load())\n"
     "        return ast.copy_location(ast.Call(name, [node], []), node)\n"
     "get_ipython().ast_transformers.append(Integers())"),
    ("rewritten", "@npt.stencil\ndef f(x):\n    return x[1] + 3 * x[0]\n"
     "assert f(np.arange(3)).tolist() == [1, 5, 0]"),
]  # fmt: skip


def test_cells_that_import_define_and_use(tmp_path):
    between_errors(USED, tmp_path)


# What a notebook shows: its kernel runs in a process of its own, as in front of a person.
NOTEBOOK = """
import json, sys, warnings
warnings.simplefilter("ignore")
import nbformat
from nbclient import NotebookClient

cells = [nbformat.v4.new_code_cell(text) for text in json.load(sys.stdin)]
book = nbformat.v4.new_notebook(cells=cells)
NotebookClient(book, timeout=300, kernel_name="python3").execute()
print(json.dumps([cell["outputs"] for cell in book.cells]))
"""
CELLS = {
    "define": """
import time
import numpy as np
import ninepoint as npt

@npt.stencil(boundary=("reflect", ("nearest", "mirror")))
def smooth(x, weight=2):
    "Take the mean of <three> points."
    return (x[-1, 0] + weight * x[0, 0] + x[1, 1]) / (2 + weight)

@npt.stencil
def edges(x, k=3):
    low = smooth(x, weight=k)
    return x[0, 0] - low[1, 0]

def wait(step, state):
    time.sleep(0.4)

def fail(step, state):
    time.sleep(1.1)
    raise KeyError("mine")

image = np.ones((60, 80))
""",
    "picture": "smooth",
    "help": "help(smooth)",
    "explain": "smooth.explain('uint8')",
    "explain stages": "edges.explain(image)",
    "bench": "smooth.bench(image, repeat=2)",
    "tune": "smooth.tune(image, seconds=0.1)",
    "info": "npt.info()",
    "save": """
frames = np.zeros((5, 9, 9), np.uint8)
npt.imsave(frames, "slow/{}.png", progress=lambda *done: time.sleep(0.1))
print("before")
npt.imsave(frames, "saved/{}.png")
print("after")
""",
    "short steps": "state = smooth.iterate(image, steps=3)",
    "long steps": "state = smooth.iterate(image, steps=6, every=1, callback=wait)",
    "no bar": "smooth.iterate(image, steps=6, every=1, callback=wait, progress=False)[0, 0]",
    "error": """
try:
    smooth.iterate(image, steps=3, every=1, callback=fail, progress=True)
except KeyError as error:
    print("caught", error)
""",
}


def executed(folder):
    """The outputs of cells, by their names."""
    more = {"JUPYTER_RUNTIME_DIR": str(folder), "JUPYTER_PLATFORM_DIRS": "1"}
    found = ran(NOTEBOOK, list(CELLS.values()), folder, **more)
    return dict(zip(CELLS, found, strict=True))


def rich(notebook, name, kind):
    """What a cell shows in the end, of one kind."""
    (output,) = [one for one in notebook[name] if one["output_type"] == "execute_result"]
    data = output["data"][kind]
    return data if isinstance(data, str) else "".join(data)


def printed(notebook, name, stream="stdout"):
    """What a cell printed; its bars are on standard error, or widgets."""
    assert not [one for one in notebook[name] if one["output_type"] == "display_data"]
    return "".join(one["text"] for one in notebook[name] if one.get("name") == stream)


# The table of a cell: how it is headed, and some of its labels.
TABLES = {
    "explain": ("smooth: x uint8 -&gt; float64", ("kernel", "path", "border", "memory")),
    "explain stages": ("edges: x float64 -&gt; float64", ("pass 1", "measured")),
    "bench": ("smooth(60x80 float64)", ("a call", "points", "of a copy", "computed by")),
    "tune": ("What was tried", ("best",)),
    "info": ("What ninepoint runs on", ("numpy", "cores", "cache")),
}


def test_what_a_notebook_shows(tmp_path):
    pytest.importorskip("ipykernel")
    pytest.importorskip("nbclient")
    notebook = executed(tmp_path)
    # A stencil is drawn, and helps in its user's words.
    picture = rich(notebook, "picture", "image/svg+xml")
    assert ">axis -1, to the right: nearest before, mirror after</text>" in picture
    assert rich(notebook, "picture", "text/plain") == "<stencil smooth(x, weight=2)>"
    words = printed(notebook, "help")
    assert "Take the mean of <three> points." in words
    assert "smooth(x, weight=2, *, boundary=None" in words
    for name, (head, labels) in TABLES.items():
        table = rich(notebook, name, "text/html")
        assert table.startswith("<table>")
        assert head in table
        assert [label for label in labels if f">{label}</th>" not in table] == []
        # Whoever prints it, or has no browser, sees the text as before.
        assert "<" not in rich(notebook, name, "text/plain")
    # Signs of progress are shown, and leave nothing.
    assert printed(notebook, "save") == "before\nafter\n"
    assert printed(notebook, "error") == "caught 'mine'\n"
    for name, title in (("save", "saving"), ("long steps", "steps"), ("error", "steps")):
        assert f"{title}: " in printed(notebook, name, "stderr")
        assert printed(notebook, name, "stderr").endswith(" \r")
    # What is soon done or not wanted has no bar.
    for name in ("short steps", "no bar"):
        assert printed(notebook, name, "stderr") == ""


EXAMPLES = ROOT / "examples"
COURSE = sorted((EXAMPLES / "course").glob("[0-9]*.py"))
BLOG = [EXAMPLES / "blog" / "post.py", EXAMPLES / "blog" / "frames.py"]
TITLE = re.compile(r"^# %% (?!\[markdown\])(.+)$", re.MULTILINE)
NAMED = re.compile(r"\[`\w+\.py`\]\(\.\./examples/(\w+/\w+\.py)\): ([^|]+?) \|$", re.MULTILINE)


@pytest.mark.parametrize("path", [*COURSE, BLOG[0]], ids=lambda path: path.stem)
def test_script(path, tmp_path, monkeypatch):
    for package in ("dask.array", "matplotlib", "pandas", "skimage"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("MPLBACKEND", "agg")
    # As the interpreter does for a script; what is found there is not for other tests.
    monkeypatch.syspath_prepend(str(path.parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.modules.pop("timing", None)


def test_frames_of_one_client_stay_below_the_limit(tmp_path):
    pytest.importorskip("distributed")
    # A process of its own: what it takes of memory is measured.
    done = subprocess.run(
        [sys.executable, str(BLOG[1]), "20"], capture_output=True, text=True, check=False,
        cwd=tmp_path, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"ninepoint +max +\d+ .* GB", done.stdout)


@pytest.mark.parametrize(
    ("page", "paths"), [("course.md", COURSE), ("recipe.md", BLOG)], ids=["course", "blog"]
)
def test_every_cell_is_in_the_table_of_what_each_line_becomes(page, paths):
    text = (ROOT / "docs" / page).read_text()
    named = set(NAMED.findall(text))
    cells = {
        (f"{path.parent.name}/{path.name}", title)
        for path in paths
        for title in TITLE.findall(path.read_text())
    }
    assert named == cells


def test_a_notebook_is_made_of_scripts(tmp_path):
    for package in ("jupytext", "nbclient", "ipykernel"):
        pytest.importorskip(package)
    import nbformat

    (tmp_path / "twice.py").write_text("def twice(x):\n    return 2 * x\n")
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("# %% [markdown]\n# Doubled.\n\n# %% Twice\nfrom twice import twice\n")
    other.write_text(
        "# %% A stencil\nimport numpy as np\nimport ninepoint as npt\n\n\n"
        "@npt.stencil\ndef double(x):\n    return twice(x[0])\n\n\n"
        "# %% Its result\nprint(double(np.arange(3)))\n"
    )
    made = tmp_path / "made.ipynb"
    subprocess.run(
        [sys.executable, str(EXAMPLES / "notebook.py"), str(made), str(one), str(other)],
        check=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    cells = nbformat.read(made, as_version=4).cells
    assert [cell.cell_type for cell in cells] == ["markdown", "code", "code", "code"]
    assert [cell.get("execution_count") for cell in cells] == [None, 1, 2, 3]
    assert cells[-1].outputs[0].text == "[0 2 4]\n"
