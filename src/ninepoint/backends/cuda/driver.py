"""The GPU, through CuPy: memory, streams, the compiler of CUDA, launches.

No other module touches CuPy, and this uses little of it: arrays that are views of
memory on a GPU, `empty` from its pool, the current device and stream, NVRTC, and a module of
machine code whose functions are started.  It is imported when the first such array is met.

Whatever is missing on a machine is said here, in one sentence with its cure: CuPy, a GPU, a driver
that is new enough, memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from ...base import limits
from ...base.frozen import frozen
from ...base.remembered import Remembered
from ...base.undisturbed import imported
from .. import cache as disk

# An array in the memory of a GPU, of CuPy.
DeviceArray: TypeAlias = Any

# What CUDA's runtime calls it where the driver is too old for it, and where there is no GPU.
_OLD_DRIVER, _NO_DEVICE = 35, 100

_INSTALL = "pip install 'ninepoint[cuda]'"


@cache
def cupy() -> Any:
    """CuPy, on a machine that has a GPU.

    Raises
    ------
    ImportError
        If CuPy cannot be imported.
    RuntimeError
        If there is no GPU, or its driver is too old.
    """
    try:
        module = imported("cupy")
    except ImportError as error:
        raise ImportError(
            f"To compute on a GPU needs CuPy, which cannot be imported ({error}). Install it "
            f"with: {_INSTALL}"
        ) from error
    runtime = module.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        reason = f"the GPU cannot be used: {error}."
        if error.status == _NO_DEVICE:
            reason = _no_device(str(error))
        elif error.status == _OLD_DRIVER:
            reason = _no_device("no driver of NVIDIA is installed")
            if driver := runtime.driverGetVersion():
                reason = (
                    f"the GPU's driver is too old: it is for CUDA {_version(driver)}, and CuPy "
                    f"was made with CUDA {_version(runtime.runtimeGetVersion())}; install a newer "
                    "driver, or the CuPy of an older CUDA."
                )
        raise RuntimeError(reason) from error
    if not count:
        raise RuntimeError(_no_device("CUDA finds none"))
    return module


def _no_device(reason: str) -> str:
    return (
        f"there is no GPU to compute on ({reason}); give arrays of NumPy, which are computed on "
        "the CPU."
    )


def _version(number: int) -> str:
    """A version as CUDA counts it: 13000 is 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


# Arrays.


def as_array(value: Any, name: str) -> DeviceArray:
    """Give what lies on a GPU as an array of CuPy, in place; `name` is the parameter's.

    Raises
    ------
    TypeError
        If its library does not show it as it is, or its elements are none that CuPy knows.
    """
    module = cupy()
    if isinstance(value, module.ndarray):
        return value
    try:
        if hasattr(value, "__dlpack_device__"):
            return module.from_dlpack(value)
        return module.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        cure = "cupy.asarray(x) says what it takes"
        if getattr(value, "requires_grad", False):
            cure = f"give {name}.detach()"
        what = f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
        raise TypeError(
            f"'{name}' is a {what} on a GPU that cannot be read in place ({error}); {cure}."
        ) from error


def device_of(array: DeviceArray) -> int:
    """The number of the GPU that an array lies on."""
    return int(array.data.device_id)


