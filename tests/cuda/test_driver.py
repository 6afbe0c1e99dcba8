"""What is missing on a machine is said in one sentence, with its cure; machine code is kept."""

import sys

import pytest
from cuda_stencils import X, turn

import ninepoint as npt
import seams
from compared import refuses
from on_gpu import same

X = X[0, :12]


def said(call):
    with pytest.raises((ImportError, MemoryError, RuntimeError)) as caught:
        call()
    return type(caught.value), str(caught.value)


def test_without_cupy(monkeypatch):
    seams.forget_device()
    monkeypatch.setitem(sys.modules, "cupy", None)
    kind, words = said(lambda: turn(X, device="cuda"))
    assert kind is ImportError
    assert words.startswith("To compute on a GPU needs CuPy, which cannot be imported (")
    assert words.endswith("). Install it with: pip install 'ninepoint[cuda]'")


@pytest.mark.parametrize(("devices", "version", "words"), [
    (0, 13000, r"there is no GPU to compute on \(cudaErrorNoDevice: .*; give arrays"),
    (-1, 0, r"there is no GPU to compute on \(no driver of NVIDIA is installed\); give"),
    (-1, 12080, "driver is too old: it is for CUDA 12.8, and CuPy was made with CUDA 13.2; "),
])  # fmt: skip
def test_without_a_gpu(cupy, devices, version, words):
    cupy.fake.devices, cupy.fake.driver = devices, version
    refuses(RuntimeError, words, turn, X, device="cuda")
    # It is asked again: a driver may come.
    cupy.fake.devices = 1
    same(turn(X, device="cuda"), turn.debug(X))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where machine code is kept, of which there is none yet."""
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def turning():
    """The same kernel again, of which nothing is prepared yet."""
    return npt.stencil(boundary="wrap")(turn.__wrapped__)


REPORT = (
    "This is a mistake of ninepoint: please report it, with the kernel and with what 'ninepoint "
    "info' prints; arrays of NumPy, as cupy.asnumpy(x) gives, are computed on the CPU meanwhile."
)
SMALL = "or give the scalars as one small array that standard_indexing names."
ROOM = (
    "give smaller arrays or a part of the stack, or let go of what CuPy keeps with "
    "cupy.get_default_memory_pool().free_all_blocks()."
)


@pytest.mark.parametrize(("name", "value", "words"), [
    ("without_compiler", True, ["NVRTC cannot be loaded (Failure finding libnvrtc.so.13). "]),
    ("architecture", "37", ["does not know GPUs of architecture 37; install a newer one"]),
    ("refusing", 'turn.cu(7): error: "oops" is undefined',
     ["refuses the text of 'turn' for architecture 90: turn.cu(7): error: \"oops\"", REPORT]),
    ("refusing", "ptxas error : Formal parameter space overflowed (4200 bytes required)",
     ["kernel 'turn' has too many arguments, and CUDA before 12.1 takes 4,096 by", SMALL]),
])  # fmt: skip
def test_what_the_compiler_does_not_do(cupy, folder, name, value, words):
    setattr(cupy.fake, name, value)
    kind, found = said(lambda: turning()(X, device="cuda"))
    assert kind is RuntimeError
    assert [one for one in words if one not in found] == []


@pytest.mark.parametrize(("status", "most", "kind", "words"), [
    (1, 4096, RuntimeError, ["CUDA_ERROR_INVALID_VALUE: invalid argument", REPORT]),
    (1, 100, RuntimeError, ["bytes of arguments, and CUDA before 12.1 takes 100 by", SMALL]),
    (2, 4096, MemoryError, ["needs memory beside its arrays, and ", " are free; ", ROOM]),
    (701, 4096, RuntimeError, ["(more registers or shared memory than the GPU has)", REPORT]),
    (702, 4096, RuntimeError, ["ended a kernel that ran longer than its driver allows",
                               "start Python anew, and give a part of the stack, or a GPU"]),
])  # fmt: skip
def test_a_launch_that_fails(cupy, limited, status, most, kind, words):
    there = cupy.asarray(X)
    turn(there)
    cupy.fake.failing = status
    limited(argument_bytes=most)
    found, text = said(lambda: turn(there))
    assert found is kind
    assert [one for one in words if one not in text] == []
    cupy.fake.failing = 0
    same(turn(there), turn.debug(X))


def test_a_gpu_without_room_and_one_that_is_lost(cupy):
    there = cupy.asarray(X)
    cupy.fake.room = cupy.fake.used + 1000
    assert said(lambda: turn(there)) == (
        MemoryError,
        f"the GPU has no room: 1,584 bytes are needed at once, and 1,000 of {cupy.fake.room:,} "
        f"are free; {ROOM}",
    )
    cupy.fake.room, cupy.fake.broken = 1 << 34, True
    kind, words = said(lambda: turn(X, device="cuda"))
    assert kind is RuntimeError
    assert words.startswith("the GPU is lost to this process (cudaErrorIllegalAddress: an illegal")
    assert "start Python anew, and see with nvidia-smi that it is there." in words


def test_machine_code_is_kept_and_made_anew_where_it_is_damaged(cupy, folder):
    there, wanted = cupy.asarray(X), turn.debug(X)

    def computed(there, times):
        seams.forget_device()
        same(turning()(there), wanted)
        assert cupy.fake.compiled == times

    for _ in range(2):
        computed(there, 1)
    # Of another GPU it is loaded, of another kind of GPU compiled.
    with cupy.cuda.Device(1):
        beside = cupy.asarray(X)
        computed(beside, 1)
        (file,) = folder.glob("turn_*.cubin")
        cupy.fake.architecture = "120"
        computed(beside, 2)
    assert len(list(folder.glob("*.cubin"))) == 2
    assert cupy.fake.device == 0
    cupy.fake.architecture = "90"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.warns(RuntimeWarning, match=r"does not use .*turn_\w+.cubin: it is dam"):
        computed(there, 3)
