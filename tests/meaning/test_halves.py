"""Floats of 16 bits, NumPy's and that of ml_dtypes: all numbers, and every way to give them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import dask.array as da
import ml_dtypes
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt

HALF, BFLOAT = np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)
TYPES = (HALF, BFLOAT)
both = pytest.mark.parametrize("dtype", TYPES, ids=str)
BITS = np.arange(65536, dtype="uint16")
IMAGE = np.random.default_rng(5).normal(size=(12, 15))


def right(x):
    return x[0, 1]


@npt.ufunc(dtype="float32")
def widened(x):
    return x


@npt.ufunc
def same(x):
    return x


@npt.stencil(boundary="reflect")
def blur(x):
    return (x[-1, 0] + x[0, -1] * 3 + x[0, 1] + x[1, 0]) / 6


@npt.stencil(boundary="wrap", neighborhood=((0, 0), (-1, 1)))
def looping(x):
    total, k = 0.0, 0
    while k < 3 and total < 9:
        total, k = total + x[0, k - 1], k + 1
    return total


@npt.stencil(boundary="reflect")
def twice(x):
    near = blur(x, dtype="bfloat16")
    return near[0, 1] - near[1, 0]


def equal(made, wanted) -> None:
    """Of one type, and of the same numbers with the same signs."""
    assert made.dtype == wanted.dtype
    wide = "complex128" if made.dtype.kind == "c" else "float64"
    # Some kinds of NaN ask to be told of.
    with np.errstate(invalid="ignore"):
        made, wanted = (np.asarray(one).astype(wide) for one in (made, wanted))
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(np.signbit(made.real), np.signbit(wanted.real))


def by_text(stencil, x, **options):
    """What the kernel makes of these numbers as float32."""
    return stencil(x.astype("float32"), **options)


def check_every_number() -> None:
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
        with np.errstate(over="ignore"):
            exact = np.concatenate([finite, between, edges.astype("float32")])
            near = [np.nextafter(exact, np.float32(to)) for to in (0, np.inf, -np.inf)]
            given = np.concatenate([exact, *near, exact * np.float32(1.0001)])
            wanted = given.astype(dtype)
            longer = given.astype("float64") * (1 + 2**-40)
            wanted_of_longer = longer.astype(dtype)
        equal(same(given, dtype=dtype), wanted)
        equal(same(longer, dtype=dtype), wanted_of_longer)
        equal(same(longer, out=np.empty(longer.shape, dtype)), wanted_of_longer)


def test_all_numbers_and_what_rounds_to_them() -> None:
    check_every_number()


@both
def test_integers_are_rounded(dtype) -> None:
    x = np.concatenate([np.arange(-3000, 3000), 2 ** np.arange(62) + 2 ** np.arange(62) // 256])
    with np.errstate(over="ignore"):
        equal(same(x, dtype=dtype), x.astype("float64").astype(dtype))


@pytest.mark.nightly
def test_all_numbers_on_a_processor_that_knows_none() -> None:
    paths = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-c", "import test_halves; test_halves.check_every_number()"],
        env={**os.environ, "NUMBA_CPU_NAME": "generic", "PYTHONPATH": paths},
        check=True,
    )


@both
def test_arrays_are_taken_as_they_are(dtype) -> None:
    stencil = npt.stencil(right, dtype=dtype, boundary="wrap")
    x = BITS.view(dtype).reshape(256, 256)
    unaligned = np.frombuffer(bytearray(x.nbytes + 1), dtype, x.size, 1).reshape(x.shape)
    unaligned[...] = x
    other = x.astype(dtype.newbyteorder(">"))
    for field in (x, np.asfortranarray(x), x[::-1], x[:, ::-1], x[::3, ::2], other, unaligned):
        for _ in range(3):
            equal(stencil(field), np.roll(field, -1, 1).astype(dtype))
    assert stencil(x[:0]).shape == (0, 256)
    assert stencil(x[:0]).dtype == dtype
    into = unaligned.copy()
    for out in (np.zeros_like(x), into, np.zeros((256, 512), dtype)[:, ::2], np.zeros_like(other)):
        assert stencil(x, out=out) is out
        equal(out.astype(dtype), np.roll(x, -1, 1))


CONDITIONS = (npt.dirichlet(1.7), npt.dirichlet(1.7, at="cell"), npt.neumann(0.3),
              npt.robin(1, 2, 3), npt.extrapolate(1))  # fmt: skip
RULES = ("nearest", "reflect", "mirror", "wrap", "valid", "fill", "constant", "keep")


@both
def test_rules_of_borders(dtype) -> None:
    x = IMAGE.astype(dtype)
    for rule, made in itertools.product(RULES, (None, dtype)):
        # What is written around is that type's own.
        cval = 1.0 if rule == "keep" else 1.001
        wanted = by_text(blur, x, boundary=rule, cval=float(np.array(cval, dtype)))
        options = {"boundary": rule, "cval": cval}
        if rule == "fill" and made is None:
            wanted = by_text(blur, x, **options)
        equal(blur(x, dtype=made, **options), wanted.astype(made or "float32"))
        equal(blur.debug(x, dtype=made, **options), wanted.astype(made or "float32"))
    stacked = np.stack([x, x[::-1]])
    for rule in CONDITIONS:
        wanted = blur.debug(x, boundary=rule)
        equal(blur(x, boundary=rule), wanted)
        equal(blur(stacked, boundary=rule)[0], wanted)


@both
def test_values_at_the_border_that_are_of_this_type(dtype) -> None:
    x = IMAGE.astype(dtype)
    one, line = dtype.type(1.7), np.linspace(-3, 3, 15).astype(dtype)
    plain, wide = float(one), line.astype("float64")
    equal(blur(x, boundary="constant", cval=one), blur(x, boundary="constant", cval=plain))
    for at in ("cell", "face"):
        for given, known in ((one, plain), (line, wide), (lambda *_: line, wide)):
            made, wanted = (
                blur(x, boundary=((npt.dirichlet(one, at=at), "nearest"), "nearest"))
                for one in (given, known)
            )
            equal(made, wanted)


@both
def test_numbers_that_are_too_large(dtype) -> None:
    x, most = IMAGE.astype(dtype), {HALF: "6.55e+04", BFLOAT: "3.39e+38"}[dtype]
    words = f"fit the array, which is {dtype}; use a number up to {most}".replace("+", "[+]")
    with pytest.raises(ValueError, match=words):
        blur(x, boundary="constant", cval=3.4e38)
    with pytest.raises(ValueError, match=f"which is {dtype}; use numbers up to".replace("+", ".")):
        blur(x, boundary=npt.dirichlet(np.full(15, 3.4e38), at="cell"))
    assert np.isinf(blur(x, boundary="constant", cval=np.inf)[0, 0])


@both
def test_every_way_to_call(dtype) -> None:
    x = IMAGE.astype(dtype)
    wanted = by_text(blur, x)
    rounded = wanted.astype(dtype)
    equal(blur(x), wanted)
    for name in (dtype, dtype.type, str(dtype)):
        equal(blur(x, dtype=name), rounded)
    equal(blur(IMAGE, out=np.empty_like(x)), blur(IMAGE).astype(dtype))
    stack = np.stack([x, x * dtype.type(2)])
    equal(blur(stack), by_text(blur, stack))
    equal(blur(x, threads=1), wanted)
    equal(looping(x), by_text(looping, x))
    equal(looping(x, dtype=dtype), by_text(looping, x).astype(dtype))
    equal(looping.debug(x), by_text(looping, x))
    (lazily,) = npt.compute(blur(npt.lazy(x), dtype=dtype))
    equal(lazily, rounded)
    chunked = da.from_array(x, chunks=(7, 11))
    assert blur(chunked, dtype=dtype).dtype == dtype
    equal(blur(chunked, dtype=dtype).compute(), rounded)
    equal(blur(xr.DataArray(x, dims=("y", "x")), dtype=dtype).values, rounded)
    assert f"blur: x {dtype} -> float32" in blur.explain(str(dtype))
    assert f"blur: x {dtype} -> float32" in blur.explain(x)


@both
def test_stages_and_steps(dtype) -> None:
    x = IMAGE.astype(dtype)
    near = blur(x, dtype="bfloat16").astype("float32")
    wanted = npt.stencil(lambda x: x[0, 1] - x[1, 0], boundary="reflect")(near)
    equal(twice(x), wanted)
    equal(twice.debug(x), wanted)
    equal(twice(da.from_array(x, chunks=9)).compute(), wanted)
    for field in (x, da.from_array(x, chunks=9), xr.DataArray(x, dims=("y", "x"))):
        step, state = npt.stencil(blur.__wrapped__, dtype=dtype, boundary="wrap"), x
        for _ in range(5):
            state = step(state)
        equal(np.asarray(step.iterate(field, steps=5)), state)
    assert step.iterate(x, steps=50, until=0.05).dtype == dtype
    with pytest.raises(ValueError, match=f"gives float32 for a state of {dtype}"):
        blur.iterate(x, steps=2)


@both
def test_ready_made_filters(dtype) -> None:
    x = IMAGE.astype(dtype)
    x[3, 4], x[9, 9] = np.nan, np.inf
    weights = (np.arange(9).reshape(3, 3) / 8).astype(dtype)
    filters = npt.filters
    few = ((filters.median, 3), (filters.percentile, 30), (filters.gaussian, 1.5))
    others = (
        (filters.median, 15), (filters.mean, 5), (filters.maximum, 9), (filters.local_std, 3),
    )  # fmt: skip
    for function, given in few if dtype == HALF else others:
        equal(function(x, given), function(x.astype("float32"), given))
    equal(filters.correlate(x, weights), filters.correlate(x.astype("float32"), weights))


@both
def test_numbers_that_a_kernel_knows(dtype) -> None:
    x = np.rint(IMAGE * 8).astype(dtype)
    few, own = np.array([0.25, 0.5, 0.75], dtype), dtype.type(1.25)
    kernel = npt.stencil(lambda x: (x[0, -1:2] * few).sum() + own * few[1])
    given = npt.stencil(standard_indexing=("w",))(lambda x, w, *, k: x[0, -1] * w[2] + k)
    wide, number = few.astype("float32"), np.float32(own)
    wanted = npt.stencil(lambda x: (x[0, -1:2] * wide).sum() + number * wide[1])(x)
    equal(kernel(x), wanted)
    equal(kernel.debug(x), wanted)
    equal(given(x, few, k=own), given(x, wide, k=number))
    equal(given.debug(x, few, k=own), given(x, wide, k=number))


@both
def test_fields_of_several_types(dtype) -> None:
    x = np.arange(1, 9).astype(dtype)
    both_of = npt.stencil(lambda x, y: x[0] * y[0], boundary="keep")
    for other in ("bool", "int64", *TYPES, "float64", "complex64"):
        y = np.arange(8).astype(other)
        wanted = both_of(x.astype("float32"), y)
        equal(both_of(x, y), wanted.astype(np.result_type(wanted, "float32")))
        over = npt.ufunc(lambda x, y: x * y)
        for pair in ((x, y), (y, x), (x, y[3]), (x[3], y)):
            left, right = (v.astype("float32") if v.dtype == dtype else v for v in pair)
            equal(over(*pair), over(left, right))
    # What "keep" keeps of a field needs a type that holds it.
    counted = npt.stencil(lambda x: (x[0] > 3) * 1000, boundary="keep")
    equal(counted(x), counted(x.astype("float32")))
    for out, given in itertools.product(TYPES, TYPES):
        field = IMAGE.astype(given)
        made = blur(field, boundary="keep", out=np.empty(field.shape, out))
        equal(made[0], field[0].astype("float32").astype(out))


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
    with pytest.raises(TypeError, match=words):
        total(x, dtype=dtype)


# What is none of them, though it has as many bytes.


def test_other_types_of_16_bits() -> None:
    x, out = IMAGE.astype(BFLOAT), np.empty(IMAGE.shape, BFLOAT)
    stencil = npt.stencil(blur.__wrapped__, dtype=BFLOAT, boundary="reflect")
    pair = np.dtype([("a", "u1"), ("b", "u1")])
    for _ in range(3):
        stencil(x, out=out)
        for other in ("V2", pair):
            with pytest.raises(TypeError, match="a stencil cannot compute with 'x' of dtype"):
                stencil(x.view(other))
            with pytest.raises(TypeError, match="the result has bfloat16; give an array of"):
                stencil(x, out=out.view(other))
    bits = x.view("uint16")
    equal(stencil(bits), blur(bits.astype("float64")).astype("float32").astype(BFLOAT))


def test_complex_numbers_have_no_room_in_them() -> None:
    words = "out has dtype bfloat16, but the result has complex64; give an array of complex64"
    with pytest.raises(TypeError, match=words):
        blur(IMAGE.astype("complex64"), out=np.empty(IMAGE.shape, BFLOAT))
    with pytest.raises(ValueError, match="dtype=bfloat16 cannot hold the complex result"):
        blur(IMAGE.astype("complex64"), dtype=BFLOAT)


def test_kernels_cast_to_no_type_of_another_package() -> None:
    with pytest.raises(
        npt.StencilError, match=r"'ml_dtypes\.bfloat16' cannot be used in a kernel"
    ):
        npt.stencil(lambda x: ml_dtypes.bfloat16(x[0]))


def test_files_that_know_no_bfloat16(tmp_path) -> None:
    x = IMAGE.astype(BFLOAT)
    for name in ("a.npy", "a.zarr", "a.nc", "a.tif"):
        with pytest.raises(TypeError, match="bfloat16"):
            npt.save(x, tmp_path / name)
        assert not (tmp_path / name).exists()
    with pytest.raises(TypeError, match="no image format holds bfloat16 arrays"):
        npt.imsave(x, tmp_path / "a.png")


def test_the_package_comes_with_the_array() -> None:
    code = "import sys, ninepoint, numpy as np\n"
    code += "ninepoint.filters.mean(np.ones((9, 9), 'float16'), 3)\n"
    code += "assert 'ml_dtypes' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
