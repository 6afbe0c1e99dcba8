"""Arrays on a GPU are known by what they show, whoever made them, and all must be in one place."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import ninepoint as npt

X = np.random.default_rng(0).random((12, 33)).astype("float32")


@npt.stencil(boundary="nearest")
def cross(x):
    return (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1]) / 4


@npt.stencil(boundary="nearest")
def between(x, y):
    return x[0, 1] - y[1, 0]


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
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad."
            )
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


def test_what_lies_on_a_gpu_is_known(cupy):
    there = cupy.asarray(X)
    for one in (there, Shown(there), Tensor(there), Capsule(there)):
        assert type(cross(one)) is cupy.ndarray
    assert type(cross(X)) is np.ndarray
    assert isinstance(cross(da.ones((3, 4))), da.Array)
    for one in (None, "x", object(), Tensor(X, on_gpu=False)):
        with pytest.raises(TypeError, match="'x' must be an array"):
            cross(one)


@pytest.mark.parametrize("kind", [Shown, Tensor, Capsule])
def test_arrays_of_other_libraries_are_read_in_place(cupy, kind):
    there = cupy.asarray(X)
    cupy.fake.log.clear()
    found = cross(kind(there))
    assert type(found) is cupy.ndarray
    assert "upload" not in cupy.fake.log
    np.testing.assert_array_equal(found.get(), cross.debug(X))


def test_out_of_another_library(cupy):
    out = Shown(cupy.empty(X.shape, "float32"))
    assert cross(cupy.asarray(X), out=out) is out
    np.testing.assert_array_equal(out._array.get(), cross.debug(X))
    with pytest.raises(ValueError, match=r"out is read-only\."):
        cross(cupy.asarray(X), out=Shown(cupy.empty(X.shape, "float32"), read_only=True))


def test_a_lazy_value_that_cannot_be_computed_does_not_stop_who_writes(cupy):
    there = cupy.asarray(X)
    mistaken, right = between(npt.lazy(X), there), cross(npt.lazy(there))
    wanted = cross.debug(X)
    cross(there, out=there)
    np.testing.assert_array_equal(right.compute().get(), wanted)
    with pytest.raises(TypeError, match="'y' lies on a GPU and 'x' in the memory"):
        mistaken.compute()


MISTAKES = {
    "an array of the CPU beside": (
        lambda cupy: between(cupy.asarray(X), X),
        TypeError,
        "'x' lies on a GPU and 'y' in the memory of the CPU, and a stencil takes neither to the "
        "other: give cupy.asarray(y), or cupy.asnumpy(x).",
    ),
    "the other way round": (
        lambda cupy: between(X, cupy.asarray(X)),
        TypeError,
        "'y' lies on a GPU and 'x' in the memory of the CPU, and a stencil takes neither to the "
        "other: give cupy.asarray(x), or cupy.asnumpy(y).",
    ),
    "of a lazy value": (
        lambda cupy: between(npt.lazy(X), cupy.asarray(X)).compute(),
        TypeError,
        "'y' lies on a GPU and 'x' in the memory of the CPU, and a stencil takes neither to the "
        "other: give cupy.asarray(x), or cupy.asnumpy(y).",
    ),
    "a text beside": (
        lambda cupy: between(cupy.asarray(X), "a"),
        TypeError,
        "'y' must be an array of numbers, not 'a'.",
    ),
    "two GPUs": (
        lambda cupy: between(cupy.asarray(X), elsewhere(cupy)),
        ValueError,
        "'x' lies on GPU 0 and 'y' on GPU 1; take one to the other, as 'with "
        "cupy.cuda.Device(0): y = cupy.asarray(y)' does.",
    ),
    "a gradient": (
        lambda cupy: cross(Tensor(cupy.asarray(X), requires_grad=True)),
        TypeError,
        "'x' is a test_recognise.Tensor on a GPU that cannot be read in place (Can't export "
        "tensors that require gradient); give x.detach().",
    ),
    "another byte order": (
        lambda cupy: cross(Shown(cupy.asarray(X).view(">f4"))),
        TypeError,
        "'x' is a test_recognise.Shown on a GPU that cannot be read in place (CuPy does not "
        "support the big-endian byte-order); cupy.asarray(x) says what it takes.",
    ),
    "dates": (
        lambda cupy: cross(cupy.asarray(X.view("int32").astype("M8[s]"))),
        TypeError,
        "a stencil cannot compute with 'x' of dtype datetime64[s]; use .astype(\"int64\") for "
        "the counts of its unit.",
    ),
    "out of the CPU": (
        lambda cupy: cross(cupy.asarray(X), out=np.empty_like(X)),
        TypeError,
        "out must be an array on a GPU, as the fields are, not ndarray in the memory of the CPU.",
    ),
    "out of the GPU": (
        lambda cupy: cross(X, out=cupy.asarray(X)),
        TypeError,
        "out must be a NumPy array, not an array on a GPU (cupy).",
    ),
    "out of another GPU": (
        lambda cupy: cross(cupy.asarray(X), out=elsewhere(cupy)),
        ValueError,
        "out lies on GPU 1, and the fields on GPU 0; give an array of the same GPU.",
    ),
    "out of another shape": (
        lambda cupy: cross(cupy.asarray(X), out=cupy.asarray(X[1:])),
        ValueError,
        "out has shape (11, 33), but the result has (12, 33).",
    ),
    "out of another dtype": (
        lambda cupy: cross(cupy.asarray(X), out=cupy.empty(X.shape, "int32")),
        TypeError,
        "out has dtype int32, but the result has float32; give an array of float32, or ask for "
        'int32 with dtype="int32" and overflow=.',
    ),
    "out overlaps itself": (
        lambda cupy: cross(
            cupy.asarray(X), out=cupy.broadcast_to(cupy.zeros((1, 33), "float32"), (12, 33))
        ),
        ValueError,
        "elements of out share memory: it has shape (12, 33) and strides (0, 4); give an array "
        "whose elements are all its own.",
    ),
    "bytes in the other order": (
        lambda cupy: cross(cupy.empty((12, 33), np.dtype("float32").newbyteorder())),
        TypeError,
        "'x' lies on a GPU with the bytes of its numbers turned round; give "
        "x.astype(x.dtype.newbyteorder('=')).",
    ),
    "a number that no type has": (
        lambda cupy: between(cupy.asarray(X), 2**80),
        TypeError,
        "'y' must be an array of numbers, not int.",
    ),
    "a coefficient on the GPU": (
        lambda cupy: weighted(cupy.asarray(X), cupy.asarray(X[:3, :3])),
        TypeError,
        "'k' is a cupy.ndarray; give cupy.asnumpy(k).",
    ),
    "too few axes": (
        lambda cupy: cross(cupy.asarray(X[0])),
        ValueError,
        "a stencil of 2 axes needs an array of at least 2 dimensions, not of shape (33,).",
    ),
    "a cval that does not fit": (
        lambda cupy: npt.filters.maximum(
            cupy.asarray(X.astype("uint8")), 3, boundary="constant", cval=300
        ),
        ValueError,
        "cval=300 does not fit the array, which is uint8; use a number from 0 to 255, or another "
        "dtype.",
    ),
    "a kernel that is not understood": (
        lambda cupy: slow(cupy.asarray(X)),
        npt.StencilError,
        "'slow' holds a loop that may not end, or a read that may be outside its neighborhood, "
        "so it cannot be computed on a GPU. [gpu-general]",
    ),
}


def elsewhere(cupy):
    with cupy.cuda.Device(1):
        return cupy.asarray(X)


@npt.stencil(standard_indexing="k")
def weighted(x, k):
    return x[0, 0] * k[1, 1]


@npt.stencil
def slow(x):
    value = x[0, 1]
    while value > 1:
        value /= 2
    return value


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(cupy, mistake):
    call, kind, words = MISTAKES[mistake]
    with pytest.raises(kind) as caught:
        call(cupy)
    assert str(caught.value).split("\n")[0] == words


def test_a_kernel_that_is_not_understood_says_where(cupy):
    with pytest.raises(npt.StencilError) as caught:
        slow(cupy.asarray(X))
    assert "while value > 1:" in str(caught.value)
    assert str(caught.value).endswith(
        "Help: Write it without, or give it arrays of NumPy, as cupy.asnumpy(x) makes them."
    )


def test_numbers_stand_beside_arrays_of_a_gpu(cupy):
    wanted = between.debug(X, np.float32(2))
    np.testing.assert_array_equal(between(cupy.asarray(X), np.float32(2)).get(), wanted)
