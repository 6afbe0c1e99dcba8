"""What Python and IPython show of the public names: `dir`, `help`, signatures, completed names."""

from __future__ import annotations

import inspect
import json
import os
import pydoc
import subprocess
import sys

import numpy as np
import pytest

import ninepoint as npt


@npt.stencil
def smooth(x, weight=1.0):
    """Add the neighbours."""
    return weight * (x[-1] + x[1])


@npt.ufunc
def half(x):
    return x / 2


@npt.gufunc("(n)->()")
def total(x, scale=1):
    return np.sum(x) * scale


@pytest.mark.parametrize("module", [npt, npt.filters, npt.shapes])
def test_modules_have_their_public_names_only(module):
    smooth(np.zeros(5))
    assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize("function", [smooth, half, total])
def test_what_is_decorated_shows_no_internals(function):
    shown = {name for name in dir(function) if not name.startswith("_")}
    assert shown.isdisjoint({"definition", "kind", "with_numbers"})
    assert {"debug", "explain"} <= shown


CALL = (
    "boundary=None, cval=None, axes=None, dims=None, out=None, dtype=None, overflow=None, "
    "every=None, upsample=None, threads=None, device=None)"
)
GUFUNC = (
    "out=None, axes=None, axis=None, keepdims=None, dtype=None, sizes=None, dims=None, "
    "threads=None)"
)
FILTER = (
    "boundary='reflect', cval=0, axes=None, dims=None, out=None, dtype=None, every=None, "
    "threads=None, device=None)"
)


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (smooth, f"(x, weight=1.0, *, {CALL}"),
        (half, "(x, *, out=None, dtype=None, overflow=None, threads=None, device=None)"),
        (total, f"(x, scale=1, *, {GUFUNC}"),
        (npt.filters.gaussian, f"(x, sigma=1.0, truncate=4.0, *, {FILTER}"),
        (npt.ufunc, "(function, /, *, dtype=None, overflow=None, fastmath=False, schedule=None)"),
    ],
)
def test_signatures_have_the_options(function, signature):
    assert str(inspect.signature(function)) == signature
    assert signature in pydoc.plain(pydoc.render_doc(function))


def test_help():
    shown = pydoc.plain(pydoc.render_doc(smooth))
    assert "Add the neighbours." in shown
    shown = pydoc.plain(pydoc.render_doc(npt.stencil))
    assert "object at 0x" not in shown
    for word in (
        "reflect",
        "keep",
        "valid",
        "mirror",
        "wrap",
        "dirichlet",
        "overflow : {",
        "cval",
    ):
        assert word in shown


SESSION = """
import json, sys
from traitlets.config import Config
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
first, *typed = json.load(sys.stdin)
assert shell.run_cell(first).success
found = {}
for shell.Completer.use_jedi in (True, False):
    with provisionalcompleter():
        for text in typed:
            made = {one.text for one in shell.Completer.completions(text, len(text))}
            found[f"{text} {shell.Completer.use_jedi}"] = sorted(made)
json.dump(found, sys.stdout)
"""
CELL = """
import ninepoint as npt
@npt.stencil
def smooth(x, weight=1.0):
    return weight * (x[-1] + x[1])
@npt.gufunc("(n)->()")
def total(x):
    return x[0]
x = 3
"""
TYPED = {
    "smooth(x, bou": "boundary=",
    "smooth(x, wei": "weight=",
    "smooth.iterate(x, ste": "steps=",
    "total(x, keep": "keepdims=",
    "npt.filters.median(x, bou": "boundary=",
    "npt.filters.median(x, foot": "footprint=",
    "npt.stencil(bou": "boundary=",
}


def test_options_are_completed_in_a_notebook(tmp_path):
    pytest.importorskip("jedi")
    done = subprocess.run(
        [sys.executable, "-c", SESSION], env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        input=json.dumps([CELL, *TYPED]), capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found == {
        f"{text} {jedi}": [end] for jedi in (True, False) for text, end in TYPED.items()
    }
