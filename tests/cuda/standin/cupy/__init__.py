"""A stand-in for CuPy without a GPU: its arrays lie in the memory of the CPU, and say that not.

It has what the house uses of CuPy, under CuPy's names and with CuPy's refusals: an array is no
array of NumPy, and becomes none by itself.  Texts are compiled by g++ and run by the emulator.
`fake` is the test's own: how many GPUs there are, what was launched, and on which stream.
"""

import weakref
from types import SimpleNamespace

import numpy as np
from numpy import broadcast_shapes  # noqa: F401
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import fake

__version__ = "14.0.0"


class _Pointer:
    """Where an array begins."""

    def __init__(self, ptr, device_id):
        self.ptr, self.device_id = ptr, device_id


class ndarray(NDArrayOperatorsMixin):
    """An array on a GPU: a NumPy array that nobody but this module sees."""

    __array_priority__ = 100

    def __init__(self, host, device=None, base=None):
        self._lies = host
        self._base = base
        device = fake.current() if device is None else device
        self.device = SimpleNamespace(id=device)
        self.data = _Pointer(host.ctypes.data, device)

    @property
    def _host(self):
        """The elements, once all is done that was begun on the current stream."""
        fake.finish(fake.streams[-1])
        return self._lies

    shape = property(lambda self: self._lies.shape)
    strides = property(lambda self: self._lies.strides)
    dtype = property(lambda self: self._lies.dtype)
    ndim = property(lambda self: self._lies.ndim)
    size = property(lambda self: self._lies.size)
    nbytes = property(lambda self: self._lies.nbytes)
    itemsize = property(lambda self: self._lies.itemsize)
    T = property(lambda self: self._view(self._lies.T))

    @property
    def flags(self):
        flags = self._lies.flags
        return SimpleNamespace(
            c_contiguous=flags.c_contiguous, f_contiguous=flags.f_contiguous, owndata=flags.owndata
        )

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape, "strides": None if self.flags.c_contiguous else self.strides,
            "typestr": self.dtype.str, "data": (self.data.ptr, False), "version": 3,
        }  # fmt: skip

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to "
            "construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if method != "__call__":
            return NotImplemented
        known = ndarray | int | float | complex | np.generic
        if not all(isinstance(one, known) for one in inputs):
            raise TypeError(f"Unsupported type {[type(one) for one in inputs]}")
        with np.errstate(all="ignore"):
            made = ufunc(*(_host(one) for one in inputs), **options)
        return tuple(map(_made, made)) if isinstance(made, tuple) else _made(made)

    def __array_function__(self, function, types, args, named):
        import cupy

        found = getattr(cupy, function.__name__, None)
        if found is None or found is function:
            return NotImplemented
        if not all(issubclass(one, ndarray) for one in types):
            return NotImplemented
        return found(*args, **named)

    def _view(self, host):
        return ndarray(host, self.device.id, self if self._base is None else self._base)

    def __getitem__(self, index):
        return self._view(np.asarray(self._lies[index]))

    def __setitem__(self, index, value):
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        fake.note("set")
        self._host[_host(index)] = _host(value)

    def __float__(self):
        return float(self._host)

    def get(self):
        fake.note("get")
        if fake.broken:
            raise cuda.CUDARuntimeError(700)
        return self._host.copy()

    def set(self, values, stream=None):
        fake.note("upload")
        assert values.dtype == self.dtype
        assert values.shape == self.shape
        assert values.flags.c_contiguous
        _begin(stream, lambda: np.copyto(self._lies, values))

    def transpose(self, *axes):
        return self._view(self._lies.transpose(*axes))

    def reshape(self, *shape):
        return self._view(self._lies.reshape(*shape))

    def view(self, dtype):
        return self._view(self._lies.view(dtype))

    def copy(self, order="C"):
        return _made(self._host.copy(order))

    def max(self):
        return _made(self._host.max())


def _host(value):
    return value._host if isinstance(value, ndarray) else value


def _begin(stream, work):
    fake.begin(fake.streams[-1] if stream is None else stream.ptr, work)


def _made(host):
    """A new array of the current GPU, counted in its pool."""
    array = empty(np.shape(host), np.asarray(host).dtype)
    array._host[...] = host
    return array


def empty(shape, dtype=float):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    device = fake.current()
    fake.taken(size)
    room, first = fake.room_for(size)
    host = room[first : first + size].view(dtype).reshape(shape)
    fake.rooms[id(room)] = room
    found = ndarray(host, device)
    weakref.finalize(room, fake.given_back, size)
    return found


# Dask registers them.
take = tensordot = None


def array(value):
    fake.note("upload")
    return _made(np.array(value))


def asarray(value):
    if isinstance(value, ndarray):
        return value
    shown = getattr(value, "__cuda_array_interface__", None)
    if shown is None:
        return array(value)
    data = (shown["data"][0], False)
    holder = SimpleNamespace(__array_interface__={**shown, "data": data})
    if np.dtype(shown["typestr"]).byteorder == ">":
        raise ValueError("CuPy does not support the big-endian byte-order")
    return ndarray(np.asarray(holder), base=value)


def from_dlpack(value):
    kind, device = value.__dlpack_device__()
    if kind not in (2, 13):
        raise TypeError("CPU arrays cannot be directly imported to CuPy.")
    found = asarray(value.__dlpack__())
    found.device.id = found.data.device_id = device
    return found


def asnumpy(value):
    return value.get() if isinstance(value, ndarray) else np.asarray(value)


def ascontiguousarray(value):
    return value if value.flags.c_contiguous else _made(value._host)


def zeros(shape, dtype=float):
    return _made(np.zeros(shape, dtype))


def broadcast_to(value, shape):
    return value._view(np.broadcast_to(value._lies, shape))


def where(test, one, other):
    return _made(np.where(_host(test), _host(one), _host(other)))


def max(value, axis=None):
    return _made(np.max(_host(value), axis=axis))


def concatenate(values, axis=0):
    return _made(np.concatenate([_host(one) for one in values], axis=axis))


def get_default_memory_pool():
    return fake.POOL


from . import cuda  # noqa: E402
