"""Numbers of 64 bits without a sign, and floats of 16 bits: all of them, given in any way."""

import itertools
import math
import os
from typing import Any

import dask.array as da
import ml_dtypes
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import agree, alike, refuses
from own_process import printed

HALF, BFLOAT = np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)
TYPES = (HALF, BFLOAT)
both = pytest.mark.parametrize("dtype", TYPES, ids=str)
BITS = np.arange(65536, dtype="uint16")
IMAGE = np.random.default_rng(5).normal(size=(12, 15))
widened = npt.ufunc(lambda x: x, dtype="float32")
same = npt.ufunc(lambda x: x)


@npt.stencil(boundary="reflect")
def blur(x):
    return (x[-1, 0] + x[0, -1] * 3 + x[0, 1] + x[1, 0]) / 6


@npt.stencil(boundary="wrap", neighborhood=((0, 0), (-1, 1)))
def looping(x):
    total, k = 0.0, 0
    while k < 3 and total < 9:
        total, k = total + x[0, k - 1], k + 1
    return total


def equal(made, wanted) -> None:
    """Of one type, and of the same numbers with the same signs."""
    assert made.dtype == wanted.dtype
    wide = "complex128" if made.dtype.kind == "c" else "float64"
    # Some kinds of NaN ask to be told of.
    with np.errstate(invalid="ignore"):
        made, wanted = (np.asarray(one).astype(wide) for one in (made, wanted))
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(np.signbit(made.real), np.signbit(wanted.real))


