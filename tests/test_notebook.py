"""What the documentation shows works in a notebook too, after errors of any kind.

Every block of the pages, every script of the gallery and the demo is pasted as a cell into one
session of IPython, with an unrelated error between each two, whose traceback IPython shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from test_docs import PAGES, blocks

pytest.importorskip("IPython")

ROOT = Path(__file__).parent.parent

# Fewer points and steps than the pictures need: here the compiler is tested.
SMALLER = {
    "gray_scott.py": ("steps=8000", "steps=80"),
    "heat.py": ("(33, 65, 129, 257)", "(33, 65)"),
    "wave.py": ("n = 400", "n = 300"),
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


def test_pages(tmp_path):
    cells = [
        (f"{path.name}, line {block.line}", block.text)
        for path in PAGES
        for block in blocks(path.read_text())
        if block.language == "python"
    ]
    session(cells, tmp_path)


@pytest.mark.slow
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
