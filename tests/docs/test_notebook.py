"""What the documentation shows works in a notebook too, after errors of any kind.

Every block of some pages, every script of the gallery and the demo is pasted as a cell into one
session of IPython, with an unrelated error between each two, whose traceback IPython shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import PAGES, blocks, without_gpu

pytest.importorskip("IPython")

ROOT = Path(__file__).parents[2]

# Fewer points and steps than the pictures need: here the compiler is tested.
SMALLER = {
    "gray_scott.py": ("steps=8000", "steps=80"),
    "demo.py": ("EXPOSURES = 4", "EXPOSURES = 1"),
}

# A new process: the shell would take over the hooks of this one.
SESSION = """
import contextlib, io, json, sys
from traitlets.config import Config
from IPython.core.interactiveshell import InteractiveShell

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
errors = [
    "undefined_name(3)", "1 / 0", "1 +",
    "def failing(values):\\n    return values[7]\\n\\nfailing([1, 2])",
]
for number, (name, cell) in enumerate(json.load(sys.stdin)):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        result = shell.run_cell(cell, store_history=True)
    assert result.success, f"{name}\\n{shown.getvalue()}"
    with contextlib.redirect_stdout(shown):
        result = shell.run_cell(errors[number % len(errors)], store_history=True)
    assert not result.success and "Error" in shown.getvalue()
print("done")
"""


def session(cells, folder, **more):
    """Run cells, each with its name, one after the other in a new session."""
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "IPYTHONDIR": str(folder), "MPLBACKEND": "agg", **more}
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr


# Pages on which each way to write a kernel is found.
PASTED = ("README", "start", "tutorial", "gufunc")


def test_pages(tmp_path):
    cells = [
        (f"{path.name}, line {block.line}", block.text)
        for path in PAGES
        if path.stem in PASTED
        for block in blocks(without_gpu(path.read_text()))
        if block.language == "python"
    ]
    session(cells, tmp_path)


def test_gallery_and_demo(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("skimage")
    cells = [("settings", "import matplotlib; matplotlib.rcParams['figure.dpi'] = 20")]
    cells.append(("arguments", "import sys; sys.argv[1:] = ['demo-output']"))
    for path in (*sorted((ROOT / "examples/gallery").glob("*.py")), ROOT / "examples/demo.py"):
        text = path.read_text()
        if path.name in SMALLER:
            before, after = SMALLER[path.name]
            assert before in text
            text = text.replace(before, after)
        cells.append((path.name, text))
    session(cells, tmp_path)


def test_cells_that_import_define_and_use(tmp_path):
    kernel = "@npt.stencil\ndef f(x):\n    return math.sqrt(x[0]) + np.hypot(x[1], 2.0)\n"
    imports = "import math, numpy as np, ninepoint as npt\n"
    check = "assert f(np.ones(3))[0] == 1 + math.sqrt(5)"
    session(
        [
            ("in one cell", imports + kernel + check),
            ("once more", imports + kernel + check),
            ("after a magic", "%pwd\n" + imports + kernel + check),
            ("timed", "%%time\n" + imports + kernel + check),
            ("timed once more", "%%time\n" + imports + kernel.replace("sqrt", "cbrt")),
            ("changed", "assert f(np.full(3, 8.0)).tolist()[0] == 2 + math.hypot(8, 2)"),
            ("captured", "%%capture\n" + imports + kernel + check),
            ("decorated later", "import math\ndef g(x):\n    return math.exp(x[0])\n"),
            ("later", "s = npt.stencil(g)\nassert s(np.zeros(2)).tolist() == [1, 1]"),
            ("two of a name", "def g(x):\n    return x[0]\nbefore = npt.stencil(g)\n"
             "def g(x):\n    return 2 * x[0]\nafter = npt.stencil(g)\n"
             "assert before(np.ones(1))[0] == 1 and after(np.ones(1))[0] == 2"),
            ("lambdas", "import math\na, b = npt.stencil(lambda x: math.sin(x[0])), "
             "npt.stencil(lambda x: math.cos(x[0]))\nassert a(np.zeros(1)) == 0 < b(np.zeros(1))"),
            ("annotations", "from __future__ import annotations"),
            ("annotated", "import math\n@npt.stencil(\n    boundary='nearest',\n)\n"
             "def h(x: np.ndarray, k: float = 2) -> float:\n    t: float = math.floor(x[1])\n"
             "    return k * t\nassert h(np.arange(3.0)).tolist() == [2, 4, 4]"),
            ("helper", "def half(v):\n    return v / 2\n"),
            ("its user", "@npt.stencil\ndef f(x):\n    return half(x[0])"),
            ("redefined", "def half(v):\n    return v / 4\n"),
            ("kept", "assert f(np.ones(1))[0] == f.debug(np.ones(1))[0] == 0.5"),
        ],
        tmp_path,
    )  # fmt: skip


def test_a_tool_that_rewrites_every_cell(tmp_path):
    # As SymPy's session does, which makes exact numbers of those in the text.
    session(
        [
            ("imports", "import ast, numpy as np, ninepoint as npt"),
            ("tool", "class Integers(ast.NodeTransformer):\n"
             "    def visit_Constant(self, node):\n"
             "        if not isinstance(node.value, int):\n            return node\n"
             "        name = ast.Name('int', ast.Load())\n"
             "        return ast.copy_location(ast.Call(name, [node], []), node)\n"
             "get_ipython().ast_transformers.append(Integers())"),
            ("kernel", "@npt.stencil\ndef f(x):\n    return x[1] + 3 * x[0]\n"
             "assert f(np.arange(3)).tolist() == [1, 5, 0]"),
        ],
        tmp_path,
    )  # fmt: skip


# What a notebook shows: its kernel runs in a process of its own, as in front of a person.

NOTEBOOK = """
import json, sys, warnings
warnings.simplefilter("ignore")
import nbformat
from nbclient import NotebookClient

