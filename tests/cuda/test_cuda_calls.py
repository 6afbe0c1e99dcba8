"""Calls on arrays of a GPU give what the reference gives, however the arrays lie."""

import numpy as np
import pytest
import xarray as xr
from cuda_stencils import between, inner, moment, over, two

import ninepoint as npt
import on_gpu
from compared import each
from on_gpu import same
from options import FILM, OPTIONS, kernel

RNG = np.random.default_rng(0)
X = RNG.random((2, 3, 5, 11)).astype("float32")
ROW = RNG.random(11).astype("float32")


def again(call):
    """What a call gives, thrice alike: found out, prepared and done as prepared."""
    first = call()
    for _ in range(2):
        for one, other in zip(each(call()), each(first), strict=True):
            np.testing.assert_array_equal(one.get(), other.get())
            assert one.strides == other.strides
    return first


def views(cupy, array):
    """The same numbers, lying in all kinds of ways."""
    padded = cupy.zeros((*array.shape[:-1], 3 * array.shape[-1] + 1), array.dtype)
    swapped = cupy.asarray(np.ascontiguousarray(array.swapaxes(0, 1)))
    room = cupy.zeros(array.nbytes + 1, "uint8")
    found = {
        "as it is": cupy.asarray(array),
        "every third": padded[..., 1::3],
        "backward": cupy.asarray(np.ascontiguousarray(array))[..., ::-1, ::-1],
        "transposed": cupy.asarray(np.ascontiguousarray(array.T)).T,
        "swapped frames": swapped.transpose(1, 0, 2, 3),
        # Where no GPU can read elements.
        "not aligned": room[1:].view(array.dtype).reshape(array.shape),
    }
    for view in found.values():
        view[...] = cupy.asarray(array)
    assert found["not aligned"].data.ptr % array.itemsize
    return found


def test_arrays_that_lie_in_any_way(cupy):
    """Those that are read and those that are written; one after the other, as calls are kept."""
    row, turned = cupy.asarray(ROW), cupy.asarray(X).transpose(3, 1, 0, 2)
    calls = (lambda x: between(x, row), two, lambda x: over(x, row, gain=3))
    wanted = [between.debug(X, ROW), two.debug(X), over.debug(X, ROW, gain=3)]
    for name, view in views(cupy, X).items():
        cupy.fake.log.clear()
        for call, right in zip(calls, wanted, strict=True):
            same(again(lambda view=view, call=call: call(view)), right)
        assert "upload" not in cupy.fake.log, name
    for out in views(cupy, 0 * X).values():
        for _ in range(3):
            out[...] = 0
            assert between(cupy.asarray(X), row, out=out) is out
            same(out, wanted[0])
    # Functions of numbers go through memory in its order, and give numbers for numbers.
    assert over(turned, turned).transpose(2, 1, 3, 0).flags.c_contiguous
    one = over(cupy.asarray(X[0, 0, 0, 0]), cupy.asarray(X[1, 0, 0, 0]))
    assert one.shape == ()
    same(one, over.debug(X[0, 0, 0, 0], X[1, 0, 0, 0]))


def test_axes_and_fields_that_broadcast(cupy):
    there = cupy.asarray(X)
    for axes in ((2, 0), (-1, -3)):
        same(again(lambda axes=axes: between(there, there, axes=axes)),
             between.debug(X, X, axes=axes))  # fmt: skip
        same(again(lambda axes=axes: inner(there, axes=axes)), inner.debug(X, axes=axes))
    for shape in ((11,), (3, 1, 1), (2, 1, 5, 11), (4, 1, 1, 1, 1)):
        y = RNG.random(shape).astype("float32")
        same(again(lambda y=y: between(there, cupy.asarray(y))), between.debug(X, y))
    for shape in ((0, 5), (2, 0, 3), (1, 1), (2, 2)):
        small = RNG.random(shape).astype("float32")
        few = cupy.asarray(small)
        same(again(lambda x=few: between(x, x)), between.debug(small, small))
        same(again(lambda x=few: inner(x)), inner.debug(small))
    column = ROW[:5, None]
    same(between(cupy.asarray(column), cupy.asarray(ROW)), between.debug(column, ROW))


