"""What is missing on a machine is said in one sentence, with its cure."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import ninepoint as npt
import seams

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
    seams.forget_device()
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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where machine code is kept, of which there is none yet."""
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def crossing():
    """The same kernel again, of which nothing is prepared yet."""

    @npt.stencil(boundary="nearest")
    def cross(x):
        return (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1]) / 4

    return cross


def test_without_a_compiler(cupy, folder):
    cupy.fake.without_compiler = True
    assert said(lambda: crossing()(X, device="cuda")) == (
        RuntimeError,
        "CUDA's compiler NVRTC cannot be loaded (Failure finding libnvrtc.so.13). Install it "
        "with: pip install 'ninepoint[cuda]'",
    )


def test_a_gpu_that_the_compiler_does_not_know(cupy, folder):
    cupy.fake.architecture = "37"
    kind, words = said(lambda: crossing()(X, device="cuda"))
    assert kind is RuntimeError
    assert re.fullmatch(
        r"CUDA's compiler NVRTC 13\.0\S* does not know GPUs of architecture 37; install a newer "
        "one: pip install -U nvidia-cuda-nvrtc",
        words,
    )


REPORT = (
    "This is a mistake of ninepoint: please report it, with the kernel and with what 'ninepoint "
    "info' prints; arrays of NumPy, as cupy.asnumpy(x) gives, are computed on the CPU meanwhile."
)


def test_a_text_that_the_compiler_refuses(cupy, folder):
    cupy.fake.refusing = 'cross.cu(7): error: identifier "oops" is undefined'
    kind, words = said(lambda: crossing()(X, device="cuda"))
    assert kind is RuntimeError
    assert re.fullmatch(
        r"CUDA's compiler NVRTC 13\.0\S* refuses the text of 'cross' for architecture \d+: "
        '.*error: .*"oops" is undefined' + re.escape(f". {REPORT}"),
        words,
    )


def test_more_arguments_than_an_old_compiler_takes(cupy, folder):
    cupy.fake.refusing = (
        "ptxas error : Formal parameter space overflowed (4200 bytes required, max 4096 bytes)"
    )
    _, words = said(lambda: crossing()(X, device="cuda"))
    assert words.startswith(
        "kernel 'cross' has too many arguments, and CUDA before 12.1 takes 4,096"
    )


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


# What is kept on disk.


def test_machine_code_is_kept(cupy, folder):
    there = cupy.asarray(X)
    wanted = crossing()(there).get()
    (file,) = folder.glob("*.cubin")
    assert file.name.startswith("cross_")
    assert cupy.fake.compiled == 1
    seams.forget_device()
    np.testing.assert_array_equal(crossing()(there).get(), wanted)
    assert cupy.fake.compiled == 1
    # Of another GPU it is loaded, of another kind of GPU compiled.
    with cupy.cuda.Device(1):
        np.testing.assert_array_equal(crossing()(cupy.asarray(X)).get(), wanted)
        assert cupy.fake.compiled == 1
        cupy.fake.architecture = "120"
        seams.forget_device()
        np.testing.assert_array_equal(crossing()(cupy.asarray(X)).get(), wanted)
    assert cupy.fake.compiled == 2
    assert len(list(folder.glob("*.cubin"))) == 2
    assert cupy.fake.device == 0


def test_damaged_machine_code_is_made_anew(cupy, folder):
    there = cupy.asarray(X)
    wanted = crossing()(there).get()
    (file,) = folder.glob("*.cubin")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"?")
    seams.forget_device()
    with pytest.warns(RuntimeWarning, match=r"compiles cross_\w+ anew: its machine code is dam"):
        np.testing.assert_array_equal(crossing()(there).get(), wanted)
    assert cupy.fake.compiled == 2
