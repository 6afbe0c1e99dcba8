"""Arrays on a GPU are known by what they show; what a machine lacks is said, with its cure."""

import sys

import dask.array as da
import numpy as np
import pytest
from cuda_stencils import X, between, turn

import ninepoint as npt
import seams
from compared import refuses
from on_gpu import same

X = X[0]
F4 = "float32"


class Shown:
    """An array of another library, as Numba's: it shows where its elements are."""

    def __init__(self, array, read_only=False):
        self._shown = array.__cuda_array_interface__
        self._shown["data"] = (self._shown["data"][0], read_only)
        self._array = array
        self.dtype, self.shape = array.dtype, array.shape

    @property
    def __cuda_array_interface__(self):
        return self._shown


class Tensor:
    """An array as those of torch: it shows nothing while its gradient is recorded."""

    def __init__(self, array, on_gpu=True, requires_grad=False):
        self._array, self._on_gpu, self.requires_grad = array, on_gpu, requires_grad
        self.dtype, self.shape, self.ndim = array.dtype, array.shape, array.ndim

    @property
    def __cuda_array_interface__(self):
        if not self._on_gpu:
            raise AttributeError("not on a GPU")
        if self.requires_grad:
            raise RuntimeError("Can't get it on Variable that requires grad.")
        return self._array.__cuda_array_interface__

    def __dlpack_device__(self):
        return (2, 0) if self._on_gpu else (1, 0)

    def __dlpack__(self, **_):
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient")
        return self._array


class Capsule:
    """An array that DLPack alone knows."""

    def __init__(self, array):
        self._array, self.dtype, self.shape = array, array.dtype, array.shape

    def __dlpack_device__(self):
        return 2, self._array.device.id

    def __dlpack__(self, **_):
        return self._array


def test_what_lies_on_a_gpu_is_known_and_read_and_written_in_place(cupy):
    there = cupy.asarray(X)
    for one in (there, Shown(there), Tensor(there), Capsule(there)):
        cupy.fake.log.clear()
        found = turn(one)
        assert type(found) is cupy.ndarray
        assert "upload" not in cupy.fake.log
        same(found, turn.debug(X))
    assert type(turn(X)) is np.ndarray
    assert isinstance(turn(da.ones((3, 4))), da.Array)
    for one in (None, "x", object(), Tensor(X, on_gpu=False)):
        refuses(TypeError, "'x' must be an array", turn, one)
    out = Shown(cupy.empty(X.shape, F4))
    assert turn(cupy.asarray(X), out=out) is out
    same(out._array, turn.debug(X))
    with pytest.raises(ValueError, match=r"out is read-only\."):
        turn(cupy.asarray(X), out=Shown(cupy.empty(X.shape, F4), read_only=True))


def test_a_lazy_value_that_cannot_be_computed_does_not_stop_who_writes(cupy):
    there = cupy.asarray(X)
    mistaken, right = between(npt.lazy(X), there), turn(npt.lazy(there))
    # Arrays of other libraries may be any memory.
    turn(there, out=Shown(cupy.empty(X.shape, F4)))
    turn(there, out=there)
    same(right.compute(), turn.debug(X))
    refuses(TypeError, "'y' lies on a GPU and 'x' in the memory", mistaken.compute)


def elsewhere(cupy):
    with cupy.cuda.Device(1):
        return cupy.asarray(X)


def filling(cupy, out):
    return turn(cupy.asarray(X), out=out)


weighted = npt.stencil(lambda x, k: x[0, 0] * k[1, 1], standard_indexing="k")


@npt.stencil
def slow(x):
    value = x[0, 1]
    while value > 1:
        value /= 2
    return value


