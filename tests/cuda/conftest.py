"""CuPy for these tests: a stand-in that runs on the CPU, forgotten after each test."""

import shutil
import sys
from pathlib import Path

import pytest

import seams

STANDIN = Path(__file__).with_name("standin")
_modules = {}


def _forget():
    seams.forget_device()
    for name in [n for n in sys.modules if n.partition(".")[0] in ("cupy", "cupy_backends")]:
        _modules[name] = sys.modules.pop(name)


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in for CuPy, as it is at first."""
    if shutil.which("g++") is None:
        pytest.skip("g++ compiles what a GPU would run")
    monkeypatch.syspath_prepend(str(STANDIN))
    _forget()
    sys.modules.update(_modules)
    import cupy

    cupy.fake.reset()
    yield cupy
    _forget()
