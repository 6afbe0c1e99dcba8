"""A traceback of a user's mistake shows the user's frames only; our own failures show them all."""

import traceback

import numpy as np
import pytest

import ninepoint as npt
from ipython_session import session
from ninepoint.base import tracebacks

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
    "npt.stencil(mixed)",
    "npt.stencil(boundary='wrap')(mixed)",
    "npt.stencil(square, bondary='wrap')",
    "npt.ufunc(square)",
    "npt.gufunc('(n),(n)->()')(square)",
    "smooth(x, boundary='reflet')",
    "smooth(x, x)",
    "smooth(x, cval=np.nan, dtype='int8', overflow='wrap')",
    "smooth(x, out=x[:3])",
    "smooth.iterate(x, steps=-1)",
    "smooth.explain('float32', 'float32')",
    "smooth.bench(3)",
    "smooth.debug(x, boundary=3)",
    "half(x, 1)",
    "half('text')",
    "total(3)",
    "changed(x)",
    "npt.filters.median(x, boundary='reflet')",
    "npt.shapes.disk(-1)",
    "npt.dirichlet('no')",
    "npt.spacing('x')",
    "npt.index(x)",
    "npt.imread('none.png')",
    "npt.open('none.zarr')",
    "npt.save(x, '')",
    "npt.lazy('text')",
]


@pytest.fixture
def cut(monkeypatch):
    monkeypatch.delenv("NINEPOINT_TRACEBACKS", raising=False)


def ours(lines):
    return sum(line.count(f'File "{PACKAGE}') for line in lines)


def test_a_mistake_shows_no_frame_of_ours(cut, tmp_path):
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


def test_what_a_user_was_handling_is_shown(cut):
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
