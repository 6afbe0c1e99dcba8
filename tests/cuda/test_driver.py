"""What is missing on a machine is said in one sentence, with its cure."""

from __future__ import annotations

import importlib.metadata
import sys

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.backends.cuda import driver

X = np.random.default_rng(0).random((12, 33)).astype("float32")


@npt.stencil(boundary="nearest")
def cross(x):
    return (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1]) / 4


def said(call):
    with pytest.raises((ImportError, MemoryError, RuntimeError)) as caught:
        call()
    return type(caught.value), str(caught.value)


def test_without_cupy(monkeypatch):
    driver.cupy.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", None)
    kind, words = said(lambda: cross(X, device="cuda"))
    assert kind is ImportError
    assert words.startswith("To compute on a GPU needs CuPy, which cannot be imported (")
    assert words.endswith("). Install it with: pip install 'ninepoint[cuda]'")


@pytest.mark.parametrize(
    ("devices", "version", "words"),
    [
        (
            0,
            13000,
            "there is no GPU to compute on (cudaErrorNoDevice: no CUDA-capable device is "
            "detected); give arrays of NumPy, which are computed on the CPU.",
        ),
        (
            -1,
            0,
            "there is no GPU to compute on (no driver of NVIDIA is installed); give arrays of "
            "NumPy, which are computed on the CPU.",
        ),
        (
            -1,
            12080,
            "the GPU's driver is too old: it is for CUDA 12.8, and CuPy was made with CUDA 13.2; "
            "install a newer driver, or the CuPy of an older CUDA.",
        ),
    ],
)
def test_without_a_gpu(cupy, devices, version, words):
    cupy.fake.devices, cupy.fake.driver = devices, version
    assert said(lambda: cross(X, device="cuda")) == (RuntimeError, words)
    # It is asked again: a driver may come.
    cupy.fake.devices = 1
    np.testing.assert_array_equal(cross(X, device="cuda"), cross.debug(X))


def test_without_room(cupy):
    there = cupy.asarray(X)
    cupy.fake.room = cupy.fake.used + 1000
    kind, words = said(lambda: cross(there))
    assert kind is MemoryError
    assert words == (
        f"the GPU has no room: 1,584 bytes are needed at once, and 1,000 of {cupy.fake.room:,} "
        "are free; give smaller arrays or a part of the stack, or let go of what CuPy keeps with "
        "cupy.get_default_memory_pool().free_all_blocks()."
    )


def test_without_a_compiler(cupy, monkeypatch):
    from cupy_backends.cuda.libs import nvrtc

    def missing(*_):
        raise RuntimeError("Failure finding libnvrtc.so.13\n")

    monkeypatch.setattr(nvrtc, "createProgram", missing)
    assert said(lambda: driver.compiled("", "k", "90", ())) == (
        RuntimeError,
        "CUDA's compiler NVRTC cannot be loaded (Failure finding libnvrtc.so.13). Install it "
        "with: pip install 'ninepoint[cuda]'",
    )


def test_a_gpu_that_the_compiler_does_not_know(cupy, monkeypatch):
    def none(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", none)
    assert said(lambda: driver.compiled("", "k", "37", ())) == (
        RuntimeError,
        "CUDA's compiler NVRTC 13.0 does not know GPUs of architecture 37; install a newer one: "
        "pip install -U nvidia-cuda-nvrtc",
    )


def test_a_text_that_is_refused_is_a_mistake_of_ours(cupy):
    with pytest.raises(AssertionError, match="NVRTC refuses a text of ninepoint"):
        driver.compiled("oops", "k", "90", ())


# What is kept on disk.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def anew():
    from ninepoint.arrays.cuda import calls
    from ninepoint.backends.cuda import cubins

    cubins._modules.clear()
    calls._runs.clear()


def test_machine_code_is_kept(cupy, folder):

    there = cupy.asarray(X)
    wanted = cross(there).get()
    (file,) = folder.glob("*.cubin")
    assert file.name.startswith("cross_")
    assert cupy.fake.compiled == 1
    anew()
    # Not the prepared call, which holds what was loaded.
    again = npt.stencil(boundary="nearest")(cross.__wrapped__)
    again._prepared.clear()
    np.testing.assert_array_equal(again(there).get(), wanted)
    assert cupy.fake.compiled == 1
    # Of another GPU it is loaded, of another kind of GPU compiled.
    with cupy.cuda.Device(1):
        np.testing.assert_array_equal(cross(cupy.asarray(X)).get(), wanted)
        assert cupy.fake.compiled == 1
        cupy.fake.architecture = "120"
        anew()
        again._prepared.clear()
        np.testing.assert_array_equal(again(cupy.asarray(X)).get(), wanted)
    assert cupy.fake.compiled == 2
    assert len(list(folder.glob("*.cubin"))) == 2
    assert driver.current() == 0


def test_damaged_machine_code_is_made_anew(cupy, folder):
    there = cupy.asarray(X)
    again = npt.stencil(boundary="nearest")(cross.__wrapped__)
    wanted = again(there).get()
    (file,) = folder.glob("*.cubin")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"?")
    anew()
    again._prepared.clear()
    with pytest.warns(RuntimeWarning, match=r"compiles cross_\w+ anew: its machine code is dam"):
        np.testing.assert_array_equal(again(there).get(), wanted)
    assert cupy.fake.compiled == 2
