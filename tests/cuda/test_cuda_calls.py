"""Calls on arrays of a GPU give what the reference gives, however the arrays lie."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
import on_gpu

RNG = np.random.default_rng(0)
X = RNG.random((2, 3, 5, 11)).astype("float32")
ROW = RNG.random(11).astype("float32")


@npt.stencil(boundary="nearest")
def between(x, y):
    return x[-1, 1] - y[0, 2] * x[1, 0]


@npt.stencil(boundary="valid")
def inner(x):
    return x[-1, 1] - x[1, -2]


@npt.stencil(boundary="constant", cval=3, standard_indexing="k")
def weighted(x, k, a, b=2, *, c=0.5):
    return (x[-1, 0] * k[0] + x[0, 1] * k[1] + a) * b + c


@npt.stencil(boundary="nearest")
def two(x, r=0.5):
    s = between(x, x)
    return s[0, 0] + r * x[1, 1], s[0, 1] > 0.5


@npt.ufunc
def over(x, y, *, gain=1.0):
    return gain * (x - y) if x > y else x


def views(cupy, array):
    """The same numbers, lying in all kinds of ways."""
    there = cupy.asarray(array)
    padded = cupy.zeros((*array.shape[:-1], 3 * array.shape[-1] + 1), array.dtype)
    padded[..., 1::3] = there
    backward = cupy.asarray(np.ascontiguousarray(array[..., ::-1, ::-1]))
    fortran = cupy.asarray(np.ascontiguousarray(array.T))
    room = cupy.zeros(array.nbytes + 1, "uint8")
    return {
        "as it is": there,
        "every third": padded[..., 1::3],
        "backward": backward[..., ::-1, ::-1],
        "transposed": fortran.T,
        "swapped frames": cupy.asarray(np.ascontiguousarray(array.swapaxes(0, 1))).transpose(
            1, 0, 2, 3
        ),
        "not aligned": room[1:].view(array.dtype).reshape(array.shape),
    }


def same(found, wanted):
    for one, other in zip(
        found if isinstance(found, tuple) else [found],
        wanted if isinstance(wanted, tuple) else [wanted],
        strict=True,
    ):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.get(), other)


def again(call):
    """What a call gives, thrice alike: found out, prepared and done as prepared."""
    first = call()
    for _ in range(2):
        found = call()
        pairs = zip(found, first, strict=True) if isinstance(first, tuple) else [(found, first)]
        for one, other in pairs:
            np.testing.assert_array_equal(one.get(), other.get())
            assert one.strides == other.strides
    return first


def test_arrays_that_lie_in_any_way(cupy):
    wanted = between.debug(X, ROW)
    kinds = views(cupy, X)
    kinds["not aligned"][...] = cupy.asarray(X)
    for name, view in kinds.items():
        cupy.fake.log.clear()
        same(again(lambda view=view: between(view, cupy.asarray(ROW))), wanted)
        assert "get" not in cupy.fake.log[:1], name


def unaligned(cupy, array):
    """A copy whose elements lie where no GPU can read them."""
    room = cupy.zeros(array.nbytes + 1, "uint8")
    found = room[1:].view(array.dtype).reshape(array.shape)
    found[...] = cupy.asarray(array)
    assert found.data.ptr % array.itemsize
    return found


@npt.stencil(boundary="nearest")
def step(u):
    return (u[-1, 0] + u[0, 1]) * np.float32(0.5)


def test_elements_that_are_not_aligned(cupy):
    """Also after calls on arrays that lie alike but for that; steps, results and ufuncs too."""
    there, odd, row = cupy.asarray(X), unaligned(cupy, X), unaligned(cupy, ROW)
    fields = (there, odd, there, odd[:, ::2], odd[..., ::-1])
    calls = (lambda x, y: between(x, y), lambda x, y: two(x), lambda x, y: over(x, y, gain=2))
    with on_gpu.prepared(lambda x=x, c=c: c(x, row) for x in fields for c in calls):
        for field in fields:
            same(between(field, row), between.debug(field.get(), ROW))
            same(two(field), two.debug(field.get()))
            same(over(field, row, gain=2), over.debug(field.get(), ROW, gain=2))
    same(step.iterate(odd, steps=3), step.iterate(X, steps=3))
    out = unaligned(cupy, 0 * X)
    for field in (there, odd):
        assert between(field, row, out=out) is out
        same(out, between.debug(X, ROW))
    assert step.iterate(odd, steps=3, out=odd) is odd
    same(odd, step.iterate(X, steps=3))


@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (-1, -3), (3, 2)])
def test_axes(cupy, axes):
    there = cupy.asarray(X)
    same(again(lambda: between(there, there, axes=axes)), between.debug(X, X, axes=axes))
    same(again(lambda: inner(there, axes=axes)), inner.debug(X, axes=axes))


def test_fields_that_broadcast(cupy):
    for shape in ((11,), (5, 1), (3, 1, 1), (2, 1, 5, 11), (1, 1), (4, 1, 1, 1, 1)):
        y = RNG.random(shape).astype("float32")
        found = again(lambda y=y: between(cupy.asarray(X), cupy.asarray(y)))
        same(found, between.debug(X, y))
    same(
        between(cupy.asarray(ROW[:5, None]), cupy.asarray(ROW)), between.debug(ROW[:5, None], ROW)
    )


def test_stacks_of_many_axes_are_done_in_parts(cupy):
    array = RNG.random((3, 2, 2, 3, 2, 5, 6)).astype("float32")
    there = cupy.asarray(np.ascontiguousarray(array.transpose(4, 2, 0, 3, 1, 5, 6)))
    there = there.transpose(2, 4, 1, 3, 0, 5, 6)
    cupy.fake.log.clear()
    same(between(there, there), between.debug(array, array))
    # Of five axes that are not one in memory three are in a launch.
    assert sum(isinstance(one, tuple) for one in cupy.fake.log) == 6


def test_frames_that_follow_each_other_are_one_axis(cupy):
    array = RNG.random((2, 3, 2, 2, 2, 4, 5)).astype("float32")
    cupy.fake.log.clear()
    same(inner(cupy.asarray(array)), inner.debug(array))
    assert sum(isinstance(one, tuple) for one in cupy.fake.log) == 1


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (2, 0, 3), (1, 1), (3, 0, 4, 5), (2, 2)])
def test_small_and_empty_arrays(cupy, shape):
    array = RNG.random(shape).astype("float32")
    there = cupy.asarray(array)
    same(again(lambda: between(there, there)), between.debug(array, array))
    same(again(lambda: inner(there)), inner.debug(array))


def test_numbers_and_coefficients(cupy):
    k = np.array([0.25, 3])
    x = X[0]
    there = cupy.asarray(x)
    pairs = ((1, 2), (1.5, 2), (True, 2.5), (np.float32(0.1), np.int8(3)))
    with on_gpu.prepared(lambda ab=ab: weighted(there, k, *ab, c=7) for ab in pairs):
        for a, b in pairs:
            wanted = weighted.debug(x, k, a, b, c=7)
            same(again(lambda a=a, b=b: weighted(there, k, a, b, c=7)), wanted)
    cupy.fake.log.clear()
    weighted(there, k, 1, 2)
    weighted(there, k, 3, 2)
    weighted(there, k[::-1][::-1], 1, 2)
    assert "upload" not in cupy.fake.log
    k[0] = 5
    same(weighted(there, k, 1, 2), weighted.debug(x, k, 1, 2))
    assert cupy.fake.log.count("upload") == 1
    # What another stream does with it might come first.
    with cupy.cuda.Stream():
        weighted(there, k, 1, 2)
    assert cupy.fake.log.count("upload") == 2


def test_several_calls_and_outputs(cupy):
    there = cupy.asarray(X)
    same(again(lambda: two(there, 0.25)), two.debug(X, 0.25))
    out = (cupy.empty(X.shape, "float32"), cupy.empty(X.shape, "bool"))
    for _ in range(3):
        assert two(there, 0.25, out=out)[1] is out[1]
        same(out, two.debug(X, 0.25))


def test_out(cupy):
    there, row = cupy.asarray(X), cupy.asarray(ROW)
    wanted = between.debug(X, ROW)
    for name, out in views(cupy, X).items():
        for _ in range(3):
            out[...] = 0
            assert between(there, row, out=out) is out
            np.testing.assert_array_equal(out.get(), wanted, err_msg=name)
    # In place, into a part of itself, and of a shorter type.
    for _ in range(3):
        over_itself = cupy.asarray(X)
        between(over_itself, row, out=over_itself)
        np.testing.assert_array_equal(over_itself.get(), wanted)
    half = cupy.empty(X.shape, "float16")
    between(there, row, out=half)
    np.testing.assert_array_equal(half.get(), wanted.astype("float16"))
    room = cupy.zeros((3, 3, 5, 11), "float32")
    room[:2] = there
    between(room[:2], row, out=room[1:])
    np.testing.assert_array_equal(room[1:].get(), wanted)
    small = cupy.empty((2, 3, 3, 8), "float32")
    assert inner(there, out=small) is small
    np.testing.assert_array_equal(small.get(), inner.debug(X))


def test_prepared_calls_look_where_out_is(cupy):
    # The arrays of the second call lie as those of the first, but not apart.
    room = cupy.zeros((4, 5, 11), "float32")
    room[...] = cupy.asarray(np.concatenate([X[0], X[1][:1]]))
    host = room.get()
    for a, b in ((0, 2), (0, 2), (0, 1), (1, 0)):
        wanted = between.debug(room[a : a + 2].get(), ROW)
        between(room[a : a + 2], cupy.asarray(ROW), out=room[b : b + 2])
        np.testing.assert_array_equal(room[b : b + 2].get(), wanted)
        room[...] = cupy.asarray(host)


def test_types(cupy):
    given = [
        ((X[0] + 1j * X[1]).astype("complex64"), {}),
        (X[0].astype("float16"), {}),
        (X[0].astype(ml_dtypes.bfloat16), {}),
        ((200 * X[0]).astype("uint8"), {"dtype": "uint8", "overflow": "saturate"}),
    ]
    with on_gpu.prepared(lambda x=x, o=o: inner(cupy.asarray(x), **o) for x, o in given):
        for x, options in given:
            found = again(lambda x=x, o=options: inner(cupy.asarray(x), **o))
            same(found, inner.debug(x, **options))


def test_half_floats_are_kept(cupy):
    h = X[0].astype("float16")
    for dtype in ("float16", "float32"):
        options = {"boundary": "keep", "dtype": dtype}
        same(
            between(cupy.asarray(h), h[0, 0, 0], **options),
            between.debug(h, h[0, 0, 0], **options),
        )


def test_ufuncs(cupy):
    there, row = cupy.asarray(X), cupy.asarray(ROW)
    wanted = over.debug(X, ROW, gain=3)
    for view in views(cupy, X).values():
        view[...] = there
        found = again(lambda view=view: over(view, row, gain=3))
        same(found, wanted)
    turned = over(there.transpose(3, 1, 0, 2), there.transpose(3, 1, 0, 2))
    assert turned.transpose(2, 1, 3, 0).flags.c_contiguous
    same(over(there, 0.5, gain=2), over.debug(X, 0.5, gain=2))
    one = over(cupy.asarray(X[0, 0, 0, 0]), cupy.asarray(X[1, 0, 0, 0]))
    assert one.shape == ()
    same(one, over.debug(X[0, 0, 0, 0], X[1, 0, 0, 0]))


def test_lazy_values_and_names(cupy):
    there, row = cupy.asarray(X), cupy.asarray(ROW)
    wanted = between.debug(between.debug(X, ROW), ROW)
    for _ in range(3):
        same(between(between(npt.lazy(there), row), row).compute(), wanted)
    named = xr.DataArray(there, dims=tuple("tzyx"), coords={"y": np.arange(5.0)}, name="u")
    found = inner(named, dims=("y", "x"))
    assert type(found.data) is cupy.ndarray
    assert found.name == "u"
    np.testing.assert_array_equal(found["y"], np.arange(1.0, 4.0))
    same(found.data, inner.debug(X))


def test_the_gpu_and_the_stream_of_the_arrays(cupy):
    with cupy.cuda.Device(1):
        there = cupy.asarray(X)
    cupy.fake.log.clear()
    with cupy.cuda.Stream() as stream:
        for _ in range(3):
            found = inner(there)
            assert found.device.id == 1
    names = {one for one in cupy.fake.log if isinstance(one, tuple)}
    assert names == {("kernel_inner_plain", stream.ptr, 1)}
    assert cupy.fake.device == 0
    same(found, inner.debug(X))


def test_colour_images_are_asked_about(cupy):
    image = cupy.asarray((255 * RNG.random((64, 80, 3))).astype("uint8"))
    with pytest.warns(npt.ChannelWarning, match="looks like the channels"):
        inner(image)


def test_arrays_too_large_for_32_bits_are_compiled_otherwise(cupy, limited, tmp_path, monkeypatch):
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))

    def differences():
        @npt.stencil(boundary="valid")
        def one(x):
            return x[-1, 1] - x[1, -2]

        return one

    there = cupy.asarray(X)
    wanted = differences()(there).get()
    limited(far_elements=20)
    np.testing.assert_array_equal(differences()(there).get(), wanted)
    (before, options), (text, others) = cupy.fake.texts
    assert text == before
    assert set(others) - set(options) == {"--define-macro=NPT_INDEX=long long"}


def test_positions_too_far_for_32_bits(cupy):
    far = npt.stencil(lambda x: x[2**31 - 2] - x[1], boundary="wrap")
    x = np.arange(7.0)
    # The CPU would copy all that lies between.
    places = np.arange(7)
    wanted = x[(places + 2**31 - 2) % 7] - x[(places + 1) % 7]
    assert np.array_equal(far(cupy.asarray(x)).get(), wanted)


def test_stages_of_shorter_fields_end_where_these_end(cupy):
    @npt.stencil(boundary="fill", cval=1)
    def slope(x):
        return x[1] - x[-1] + x[0]

    @npt.stencil
    def both(x, y):
        s = slope(x)
        return s[0] + y[1]

    x, y = np.array([[85.0], [-67.0]]), np.arange(14.0).reshape(2, 7)
    made = both(cupy.asarray(x), cupy.asarray(y)).get()
    np.testing.assert_array_equal(made, both.debug(x, y))
