"""Devices, streams and modules of the stand-in."""

import json
import threading
from functools import cached_property
from types import SimpleNamespace

import numpy as np

import emulator

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
        "name": b"Stand-in", "major": 9, "minor": 0, "totalGlobalMem": fake.room,
    },
)  # fmt: skip
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


class Module:
    """Machine code of the stand-in: a text, of which the first line names the GPU."""

    def load(self, code):
        architecture, _, rest = code.partition(b"\n")
        if architecture.decode() != fake.architecture or rest[-1:] != b"\0":
            raise RuntimeError("CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available")
        define, _, text = rest[:-1].decode().partition("\n")
        self._text = emulator.Text(text, tuple(json.loads(define)))

    def get_function(self, name):
        return Function(self._text, name)


class Function:
    """A kernel, given what CuPy takes: numbers, and arrays of NumPy with one element."""

    def __init__(self, text, name):
        self._text, self._name = text, name

    @cached_property
    def _function(self):
        return emulator.functions(self._text.text, self._text.define)[self._name]

    def __call__(self, grid, block, args, shared_mem=0, stream=None):
        assert all(type(n) is int and n > 0 for n in (*grid, *block)), (grid, block)
        if fake.failing:
            raise CUDADriverError(fake.failing)
        # Each argument is copied now, as the driver does.
        held = [_by_value(one) for one in args]

        def run():
            # The emulator runs one kernel at a time.
            with _running:
                self._function(grid, block, held)

        if fake.asked is None:
            fake.begin(fake.streams[-1], run)
        elif self._text.key not in {one.key for one in fake.asked}:
            # Kept on disk by an earlier process.
            fake.asked.append(self._text)
        fake.log.append((self._name, fake.streams[-1], fake.device))


def _by_value(one):
    """The bytes of an argument, as CuPy passes them."""
    if isinstance(one, np.ndarray):
        assert one.size == 1, "Only numpy.ndarrays of size one can be passed by value."
        return one.tobytes()
    assert isinstance(one, np.generic) or type(one) in (int, float, bool, complex), one
    return np.array(one).tobytes()
