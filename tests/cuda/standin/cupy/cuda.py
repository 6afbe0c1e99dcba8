"""Devices, streams and modules of the stand-in."""

import ctypes
import os
import tempfile
import threading
from types import SimpleNamespace

import numpy as np

from . import fake


class CUDARuntimeError(RuntimeError):
    def __init__(self, status):
        self.status = status
        names = {
            35: "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA "
            "runtime version",
            100: "cudaErrorNoDevice: no CUDA-capable device is detected",
            700: "cudaErrorIllegalAddress: an illegal memory access was encountered",
        }
        super().__init__(names[status])


class CUDADriverError(RuntimeError):
    def __init__(self, status):
        self.status = status
        names = {
            1: "CUDA_ERROR_INVALID_VALUE: invalid argument",
            2: "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch",
            702: "CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out and was terminated",
            719: "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
        }
        super().__init__(names[status])


_running = threading.Lock()


def _count():
    if fake.devices < 0:
        raise CUDARuntimeError(35)
    if not fake.devices:
        raise CUDARuntimeError(100)
    return fake.devices


runtime = SimpleNamespace(
    getDeviceCount=_count,
    CUDARuntimeError=CUDARuntimeError,
    driverGetVersion=lambda: fake.driver,
    runtimeGetVersion=lambda: 13020,
    getDevice=fake.current,
    deviceSynchronize=lambda: None,
    getDeviceProperties=lambda device: {
        "name": b"Stand-in",
        "major": 9,
        "minor": 0,
        "multiProcessorCount": fake.processors,
        "totalGlobalMem": fake.room,
    },
)
memory = SimpleNamespace(OutOfMemoryError=fake.OutOfMemoryError)


class Device:
    def __init__(self, device=None):
        self.id = fake.device if device is None else device

    def __enter__(self):
        self._before, fake.device = fake.device, self.id
        return self

    def __exit__(self, *_):
        fake.device = self._before

    @property
    def mem_info(self):
        return fake.room - fake.used, fake.room

    @property
    def compute_capability(self):
        return fake.architecture


class Stream:
    made = 0

    def __init__(self, non_blocking=False):
        Stream.made += 1
        self.ptr = 1000 + Stream.made
        if non_blocking:
            # Nothing is done on it before somebody waits.
            fake.queues[self.ptr] = []

    def synchronize(self):
        fake.note(("wait", self.ptr))
        if fake.broken:
            raise CUDARuntimeError(700)
        fake.finish(self.ptr)

    def __enter__(self):
        fake.streams.append(self.ptr)
        return self

    def __exit__(self, *_):
        fake.streams.pop()


def get_current_stream():
    ptr = fake.streams[-1]
    return SimpleNamespace(ptr=ptr, synchronize=lambda: fake.finish(ptr))


def alloc_pinned_memory(size):
    fake.pinned += size
    return np.full(size, 0xC3, np.uint8)


class Module:
    """Machine code: a library of g++, of which the first word names the GPU."""

    def load(self, code):
        architecture, _, library = code.partition(b"\n")
        if architecture.decode() != fake.architecture or library[-1:] != b"\0":
            raise RuntimeError("CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available")
        handle, path = tempfile.mkstemp(suffix=".so")
        with os.fdopen(handle, "wb") as file:
            file.write(library)
        self._library = ctypes.CDLL(path)
        os.unlink(path)

    def get_function(self, name):
        return Function(self._library, name)


class Function:
    """A kernel, given what CuPy takes: numbers, and arrays of NumPy with one element."""

    def __init__(self, library, name):
        self._name = name
        self._run = getattr(library, f"run_{name}")
        self._run.restype = None
        found = (ctypes.c_int * 4096)()
        count = getattr(library, f"sizes_{name}")(found)
        self._sizes = list(found[:count])

    def __call__(self, grid, block, args, shared_mem=0, stream=None):
        assert all(type(n) is int and n > 0 for n in (*grid, *block)), (grid, block)
        held = [_by_value(one) for one in args]
        assert [one.nbytes for one in held] == self._sizes, (self._name, self._sizes)
        if fake.failing:
            raise CUDADriverError(fake.failing)
        # Each where any type may stand.
        places = [np.empty(one.nbytes + 16, np.uint8) for one in held]
        pointers = (ctypes.c_void_p * len(held))()
        for k, (one, place) in enumerate(zip(held, places, strict=True)):
            first = -place.ctypes.data % 16
            place[first : first + one.nbytes] = one.reshape(-1).view(np.uint8)
            pointers[k] = place.ctypes.data + first
        shape = (ctypes.c_uint * 6)(*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3])

        def run(places=places):
            # The emulator runs one kernel at a time.
            with _running:
                self._run(shape, ctypes.c_size_t(shared_mem), ctypes.c_bool(True), pointers)

        fake.begin(fake.streams[-1], run)
        fake.log.append((self._name, fake.streams[-1], fake.device))


def _by_value(one):
    """The bytes of an argument, as CuPy passes them."""
    if isinstance(one, np.ndarray):
        assert one.size == 1, "Only numpy.ndarrays of size one can be passed by value."
        return one
    if isinstance(one, np.generic):
        return np.array([one])
    assert type(one) in (int, float, bool, complex), one
    return np.array([one])
