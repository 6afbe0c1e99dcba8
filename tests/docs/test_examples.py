"""The course and the blog, with ninepoint: every script runs, and its numbers are the original's.

The scripts check the numbers themselves.  The pages that say what each line becomes name every
cell of them, and no other.
"""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