def test_all_numbers_and_what_rounds_to_them() -> None:
    for dtype in TYPES:
        every = BITS.view(dtype)
        with np.errstate(invalid="ignore"):
            is_finite = np.isfinite(every)
        equal(widened(every), every.astype("float32"))
        # What lies between two of them, and next to that, from the least to what is infinite.
        finite = np.sort(every[is_finite].astype("float32"))
        between = finite[1:] / 2 + finite[:-1] / 2
        greatest = float(finite[-1])
        unit = greatest - float(finite[-2])
        edges = np.array([greatest + unit / 2, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-45])
        whole = np.concatenate([np.arange(-3000, 3000), 2 ** np.arange(62) * 257 // 256])
        with np.errstate(over="ignore"):
            exact = np.concatenate([finite, between, edges.astype("float32")])
            near = [np.nextafter(exact, np.float32(to)) for to in (0, np.inf, -np.inf)]
            given = np.concatenate([exact, *near, exact * np.float32(1.0001)])
            longer = given.astype("float64") * (1 + 2**-40)
            for x in (given, longer, whole):
                wanted = x.astype("float64" if x is whole else x.dtype).astype(dtype)
                equal(same(x, dtype=dtype), wanted)
            equal(same(longer, out=np.empty(longer.shape, dtype)), longer.astype(dtype))


@pytest.mark.nightly
def test_all_numbers_on_a_processor_that_knows_none() -> None:
    here = os.path.dirname(__file__)
    paths = os.pathsep.join([here, os.path.dirname(here), os.environ.get("PYTHONPATH", "")])
    code = "import test_halves as t; t.test_all_numbers_and_what_rounds_to_them()"
    printed("-c", code, NUMBA_CPU_NAME="generic", PYTHONPATH=paths)


@both
def test_values_at_the_border_that_are_of_this_type(dtype) -> None:
    x = IMAGE.astype(dtype)
    one, line = dtype.type(1.7), np.linspace(-3, 3, 15).astype(dtype)
    plain, wide = float(one), line.astype("float64")
    equal(blur(x, boundary="constant", cval=one), blur(x, boundary="constant", cval=plain))
    for at, (given, known) in itertools.product(("cell", "face"), ((one, plain), (line, wide))):
        sides = (npt.dirichlet(value, at=at) for value in (given, known))
        equal(*(blur(x, boundary=((side, "nearest"), "nearest")) for side in sides))
    # Numbers that are too large.
    most = {HALF: r"6.55e\+04", BFLOAT: r"3.39e\+38"}[dtype]
    words = f"fit the array, which is {dtype}; use numbers up to {most}"
    refuses(ValueError, words, blur, x, boundary="constant", cval=3.4e38)
    with pytest.raises(ValueError, match=f"which is {dtype}; use numbers up to"):
        blur(x, boundary=npt.dirichlet(np.full(15, 3.4e38), at="cell"))
    assert np.isinf(blur(x, boundary="constant", cval=np.inf)[0, 0])


@both
def test_every_way_to_call(dtype) -> None:
    x = IMAGE.astype(dtype)
    wanted = blur(x.astype("float32"))
    rounded = wanted.astype(dtype)
    equal(blur(x), wanted)
    for name in (dtype, dtype.type, str(dtype)):
        equal(blur(x, dtype=name), rounded)
    equal(blur(IMAGE, out=np.empty_like(x)), blur(IMAGE).astype(dtype))
    of_loop = looping(x.astype("float32"))
    equal(looping(x, dtype=dtype), of_loop.astype(dtype))
    equal(looping.debug(x), of_loop)
    step = npt.stencil(blur.__wrapped__, dtype=dtype, boundary="wrap")
    for field in (x, da.from_array(x, chunks=9), xr.DataArray(x, dims=("y", "x"))):
        equal(np.asarray(step.iterate(field, steps=2)), step(step(x)))
    refuses(ValueError, f"gives float32 for a state of {dtype}", blur.iterate, x, steps=2)
    assert f"blur: x {dtype} -> float32" in blur.explain(x)


@both
def test_ready_made_filters_and_numbers_that_a_kernel_knows(dtype) -> None:
    x = IMAGE.astype(dtype)
    x[3, 4], x[9, 9] = np.nan, np.inf
    filters = npt.filters
    few = ((filters.median, 3), (filters.gaussian, 1.5))
    others = ((filters.percentile, 30), (filters.mean, 5), (filters.maximum, 9))
    weights = (np.arange(9).reshape(3, 3) / 8).astype(dtype)
    for function, given in (*(few if dtype == HALF else others), (filters.correlate, weights)):
        equal(function(x, given), function(x.astype("float32"), given))
    x = np.rint(IMAGE * 8).astype(dtype)
    few, own = np.array([0.25, 0.5, 0.75], dtype), dtype.type(1.25)
    wide, number = few.astype("float32"), np.float32(own)
    kernel = npt.stencil(lambda x: (x[0, -1:2] * few).sum() + own * few[1])
    wanted = npt.stencil(lambda x: (x[0, -1:2] * wide).sum() + number * wide[1])(x)
    given = npt.stencil(standard_indexing=("w",))(lambda x, w, *, k: x[0, -1] * w[2] + k)
    for one, other in ((kernel, given), (kernel.debug, given.debug)):
        equal(one(x), wanted)
        equal(other(x, few, k=own), given(x, wide, k=number))


@both
def test_what_is_kept_at_the_border(dtype) -> None:
    """It needs a type that holds it; another rule's constant is of the field's own type."""
    x = IMAGE.astype(dtype)
    counted = npt.stencil(lambda x: (x[0] > 3) * 1000, boundary="keep")
    equal(counted(x[0]), counted(x[0].astype("float32")))
    for out in TYPES:
        made = blur(x, boundary="keep", out=np.empty(x.shape, out))
        equal(made[0], x[0].astype("float32").astype(out))
    known = float(np.array(1.001, dtype))
    for call in (blur, blur.debug):
        made = call(x, boundary="constant", cval=1.001)
        equal(made, blur(x.astype("float32"), boundary="constant", cval=known))


@npt.gufunc("(n)->()")
def total(a):
    made = 0.0
    for one in a:
        made += one
    return made


@both
def test_gufuncs(dtype) -> None:
    # Sums of these are too long for 16 bits, and short enough for 32.
    x = np.rint(IMAGE * 2048).astype(dtype)
    assert np.any(total(x) != total(x).astype(dtype).astype("float64"))
    equal(total(x), total(x.astype("float32")))
    equal(total.debug(x), total(x))
    equal(total(x, out=np.empty(12, dtype)), total(x).astype(dtype))
    words = f"dtype={dtype} is one that 'total' cannot compute; out= takes arrays of it"
    refuses(TypeError, words, total, x, dtype=dtype)


# What is none of them, though it has as many bytes.
def test_what_is_refused_also_by_files(tmp_path) -> None:
    x, out = IMAGE.astype(BFLOAT), np.empty(IMAGE.shape, BFLOAT)
    stencil = npt.stencil(blur.__wrapped__, dtype=BFLOAT, boundary="reflect")
    for other in ("V2", np.dtype([("a", "u1"), ("b", "u1")])):
        stencil(x, out=out)
        refuses(TypeError, "a stencil cannot compute with 'x' of dtype", stencil, x.view(other))
        with pytest.raises(TypeError, match="the result has bfloat16; give an array of"):
            stencil(x, out=out.view(other))
    bits = x.view("uint16")
    equal(stencil(bits), blur(bits.astype("float64")).astype("float32").astype(BFLOAT))
    words = "out has dtype bfloat16, but the result has complex64; give an array of complex64"
    refuses(TypeError, words, blur, IMAGE.astype("complex64"), out=out)
    with pytest.raises(ValueError, match="dtype=bfloat16 cannot hold the complex result"):
        blur(IMAGE.astype("complex64"), dtype=BFLOAT)
    with pytest.raises(npt.StencilError, match=r"'ml_dtypes\.bfloat16' cannot be used in a ker"):
        npt.stencil(lambda x: ml_dtypes.bfloat16(x[0]))
    x = IMAGE.astype(BFLOAT)
    for name in ("a.npy", "a.zarr", "a.nc", "a.tif"):
        refuses(TypeError, "bfloat16", npt.save, x, tmp_path / name)
        assert not (tmp_path / name).exists()
    refuses(TypeError, "no image format holds bfloat16 arrays", npt.imsave, x, tmp_path / "a.png")


def test_the_package_comes_with_the_array() -> None:
    code = "import sys, ninepoint, numpy as np\n"
    code += "ninepoint.filters.mean(np.ones((9, 9), 'float16'), 3)\n"
    code += "assert 'ml_dtypes' not in sys.modules"
    printed("-c", code)


words = np.array([0, 5, 3, 2**63 - 1, 7, 2**40, 2, 9], dtype=np.uint64)
great = words + np.uint64(2**63)
signed = np.array([-3, 5, 0, 2**62, -7, 1, -(2**62), 4])
weights = np.array([-1, 0, 1])
factors = np.array([4, 4])
LARGE = np.uint64(2**63 + 1)


@npt.stencil(boundary="reflect")
def differences(x):
    return x[1] - x[-1], -x[0], x[0] - 7, 7 - x[0], x[1] - 2 * x[0] + x[-1]


def mixed(x, y):
    return x[0] + y[0], x[0] * y[1], x[1] + -3, y[0] - x[0], x[0] if y[0] > 0 else y[1]


def windows(x):
    return (x[-1:2] * weights).sum(), (x[-1:2] - x[0]).max(), abs(x[1] - x[0]), x[-1:2].ptp()


def divided(x, y):
    return x[0] // y[0], x[0] % y[0], y[0] // x[1], y[0] % x[1], (x[1] - x[0]) // x[0]


def modular(x):
    return x[0] + x[1], x[0] * 3 + x[1], (x[-1:2] * abs(weights)).sum(), x[0] ** 2, x[0] // 2 + 1


def extremes(x, y):
    least = min(x[0], y[0])
    return (
        least, least - 5, max(x[0], y[0]), np.minimum(x[0:2], y[0:2]).min(),
        np.maximum(x[0:2], y[0:2]).max(), (x[0:2] > y[0:2]).sum(), x[0] < y[0] <= 5,
        np.clip(x[0], -5, -1), np.clip(y[0], -1, x[0]), y[0] < x[0] - x[0],
    )  # fmt: skip


def at_the_end(x):
    return x[0] + 2**63, max(x[0], 2**64 - 2), x[0] // 2**63, x[0] > 2**63, x[0] == LARGE


def scaled(x):
    """Constants that are not negative leave words words."""
    return (factors * x[-1:1]).max(), (x[-1:1] * factors).min()


@npt.stencil(neighborhood=((-2, 2),))
def summing(x, y):
    total, steps, sums, k = 0, 0, 0, -1
    while k < 2:
        total += x[k + 1] - x[k]
        steps = steps + x[k] * y[k]
        sums += x[k]
        k += 1
    return total, steps, sums, -x[0], x[1] // y[0], y[0] % x[1], x[0] + y[0], x[0] + 3


I, U = "int64", "uint64"  # noqa: E741


@pytest.mark.parametrize(("kernel", "kinds"), [
    (differences, [I] * 5),
    (mixed, [I] * 5),
    (windows, [I, I, I, U]),
    (divided, [I, I, I, U, I]),
    (modular, [U] * 5),
    (extremes, [I, I, U, I, U, "uint8", "bool", "int8", I, "bool"]),
    (at_the_end, [U, U, U, "bool", "bool"]),
    (scaled, [U, U]),
    (summing, [I, I, U, I, I, U, I, U]),
])  # fmt: skip
def test_words_and_signed_numbers(kernel: Any, kinds: list[str]) -> None:
    """sobel(g).max() of a sum of bytes, which NumPy makes uint64, was 18446744073709551615."""
    for x in (words, great):
        fields = [x, signed] if kernel in (mixed, divided, extremes, summing) else [x]
        made = agree(kernel, *fields, boundary="reflect")
        assert [one.dtype.name for one in made] == kinds


def test_whole_numbers_of_words_and_what_may_wrap() -> None:
    power = npt.stencil(lambda x: abs(x[0] - x[1]) ** 2)
    window = npt.stencil(lambda x: x[-1:2].sum())
    told = "an operation may wrap beyond 64 bits"
    for kernel, wraps, fits in ((power, "int32", "int16"), (window, "int64", "int32")):
        assert told in kernel.explain(wraps)
        assert "may wrap" not in kernel.explain(fits)
    assert told in differences.explain(words)

    @npt.stencil
    def kernel(x):
        total = 0
        while True:
            for _ in range(3):
                if x[0] > 2:
                    total += int(x[0])
            return total, math.floor(x[0]), math.trunc(x[0]), 3 - total

    agree(kernel, np.array([2**63 + 1025, 2**53 + 1, 7, 0], np.uint64))


image = np.random.default_rng(3).integers(0, 256, (9, 11), dtype=np.uint8)
soft = npt.stencil(lambda x: x[-1:2, -1:2].mean(), boundary="reflect")
halves = npt.stencil(lambda x: (x[0, 0] + x[0, 1]) * 0.5 - 100, boundary="reflect")


@npt.stencil(boundary="reflect", neighborhood=((0, 0), (-1, 1)))
def looped(x):
    total, k = 0, 0
    while k < 3:
        total, k = total + x[0, k - 1], k + 1
    return total / 2 - 100


added = npt.ufunc(lambda x, y: x * 0.25 + y)


@npt.stencil(boundary="reflect")
def staged(x):
    s = soft(x, dtype=np.uint8, overflow="saturate")
    return s[0, 1] - s[0, -1]


CASES = [(soft, "uint8"), (halves, "int16"), (halves, "uint64"), (halves, "int64")]


@pytest.mark.parametrize(("kernel", "dtype"), [*CASES, (looped, "uint8")])
def test_saturation_rounds_to_nearest(kernel, dtype) -> None:
    """They were cut toward zero, so that images became darker with each pass."""
    info = np.iinfo(dtype)
    floats = kernel(image)
    wanted = np.rint(floats).clip(max(info.min, -(2**53)), min(info.max, 2**53)).astype(dtype)
    options = {"dtype": dtype, "overflow": "saturate"}
    alike(kernel(image, **options), wanted)
    alike(kernel.debug(image, **options), wanted)
    alike(kernel(da.from_array(image, chunks=5), **options).compute(scheduler="sync"), wanted)
    low = kernel(image, dtype=dtype, overflow="wrap")
    alike(low, np.trunc(floats).astype(np.int64).astype(dtype))
    alike(kernel.debug(image, dtype=dtype, overflow="wrap"), low)


def test_what_fits_is_rounded_too_and_the_range_is_told() -> None:
    """A mean of bytes fits in bytes once it is rounded, and needs no `overflow=`."""
    alike(soft(image, dtype=np.uint8), np.rint(soft(image)).astype(np.uint8))
    alike(staged(image), staged.debug(image))
    rows = image[0], image[1]
    options = {"dtype": np.uint8, "overflow": "saturate"}
    wanted = np.minimum(np.rint(rows[0] * 0.25 + rows[1]), 255).astype(np.uint8)
    alike(added(*rows, **options), wanted)
    alike(added.debug(*rows, **options), wanted)
    assert soft(image, dtype="int32").dtype == "int32"
    for kernel, x, span in (
        (halves, image, r"\(-100 to 155\)"), (halves, image * 1.0, r"\(any float\)"),
        (looped, image, r"\(-4\.6\S+ to 4\.6\S+\)"), (staged, image, r"\(-255 to 255\)"),
    ):  # fmt: skip
        refuses(ValueError, rf"might not hold every result .*{span}", kernel, x, dtype="uint8")