cells = json.load(sys.stdin)
shown = [[] for _ in cells]

class Client(NotebookClient):
    # What is taken away again is no output in the end.
    def process_message(self, message, cell, cell_index):
        data = message["content"].get("data")
        if message["msg_type"] in ("display_data", "update_display_data"):
            shown[cell_index].append(data)
        return super().process_message(message, cell, cell_index)

book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
Client(book, timeout=300, kernel_name="python3").execute()
outputs = [cell["outputs"] for cell in book.cells]
print(json.dumps({"outputs": outputs, "shown": shown}))
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """The outputs of cells in the end, and all that was shown meanwhile, each by its name."""
    pytest.importorskip("ipykernel")
    pytest.importorskip("nbclient")
    folder = tmp_path_factory.mktemp("notebook")
    environment = {
        **os.environ,
        "IPYTHONDIR": str(folder),
        "JUPYTER_RUNTIME_DIR": str(folder),
        "JUPYTER_PLATFORM_DIRS": "1",
        # A kernel that was compiled before gives no sign of it.
        "NINEPOINT_CACHE_DIR": str(folder / "cache"),
        "NINEPOINT_QUIET": "",
        # A cell changes a limit.
        "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK],
        input=json.dumps(list(CELLS.values())),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    pairs = zip(found["outputs"], found["shown"], strict=True)
    return dict(zip(CELLS, pairs, strict=True))


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

image = np.ones((60, 80))
""",
    "compile": """
from seams import limits

with limits(announced_below_cells_seconds=0.0):
    result = smooth(image)
""",
    "picture": "smooth",
    "picture of stages": "edges",
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
    "long steps": """
def wait(step, state):
    time.sleep(0.4)

state = smooth.iterate(image, steps=6, every=1, callback=wait)
""",
    "no bar": "smooth.iterate(image, steps=6, every=1, callback=wait, progress=False)[0, 0]",
    "error": """
def fail(step, state):
    time.sleep(1.1)
    raise KeyError("mine")

try:
    smooth.iterate(image, steps=3, every=1, callback=fail, progress=True)
except KeyError as error:
    print("caught", error)
""",
}


def rich(notebook, name, kind):
    """What a cell shows in the end, of one kind."""
    (output,) = [one for one in notebook[name][0] if one["output_type"] == "execute_result"]
    data = output["data"][kind]
    return data if isinstance(data, str) else "".join(data)


def printed(notebook, name):
    return "".join(one["text"] for one in notebook[name][0] if one["output_type"] == "stream")


def left(notebook, name):
    """What else than prints and results a cell shows in the end."""
    found = [one["data"] for one in notebook[name][0] if one["output_type"] == "display_data"]
    return [data for data in found if data != {"text/html": ""}]


def test_compiling_gives_a_sign_that_goes(notebook):
    _, shown = notebook["compile"]
    assert [data["text/plain"] for data in shown[:-1]] == ["compiling smooth for float64 ..."]
    assert left(notebook, "compile") == []
    assert printed(notebook, "compile") == ""


def test_a_stencil_is_drawn(notebook):
    picture = rich(notebook, "picture", "image/svg+xml")
    for words in (
        "smooth(x, weight=2)",
        "axis -2, downward: border reflect",
        "axis -1, to the right: nearest before, mirror after",
    ):
        assert f">{words}</text>" in picture
    assert rich(notebook, "picture", "text/plain") == "<stencil smooth(x, weight=2)>"
    picture = rich(notebook, "picture of stages", "image/svg+xml")
    for words in ("edges(x, k=3)", "x", "low", "low = smooth(x, weight=k)"):
        assert f">{words}</text>" in picture


def test_help_shows_the_users_words_and_parameters(notebook):
    words = printed(notebook, "help")
    assert "Take the mean of <three> points." in words
    assert "smooth(x, weight=2, *, boundary=None" in words


@pytest.mark.parametrize(
    ("name", "head", "labels"),
    [
        ("explain", "smooth: x uint8 -&gt; float64", ("path", "looks", "border", "memory")),
        ("explain stages", "edges: x float64 -&gt; float64", ("pass 1", "measured")),
        ("bench", "smooth(60x80 float64)", ("a call", "points", "of a copy", "computed by")),
        ("tune", "What was tried", ("best",)),
        ("info", "What ninepoint runs on", ("numpy", "cores", "cache")),
    ],
)
def test_tables(notebook, name, head, labels):
    table = rich(notebook, name, "text/html")
    assert table.startswith("<table>")
    assert f"<b>{head}</b>" in table
    for label in labels:
        assert f">{label}</th>" in table
    # Whoever prints it, or has no browser, sees the text as before.
    assert "<" not in rich(notebook, name, "text/plain")


def test_progress_is_shown_and_leaves_nothing(notebook):
    _, shown = notebook["save"]
    assert shown[0]["text/plain"] == "saving 0/5"
    assert "<progress" in shown[0]["text/html"]
    assert left(notebook, "save") == []
    assert printed(notebook, "save") == "before\nafter\n"
    _, shown = notebook["long steps"]
    said = [data["text/plain"] for data in shown[:-1]]
    assert said
    assert all(line.startswith("steps ") for line in said)
    assert "6/6" in said[-1] or "5/6" in said[-1]
    for name in ("long steps", "error"):
        assert left(notebook, name) == []
        assert notebook[name][1][-1] == {"text/html": ""}
    assert printed(notebook, "error") == "caught 'mine'\n"


def test_what_is_soon_done_or_not_wanted_has_no_bar(notebook):
    for name in ("short steps", "no bar"):
        said = [data.get("text/plain", "") for data in notebook[name][1]]
        assert not [line for line in said if line.startswith("steps")]