def test_stacks_are_done_in_few_launches(cupy):
    array = RNG.random((3, 2, 2, 3, 2, 5, 6)).astype("float32")
    there = cupy.asarray(np.ascontiguousarray(array.transpose(4, 2, 0, 3, 1, 5, 6)))
    cupy.fake.log.clear()
    turned = there.transpose(2, 4, 1, 3, 0, 5, 6)
    same(between(turned, turned), between.debug(array, array))
    # Of five axes that are not one in memory three are in a launch.
    assert len(cupy.fake.launches()) == 6
    cupy.fake.log.clear()
    inner(there)
    assert len(cupy.fake.launches()) == 1


@npt.stencil(boundary="constant", cval=3, standard_indexing="k")
def weighted(x, k, a, b=2, *, c=0.5):
    return (x[-1, 0] * k[0] + x[0, 1] * k[1] + a) * b + c


def test_numbers_and_coefficients(cupy):
    k, x = np.array([0.25, 3]), X[0]
    there = cupy.asarray(x)
    pairs = ((1, 2), (1.5, 2), (True, 2.5), (np.float32(0.1), np.int8(3)))
    with on_gpu.prepared(lambda ab=ab: weighted(there, k, *ab, c=7) for ab in pairs):
        for a, b in pairs:
            wanted = weighted.debug(x, k, a, b, c=7)
            same(again(lambda a=a, b=b: weighted(there, k, a, b, c=7)), wanted)
    cupy.fake.log.clear()
    for a, given in ((1, k), (3, k), (1, k[::-1][::-1])):
        weighted(there, given, a, 2)
    assert "upload" not in cupy.fake.log
    k[0] = 5
    same(weighted(there, k, 1, 2), weighted.debug(x, k, 1, 2))
    assert cupy.fake.log.count("upload") == 1
    # What another stream does with it might come first.
    with cupy.cuda.Stream():
        weighted(there, k, 1, 2)
    assert cupy.fake.log.count("upload") == 2
    same(between(there, np.float32(2)), between.debug(x, np.float32(2)))


def test_results_that_are_there_and_overlap(cupy):
    there, row = cupy.asarray(X), cupy.asarray(ROW)
    wanted = between.debug(X, ROW)
    out = (cupy.empty(X.shape, "float32"), cupy.empty(X.shape, "bool"))
    assert two(there, out=out)[1] is out[1]
    same(out, two.debug(X))
    half, small = cupy.empty(X.shape, "float16"), cupy.empty((2, 3, 3, 8), "float32")
    same(between(there, row, out=half), wanted.astype("float16"))
    same(inner(there, out=small), inner.debug(X))
    for _ in range(3):
        itself = cupy.asarray(X)
        same(between(itself, row, out=itself), wanted)
    # The arrays of the later calls lie as those of the first, but not apart.
    room = cupy.zeros((4, 5, 11), "float32")
    whole = np.concatenate([X[0], X[1][:1]])
    for a, b in ((0, 2), (0, 2), (0, 1), (1, 0)):
        room[...] = cupy.asarray(whole)
        between(room[a : a + 2], row, out=room[b : b + 2])
        same(room[b : b + 2], between.debug(whole[a : a + 2], ROW))


def test_lazy_values_names_and_the_gpu_and_the_stream_of_the_arrays(cupy):
    there, row = cupy.asarray(X), cupy.asarray(ROW)
    wanted = between.debug(between.debug(X, ROW), ROW)
    for _ in range(2):
        same(between(between(npt.lazy(there), row), row).compute(), wanted)
    named = xr.DataArray(there, dims=tuple("tzyx"), coords={"y": np.arange(5.0)}, name="u")
    found = inner(named, dims=("y", "x"))
    assert type(found.data) is cupy.ndarray
    assert found.name == "u"
    np.testing.assert_array_equal(found["y"], np.arange(1.0, 4.0))
    same(found.data, inner.debug(X))
    with cupy.cuda.Device(1):
        there = cupy.asarray(X)
    cupy.fake.log.clear()
    with cupy.cuda.Stream() as stream:
        for _ in range(3):
            found = inner(there)
            assert found.device.id == 1
    assert {one for one in cupy.fake.log if isinstance(one, tuple)} == {
        ("kernel_inner_plain", stream.ptr, 1)
    }
    assert cupy.fake.device == 0
    same(found, inner.debug(X))