BESIDE = r"'{}' lies on a GPU and '{}' in the memory of the CPU.*give cupy.asarray\({}\), or cupy"
PLACE = r"on a GPU that cannot be read in place \({}.*\); {}"
# What is done with CuPy, how it is refused, and in which words.
MISTAKES = {
    "an array of the CPU beside": (
        lambda cupy: between(cupy.asarray(X), X), TypeError, BESIDE.format("x", "y", "y")),
    "the other way round": (
        lambda cupy: between(X, cupy.asarray(X)), TypeError, BESIDE.format("y", "x", "x")),
    "a text beside": (
        lambda cupy: between(cupy.asarray(X), "a"), TypeError,
        "'y' must be an array of numbers, not 'a'"),
    "two GPUs": (
        lambda cupy: between(cupy.asarray(X), elsewhere(cupy)), ValueError,
        r"'x' lies on GPU 0 and 'y' on GPU 1; take one to the other, as 'with cupy"),
    "a gradient": (
        lambda cupy: turn(Tensor(cupy.asarray(X), requires_grad=True)), TypeError,
        "'x' is a test_recognise.Tensor " + PLACE.format("Can't export", r"give x.detach\(\).")),
    "another byte order": (
        lambda cupy: turn(Shown(cupy.asarray(X).view(">f4"))), TypeError,
        PLACE.format("CuPy does not support", r"cupy.asarray\(x\) says what it takes")),
    "bytes in the other order": (
        lambda cupy: turn(cupy.empty((12, 33), np.dtype(">f4"))), TypeError,
        r"'x' lies on a GPU with the bytes of its numbers turned round; give x.astype"),
    "dates": (
        lambda cupy: turn(cupy.asarray(X.view("int32").astype("M8[s]"))), TypeError,
        r"cannot compute with 'x' of dtype datetime64\[s\]; use .astype\("),
    "out of the CPU": (
        lambda cupy: filling(cupy, np.empty_like(X)), TypeError,
        "out must be an array on a GPU, as the fields are, not ndarray in the memory of the CPU"),
    "out of the GPU": (
        lambda cupy: turn(X, out=cupy.asarray(X)), TypeError,
        r"out must be a NumPy array, not an array on a GPU \(cupy\)"),
    "out of another GPU": (
        lambda cupy: filling(cupy, elsewhere(cupy)), ValueError,
        "out lies on GPU 1, and the fields on GPU 0; give an array of the same GPU"),
    "out overlaps itself": (
        lambda cupy: filling(cupy, cupy.broadcast_to(cupy.zeros((1, 33), F4), X.shape)),
        ValueError, r"elements of out share memory: it has shape \(20, 33\) and strides \(0, 4\)"),
    "a coefficient on the GPU": (
        lambda cupy: weighted(cupy.asarray(X), cupy.asarray(X[:3, :3])), TypeError,
        r"'k' is a cupy.ndarray; give cupy.asnumpy\(k\)"),
    "too few axes": (
        lambda cupy: turn(cupy.asarray(X[0])), ValueError,
        r"2 axes needs an array of at least 2 dimensions, not of shape \(33,\)"),
    "a kernel that is not understood": (
        lambda cupy: slow(cupy.asarray(X)), npt.StencilError, r"'slow' holds .*\[gpu-general\]"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(cupy, mistake):
    call, kind, words = MISTAKES[mistake]
    refuses(kind, words, call, cupy)


PART = X[:12]


def said(call):
    with pytest.raises((ImportError, MemoryError, RuntimeError)) as caught:
        call()
    return type(caught.value), str(caught.value)


def test_without_cupy(monkeypatch):
    seams.forget_device()
    monkeypatch.setitem(sys.modules, "cupy", None)
    kind, words = said(lambda: turn(PART, device="cuda"))
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
    refuses(RuntimeError, words, turn, PART, device="cuda")
    # It is asked again: a driver may come.
    cupy.fake.devices = 1
    same(turn(PART, device="cuda"), turn.debug(PART))


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
    kind, found = said(lambda: turning()(PART, device="cuda"))
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
    there = cupy.asarray(PART)
    turn(there)
    cupy.fake.failing = status
    limited(argument_bytes=most)
    found, text = said(lambda: turn(there))
    assert found is kind
    assert [one for one in words if one not in text] == []
    cupy.fake.failing = 0
    same(turn(there), turn.debug(PART))


def test_a_gpu_without_room_and_one_that_is_lost(cupy):
    there = cupy.asarray(PART)
    cupy.fake.room = cupy.fake.used + 1000
    assert said(lambda: turn(there)) == (
        MemoryError,
        f"the GPU has no room: 1,584 bytes are needed at once, and 1,000 of {cupy.fake.room:,} "
        f"are free; {ROOM}",
    )
    cupy.fake.room, cupy.fake.broken = 1 << 34, True
    kind, words = said(lambda: turn(PART, device="cuda"))
    assert kind is RuntimeError
    assert words.startswith("the GPU is lost to this process (cudaErrorIllegalAddress: an illegal")
    assert "start Python anew, and see with nvidia-smi that it is there." in words


def test_machine_code_is_kept_and_made_anew_where_it_is_damaged(cupy, folder):
    there, wanted = cupy.asarray(PART), turn.debug(PART)

    def computed(there, times):
        seams.forget_device()
        same(turning()(there), wanted)
        assert cupy.fake.compiled == times

    for _ in range(2):
        computed(there, 1)
    # Of another GPU it is loaded, of another kind of GPU compiled.
    with cupy.cuda.Device(1):
        beside = cupy.asarray(PART)
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