def empty(shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
    """Give an array of the current GPU, from CuPy's pool.

    Raises
    ------
    MemoryError
        If there is no room.
    """
    return _with_room(cupy().empty, shape, dtype)


def uploaded(array: np.ndarray) -> DeviceArray:
    """Give an array of NumPy on the current GPU, in the order of bytes that this has."""
    return _with_room(cupy().array, array.astype(array.dtype.newbyteorder("="), copy=False))


def refill(array: DeviceArray, values: np.ndarray) -> None:
    """Give an array in C order on a GPU other elements."""
    _with_room(array.set, np.asarray(values, order="C"))


def downloaded(array: DeviceArray) -> np.ndarray:
    """Give an array of a GPU to NumPy, once all that was begun on the stream is done."""
    found: np.ndarray = _with_room(cupy().asnumpy, array)
    return found


_threads = threading.local()


def own_stream() -> Any:
    """Make a stream of the calling thread the current one for a while; of the GPU it is on."""
    streams = _threads.__dict__.setdefault("streams", {})
    device = current()
    if device not in streams:
        streams[device] = cupy().cuda.Stream(non_blocking=True)
    return streams[device]


def wait_for(stream: Any) -> None:
    """Wait until all is done that was begun on a stream."""
    _with_room(stream.synchronize)


def contiguous(array: DeviceArray, order: Sequence[int]) -> DeviceArray:
    """Give an array whose axes are in an order in C order, where a GPU can read its elements."""
    if array.data.ptr % array.dtype.itemsize:
        # CuPy copies what is contiguous byte by byte.
        array = _with_room(array.copy)
    return _with_room(cupy().ascontiguousarray, array.transpose(order))


def _with_room(make: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except cupy().cuda.memory.OutOfMemoryError as error:
        numbers = (word for word in str(error).split() if word[:1].isdigit())
        needed = next(numbers, "too many")
        raise no_room(f"{needed} bytes are needed at once", memory()) from error
    except RuntimeError as error:
        # What a kernel did that was started long before is told where the GPU is asked next.
        gone = lost(error)
        if gone is None:
            raise
        raise gone from error


def memory() -> tuple[int, int]:
    """How many bytes of the current GPU are free, those that CuPy's pool holds among them; all."""
    module = cupy()
    pool = module.get_default_memory_pool()
    free, whole = module.cuda.Device().mem_info
    free += pool.free_bytes()
    limit = pool.get_limit()
    if limit:
        free, whole = min(free, limit - pool.used_bytes()), min(whole, limit)
    return free, whole


# Devices and streams.


def current() -> int:
    """The number of the current GPU."""
    return int(cupy().cuda.runtime.getDevice())


def on(device: int) -> Any:
    """Make a GPU the current one for a while."""
    return nullcontext() if device == current() else cupy().cuda.Device(device)


def current_stream() -> Any:
    """The current stream."""
    return cupy().cuda.get_current_stream()


def name(device: int) -> str:
    """What a GPU is called."""
    return str(cupy().cuda.runtime.getDeviceProperties(device)["name"].decode())


def described() -> str:
    """Name every GPU, what it can do, its memory, and what CUDA its driver is for."""
    module = cupy()
    runtime = module.cuda.runtime
    found = dict[str, int]()
    for device in range(runtime.getDeviceCount()):
        properties = runtime.getDeviceProperties(device)
        able = f"{properties['major']}.{properties['minor']}"
        size = properties["totalGlobalMem"] / 2**30
        one = f"{properties['name'].decode()}, compute capability {able}, {size:.3g} GiB"
        found[one] = found.get(one, 0) + 1
    names = "; ".join(f"{count} x {one}" if count > 1 else one for one, count in found.items())
    return f"{names}; driver for CUDA {_version(runtime.driverGetVersion())}"


# Machine code: made of texts by NVRTC, kept on disk, loaded once for each GPU.

# How every text is compiled, so that its bits are those of the CPU.
_OPTIONS = ("--std=c++17", "--fmad=false")

# And besides, for arrays that are too large for distances of 32 bits.
_FAR = ("--define-macro=NPT_INDEX=long long",)

# What a compiler may do with floats beside what keeps every bit: all that "fastmath" means.
# Numbers too small to be normal are numbers in either case: images are dark somewhere.
_FAST = ("--fmad=true", "--prec-div=false", "--prec-sqrt=false")

_modules: Remembered[Functions] = Remembered(512)
_loading = threading.Lock()


@frozen
class Functions:
    """The functions of a module of machine code.

    `made` tells that they were compiled by this process, not loaded from the disk.
    """

    module: Any
    made: bool


def functions(text: str, name: str, fastmath: bool, far: bool) -> Functions:
    """The functions of a text on the current GPU.

    `name` is for files; `far` is for arrays that are too large for distances of 32 bits.
    """
    key = text, fastmath, far, current()
    found = _modules.get(key)
    if found is not None:
        return found
    options = (*_OPTIONS, *(_FAST if fastmath else ()), *(_FAR if far else ()))
    with _loading:
        return _modules.made(key, lambda: _loaded(text, name, options))


def known() -> list[Functions]:
    """The functions that are there by now."""
    return list(_modules.values())


def _loaded(text: str, name: str, options: Sequence[str]) -> Functions:
    # What the GPU can do, as two digits or three: "90" is 9.0.
    kind = str(cupy().cuda.Device().compute_capability)
    meaning = "\n".join((compiler(), kind, *options, text))
    try:
        module, from_disk = disk.remembered(
            disk.named(name, meaning, "cubin"),
            loaded,
            lambda: compiled(text, name, kind, options),
        )
        return Functions(module, not from_disk)
    except ValueError as error:
        raise RuntimeError(
            f"the GPU's driver does not take machine code of CUDA's compiler {compiler()} "
            f"({error}); install a newer driver, or the CuPy of an older CUDA."
        ) from error


@cache
def compiler() -> str:
    """The version of NVRTC."""
    return ".".join(map(str, _nvrtc().getVersion()))


def _nvrtc() -> Any:
    return imported("cupy_backends.cuda.libs.nvrtc")


def compiled(text: str, name: str, architecture: str, options: Sequence[str]) -> bytes:
    """Give the machine code of a text for GPUs of one architecture.

    Raises
    ------
    RuntimeError
        If NVRTC is missing, does not know the GPU, or refuses the text.
    """
    nvrtc = _nvrtc()
    try:
        program = nvrtc.createProgram(text, f"{name}.cu", [], [])
    except RuntimeError as error:
        raise RuntimeError(
            f"CUDA's compiler NVRTC cannot be loaded ({str(error).splitlines()[0]}). Install it "
            f"with: {_INSTALL}"
        ) from error
    try:
        nvrtc.compileProgram(program, [f"-arch=sm_{architecture}", *options])
        # CuPy takes the last byte for the end of a text.
        code: bytes = nvrtc.getCUBIN(program) + b"\0"
    except nvrtc.NVRTCError as error:
        log, version = nvrtc.getProgramLog(program), compiler()
        if "gpu-architecture" in f"{log}{error}":
            raise RuntimeError(
                f"CUDA's compiler NVRTC {version} does not know GPUs of architecture "
                f"{architecture}; install a newer one: pip install -U nvidia-cuda-nvrtc"
            ) from error
        if "parameter space overflowed" in log:
            raise _too_many_arguments(name, "too many arguments", f"NVRTC {version}") from error
        lines = [line.strip() for line in log.splitlines()]
        first = next((line for line in lines if "error" in line), str(error))
        raise RuntimeError(
            f"CUDA's compiler NVRTC {version} refuses the text of '{name}' for architecture "
            f"{architecture}: {first}. {_REPORT}"
        ) from error
    finally:
        nvrtc.destroyProgram(program)
    return code


def loaded(code: bytes) -> Any:
    """Load machine code on the current GPU; the module, whose functions are called by name.

    Raises
    ------
    ValueError
        If it is no machine code for this GPU.
    RuntimeError
        If the GPU does nothing more for this process.
    """
    module = cupy().cuda.Module()
    try:
        module.load(code)
    except RuntimeError as error:
        raise lost(error) or ValueError(str(error)) from error
    return module


def function(module: Any, name: str) -> Callable[..., None]:
    """Give a function of a module, to be called with a grid, a block and arguments.

    Its arguments are whole numbers for pointers, scalars of NumPy, and what `by_value` gives; it
    is started on the current stream, and nobody waits for it.
    """
    start = module.get_function(name)

    def started(grid: tuple[int, ...], block: tuple[int, ...], arguments: Sequence[Any]) -> None:
        try:
            start(grid, block, arguments)
        except RuntimeError as error:
            found = number(error)
            gone: Exception | None = lost(error)
            if found == OUT_OF_MEMORY:
                gone = no_room(f"kernel '{name}' needs memory beside its arrays", memory())
            if gone is not None:
                raise gone from error
            size, what = sum(getattr(one, "nbytes", 8) for one in arguments), str(error)
            if found == _INVALID and size > limits.current.argument_bytes:
                raise _too_many_arguments(name, f"{size:,} bytes of arguments", what) from error
            if found == _TOO_MANY_RESOURCES:
                what = "more registers or shared memory than the GPU has"
            raise RuntimeError(
                f"the GPU does not start kernel '{name}' ({what}). {_REPORT}"
            ) from error

    return started


def by_value(values: np.ndarray) -> Any:
    """Give an array of NumPy as an argument that is a struct."""
    return np.ascontiguousarray(values).view(f"V{values.nbytes}")


# What goes wrong on a GPU, each in one sentence with its cure.  CUDA numbers its errors, the
# driver's and the runtime's alike; whatever has no number is none of its errors.

OUT_OF_MEMORY = 2
_INVALID, _TOO_MANY_RESOURCES, _TIMEOUT = 1, 701, 702

# After these the GPU does nothing more for a process: not there, broken memory (214), or a kernel
# of this process, whichever it was, that touched what it must not, or was ended.
_LOST = frozenset((46, 100, 101, 214, 700, 702, 709, 710, *range(714, 720), 999))

_CPU = "arrays of NumPy, as cupy.asnumpy(x) gives, are computed on the CPU meanwhile"
_REPORT = (
    "This is a mistake of ninepoint: please report it, with the kernel and with what "
    f"'ninepoint info' prints; {_CPU}."
)


def number(error: BaseException) -> int | None:
    """What CUDA numbers an error; None if it is none of its errors."""
    found = getattr(error, "status", None)
    return found if isinstance(found, int) else None


def no_room(needed: str, memory: tuple[int, int]) -> MemoryError:
    """Too few bytes are free."""
    free, whole = memory
    return MemoryError(
        f"the GPU has no room: {needed}, and {free:,} of {whole:,} are free; give smaller arrays "
        "or a part of the stack, or let go of what CuPy keeps with "
        "cupy.get_default_memory_pool().free_all_blocks()."
    )


def lost(error: BaseException) -> RuntimeError | None:
    """The GPU does nothing more for this process; None if it does."""
    found = number(error)
    if found not in _LOST:
        return None
    if found == _TIMEOUT:
        return RuntimeError(
            f"the GPU ended a kernel that ran longer than its driver allows ({error}), and is "
            "lost to this process: start Python anew, and give a part of the stack, or a GPU "
            "that no display hangs on."
        )
    return RuntimeError(
        f"the GPU is lost to this process ({error}): it broke off in a kernel that was started "
        "before, of ninepoint or of something else, or is no longer there; start Python anew, "
        "and see with nvidia-smi that it is there. If it happens again where only ninepoint "
        "uses the GPU, please report it."
    )


def _too_many_arguments(name: str, what: str, reason: str) -> RuntimeError:
    most = limits.current.argument_bytes
    return RuntimeError(
        f"kernel '{name}' has {what}, and CUDA before 12.1 takes {most:,} bytes "
        f"({reason}); install a newer driver and NVRTC, or give the scalars as one small array "
        "that standard_indexing names."
    )
