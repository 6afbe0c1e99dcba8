"""CuPy and a GPU for these tests, or no tests.

    python -m pytest -m gpu tests/gpu                       on a machine that has a GPU
    NINEPOINT_STANDIN=1 python -m pytest -m gpu tests/gpu   a rehearsal of the tests themselves

The rehearsal takes the stand-in for CuPy of `tests/cuda`, which g++ compiles for, and few kernels.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path

import pytest

REHEARSAL = bool(os.environ.get("NINEPOINT_STANDIN"))


@pytest.fixture(scope="session")
def _found():
    """CuPy, if it can compute here."""
    if REHEARSAL:
        if shutil.which("g++") is None:
            pytest.skip("g++ compiles what a GPU would run")
        sys.path.insert(0, str(Path(__file__).parents[1] / "cuda" / "standin"))
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
def torch(cupy):
    if REHEARSAL:
        pytest.skip("torch knows no stand-in")
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return module


@pytest.fixture
def jax(cupy):
    if REHEARSAL:
        pytest.skip("JAX knows no stand-in")
    # It would take most of the memory at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    module = pytest.importorskip("jax")
    if importlib.import_module("jax").default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    return module