def test_colour_images_are_asked_about(cupy):
    image = cupy.asarray((255 * RNG.random((64, 80, 3))).astype("uint8"))
    with pytest.warns(npt.ChannelWarning, match="looks like the channels"):
        inner(image)


def test_what_is_too_far_for_32_bits(cupy, limited, tmp_path, monkeypatch):
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))
    there = cupy.asarray(X)
    wanted = npt.stencil(inner.__wrapped__)(there).get()
    limited(far_elements=20)
    same(npt.stencil(inner.__wrapped__)(there), wanted)
    (before, options), (text, others) = cupy.fake.texts
    assert text == before
    assert set(others) - set(options) == {"--define-macro=NPT_INDEX=long long"}
    # The CPU would copy all that lies between.
    far, places = npt.stencil(lambda x: x[2**31 - 2] - x[1], boundary="wrap"), np.arange(7.0)
    same(far(cupy.asarray(places)), (places + 2**31 - 2) % 7 - (places + 1) % 7)


# Regressions, and what random programs seldom draw.
slope = npt.stencil(lambda x: x[1] - x[-1] + x[0], boundary="fill", cval=1)
both = npt.stencil(lambda x, y: slope(x)[0] + y[1])


@npt.stencil(neighborhood=((-1, 1), (-1, 1)), boundary="reflect")
def column(x):
    total, k = 0, -1
    while k < 2:
        total += x[k, 0]
        k += 1
    return total // 3


@npt.stencil(neighborhood=((-2, 2), (-2, 2)), boundary="wrap")
def brightest(x):
    best = 0
    for i in range(-2, 3):
        for j in range(-2, 3):
            if x[i, j] % 7 == 3:
                continue
            best = max(best, x[i, j])
            if best > 220:
                break
    return best


@npt.stencil(neighborhood=((-2, 2), (-3, 3)), boundary="constant", cval=7)
def follows(x):
    row = min(max(int(x[0, 0]) % 5 - 2, -2), 2)
    return x[row, -3] + x[-row, row]


def test_loops_that_end_and_shorter_stages(cupy):
    x = RNG.random((7, 15)) * 255
    short, long = np.array([[85.0], [-67.0]]), np.arange(14.0).reshape(2, 7)
    given = [
        (both, short, long), (moment, X[0, 0]), (column, x.astype("int32")),
        (brightest, x.astype("uint8")), (follows, x.astype("float16")),
    ]  # fmt: skip
    with on_gpu.prepared(lambda c=c, f=f: c(*map(cupy.asarray, f)) for c, *f in given):
        for call, *fields in given:
            same(call(*map(cupy.asarray, fields)), call(*fields))


def outcome(call, x, options):
    """What a call gives, or how it is refused."""
    try:
        return call(x, **options)
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def agree(found, wanted, name):
    if isinstance(wanted, tuple) or isinstance(found, tuple):
        assert found == wanted, name
    else:
        same(found, wanted)


def test_every_option_means_the_same(cupy):
    sent = {"device": "cuda"}
    with on_gpu.prepared(lambda o=o: kernel(FILM, **o(), **sent) for o in OPTIONS.values()):
        for name, options in OPTIONS.items():
            wanted = outcome(kernel, FILM, options())
            agree(outcome(kernel, FILM, options() | sent), wanted, name)
            given = options()
            if isinstance(given.get("out"), np.ndarray):
                # What NumPy arrays alone can be is left out.
                if name in ("out is read-only", "out overlaps itself"):
                    continue
                given["out"] = cupy.asarray(given["out"])
            elif "out" in given:
                given["out"] = type(given["out"])(map(cupy.asarray, given["out"]))
            agree(outcome(kernel, cupy.asarray(FILM), given), wanted, name)
