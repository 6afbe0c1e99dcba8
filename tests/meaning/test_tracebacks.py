"""A traceback of a user's mistake shows the user's frames only; our own failures show them all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.base import tracebacks

PACKAGE = npt.__file__.removesuffix("__init__.py")

KERNELS = """
import numpy as np
import ninepoint as npt

@npt.stencil
def smooth(x, weight=1):
    return weight * (x[-1] + x[1])

@npt.ufunc
def half(x):
    return x / 2

@npt.gufunc("(n)->()")
def total(x):
    return np.sum(x)

@npt.gufunc("(n)->(n)")
def changed(x):
    x[0] = 1
    return x

def square(x):
    return x[0] ** 2

def mixed(x):
    return x[0, 1] + x[1]

x = np.zeros(5)
"""
# One for each door, and for each way in which errors come to it.
MISTAKES = [
    "npt.stencil(mixed)",
    "npt.stencil(boundary='wrap')(mixed)",
    "npt.stencil(square, bondary='wrap')",
    "npt.ufunc(square)",
    "npt.gufunc('(n->()')",
    "npt.gufunc('(n),(n)->()')(square)",
    "smooth(x, boundary='reflet')",
    "smooth(x, x)",
    "smooth(x, cval=np.nan, dtype='int8', overflow='wrap')",
    "smooth(x, out=x[:3])",
    "smooth(x, upsample=0)",
    "smooth(x, axes=1)",
    "smooth.iterate(x, steps=-1)",
    "smooth.explain('float32', 'float32')",
    "smooth.bench(3)",
    "smooth.debug(x, boundary=3)",
    "half(x, 1)",
    "half(x, boundary='wrap')",
    "half('text')",
    "total(3)",
    "changed(x)",
    "npt.filters.gaussian(x, -1)",
    "npt.filters.median(x, boundary='reflet')",
    "npt.shapes.disk(-1)",
    "npt.dirichlet('no')",
    "npt.spacing('x')",
    "npt.index(x)",
    "npt.imread('none.png')",
    "npt.open('none.zarr')",
    "npt.save(x, '')",
    "npt.imsave(x, 'x.xyz')",
    "npt.lazy('text')",
]


@pytest.fixture
def cut(monkeypatch):
    monkeypatch.delenv("NINEPOINT_TRACEBACKS", raising=False)


def ours(lines):
    return sum(line.count(f'File "{PACKAGE}') for line in lines)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_shows_no_frame_of_ours(mistake, cut, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(KERNELS + mistake, encoding="utf-8")
    with pytest.raises(Exception) as caught:  # noqa: PT011 (whichever it is)
        exec(compile(file.read_text(), str(file), "exec"), {"__name__": "mine"})
    lines = traceback.format_exception(caught.value)
    assert ours(lines) == 0
    assert f'File "{file}", line {KERNELS.count(chr(10)) + 1}' in "".join(lines)
    assert "direct cause" not in "".join(lines)


def test_what_a_user_was_handling_is_shown(cut):
    smooth = npt.stencil(lambda x: x[-1] + x[1])

    def handled():
        try:
            raise KeyError("the user's")
        except KeyError:
            smooth(np.zeros(3), boundary="reflet")

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

    def user():
        raise ValueError("a mistake in a function that ninepoint calls")

    smooth = npt.stencil(lambda x: x[-1] + x[1])
    with pytest.raises(AssertionError) as caught:
        asserts()
    assert ours(traceback.format_exception(caught.value)) == 1
    with pytest.raises(TypeError) as caught:
        foreign()
    assert ours(traceback.format_exception(caught.value)) == 1
    with pytest.raises(ValueError, match="that ninepoint calls") as caught:
        smooth.iterate(np.zeros(3), steps=2, callback=lambda *_: user())
    assert ours(traceback.format_exception(caught.value)) > 1
    monkeypatch.setenv("NINEPOINT_TRACEBACKS", "whole")
    with pytest.raises(ValueError, match="reflet") as caught:
        smooth(np.zeros(3), boundary="reflet")
    assert ours(traceback.format_exception(caught.value)) > 1


# A new process: the shell would take over the hooks of this one.
SESSION = """
import contextlib, io, json, sys
from traitlets.config import Config
from IPython.core.interactiveshell import InteractiveShell

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
first, *cells = json.load(sys.stdin)
assert shell.run_cell(first).success
printed = []
for cell in cells:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert not shell.run_cell(cell).success
    printed.append(shown.getvalue())
json.dump(printed, sys.stdout)
"""


def test_in_a_notebook(cut, tmp_path):
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-c", SESSION], env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        input=json.dumps([KERNELS, *MISTAKES]), capture_output=True, text=True, check=True,
    )  # fmt: skip
    for mistake, printed in zip(MISTAKES, json.loads(done.stdout), strict=True):
        assert PACKAGE not in printed, mistake
        assert len(printed.splitlines()) < 16, printed
