"""CuPy for these tests: a stand-in that runs on the CPU, forgotten after each test."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ninepoint import device_groups
from ninepoint.arrays.cuda import calls, work
from ninepoint.backends.cuda import cubins, driver

STANDIN = Path(__file__).with_name("standin")
_modules = {}


def _forget():
    driver.cupy.cache_clear()
    driver._told_by_pip.cache_clear()
    driver._told_by_nvrtc.cache_clear()
    driver.processors.cache_clear()
    for known in (cubins._modules, calls._runs, work._uploaded, work._sources):
        known.clear()
    device_groups._settled.clear()
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
