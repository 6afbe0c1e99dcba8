"""CuPy and a GPU for these tests, or no tests.

    python -m pytest -m gpu tests/gpu                       on a machine that has a GPU
    NINEPOINT_STANDIN=1 python -m pytest -m gpu tests/gpu   a rehearsal of the tests themselves

The rehearsal takes the stand-in for CuPy of `tests/cuda`, which g++ compiles for, and few kernels.
"""

import os
import shutil
import sys

import pytest

import on_gpu

REHEARSAL = bool(os.environ.get("NINEPOINT_STANDIN"))


@pytest.fixture(scope="session")
def _found():
    """CuPy, if it can compute here."""
    if REHEARSAL:
        if shutil.which("g++") is None:
            pytest.skip("g++ compiles what a GPU would run")
        sys.path.insert(0, str(on_gpu.STANDIN))
    cupy = pytest.importorskip("cupy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"no GPU: {error}")
    if not count:
        pytest.skip("no GPU")
    return cupy


@pytest.fixture
def cupy(_found):
    """CuPy; what a test began is waited for, so that its mistakes are its own."""
    yield _found
    _found.cuda.runtime.deviceSynchronize()
    _found.get_default_memory_pool().free_all_blocks()


@pytest.fixture
def rehearsal():
    return REHEARSAL


@pytest.fixture
def on_a_gpu(cupy):
    """For tests of which no rehearsal knows: libraries, much memory, tools."""
    if REHEARSAL:
        pytest.skip("needs a GPU")
