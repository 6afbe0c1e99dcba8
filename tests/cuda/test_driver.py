"""What is missing on a machine is said in one sentence, with its cure."""

from __future__ import annotations

import importlib.metadata
import re
import sys

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.backends.cuda import driver

X = np.random.default_rng(0).random((12, 33)).astype("float32")


@npt.stencil(boundary="nearest")
def cross(x):
    return (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1]) / 4


@npt.stencil
def across(x):
    return x[0, -1] - x[0, 1]


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


REPORT = (
    "This is a mistake of ninepoint: please report it, with the kernel and with what 'ninepoint "
    "info' prints; arrays of NumPy, as cupy.asnumpy(x) gives, are computed on the CPU meanwhile."
)


def test_a_text_that_the_compiler_refuses(cupy):
    kind, words = said(lambda: driver.compiled("oops", "k", "90", ()))
    assert kind is RuntimeError
    assert re.fullmatch(
        r"CUDA's compiler NVRTC 13\.0\S* refuses the text of 'k' for architecture 90: .*error: .*"
        + re.escape(f". {REPORT}"),
        words,
    )


def test_more_arguments_than_an_old_compiler_takes(cupy, monkeypatch):
    from cupy_backends.cuda.libs import nvrtc

    log = "ptxas error : Formal parameter space overflowed (4200 bytes required, max 4096 bytes)"
    monkeypatch.setattr(nvrtc, "getProgramLog", lambda _: log)
    _, words = said(lambda: driver.compiled("oops", "k", "90", ()))
    assert words.startswith("kernel 'k' has too many arguments, and CUDA before 12.1 takes 4,096")


@pytest.mark.parametrize(
    ("status", "size", "kind", "words"),
    [
        (
            1,
            0,
            RuntimeError,
            "the GPU does not start kernel 'NAME' (CUDA_ERROR_INVALID_VALUE: invalid argument). "
            f"{REPORT}",
        ),
        (
            1,
            5000,
            RuntimeError,
            "kernel 'NAME' has SIZE bytes of arguments, and CUDA before 12.1 takes 4,096 bytes "
            "(CUDA_ERROR_INVALID_VALUE: invalid argument); install a newer driver and NVRTC, or "
            "give the scalars as one small array that standard_indexing names.",
        ),
        (
            2,
            0,
            MemoryError,
            "the GPU has no room: kernel 'NAME' needs memory beside its arrays, and FREE of "
            "17,179,869,184 are free; give smaller arrays or a part of the stack, or let go of "
            "what CuPy keeps with cupy.get_default_memory_pool().free_all_blocks().",
        ),
        (
            701,
            0,
            RuntimeError,
            "the GPU does not start kernel 'NAME' (more registers or shared memory than the GPU "
            f"has). {REPORT}",
        ),
        (
            702,
            0,
            RuntimeError,
            "the GPU ended a kernel that ran longer than its driver allows "
            "(CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out and was terminated), and is lost to "
            "this process: start Python anew, and give a part of the stack, or a GPU that no "
            "display hangs on.",
        ),
    ],
)
def test_a_launch_that_fails(cupy, limited, status, size, kind, words):
    there = cupy.asarray(X)
    wanted = across(there)
    cupy.fake.failing = status
    if size:
        limited(argument_bytes=100)
        words = words.replace("4,096", "100")
    found, text = said(lambda: across(there))
    assert found is kind
    free = f"{cupy.fake.room - cupy.fake.used:,}"
    text = re.sub(r"has \d+ bytes of", "has SIZE bytes of", text)
    assert text.replace("kernel_across_plain", "NAME") == words.replace("FREE", free)
    cupy.fake.failing = 0
    np.testing.assert_array_equal(across(there).get(), wanted.get())


def test_a_gpu_that_is_lost(cupy):
    cupy.fake.broken = True
    assert said(lambda: across(X, device="cuda")) == (
        RuntimeError,
        "the GPU is lost to this process (cudaErrorIllegalAddress: an illegal memory access was "
        "encountered): it broke off in a kernel that was started before, of ninepoint or of "
        "something else, or is no longer there; start Python anew, and see with nvidia-smi that "
        "it is there. If it happens again where only ninepoint uses the GPU, please report it.",
    )


def test_the_compilers_version_is_its_own_once_it_is_loaded(cupy, monkeypatch):
    versions = {"nvidia-cuda-nvrtc": "12.9.86"}
    monkeypatch.setattr(importlib.metadata, "version", versions.__getitem__)
    assert driver.compiler() == "12.9.86"
    driver._told_by_nvrtc()
    assert driver.compiler() == "13.0"
    driver._told_by_pip.cache_clear()
    versions["nvidia-cuda-nvrtc"] = "13.0.88"
    assert driver.compiler() == "13.0.88"


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
