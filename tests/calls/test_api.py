"""What a user does with a stencil: coefficients, names, options, types of numbers."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal as equal

import ninepoint as npt
from compiling import nothing_compiled

RNG = np.random.default_rng(0)
PLANE = RNG.normal(size=(23, 31))


@npt.stencil(boundary="reflect")
def lap(u):
    return u[-1, 0] + u[1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0]


@npt.stencil(boundary="nearest")
def scaled(x, k=1.0, *, lift=0):
    return k * (x[-1] + x[0] + x[1]) + lift


def test_a_new_value_compiles_nothing():
    wide = np.pad(PLANE, ((0, 0), (1, 1)), mode="edge")
    sums = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    scaled(PLANE, 0.0)
    with nothing_compiled():
        for k in (-1.0, 0.5):
            np.testing.assert_allclose(scaled(PLANE, k, lift=9), sums * k + 9)


def test_coefficients_by_rows_and_as_a_whole():
    @npt.stencil(standard_indexing=("w", "offset"))
    def weighed(x, w, offset):
        row = w[1]
        return (x[-1] * row[0] + x[1] * row[1]) / np.sum(w) + w.max() + offset

    w = np.array([[1.0, 2.0], [3.0, 4.0]])
    line = np.arange(6.0)
    expected = (line[:-2] * 3 + line[2:] * 4) / 10 + 4 + 5
    np.testing.assert_allclose(weighed(line, w, 5)[1:-1], expected)
    with pytest.raises(TypeError, match="must be an array, not 3"):
        weighed(line, 3, 5)


def test_a_stage_called_as_its_field():
    @npt.stencil
    def twice(u):
        u = lap(u)
        u = u
        u_2 = u[0, 1]
        u = lap(u)
        return u[0, 0] + u_2

    inner = lap(PLANE)
    wanted = lap(inner)
    wanted[:, :-1] += inner[:, 1:]
    wanted[:, -1] = 0
    equal(twice(PLANE), wanted)


def test_the_schedule_means_stages_of_any_name():
    def around(x):
        s_0 = lap(x)
        return s_0[1, 0] + s_0[-1, 0] + s_0[0, 2]

    for how in ("rows", "whole"):
        kernel = npt.stencil(schedule=npt.Schedule(stages=(("s_0", how),)))(around)
        assert ("the schedule says so" in kernel.explain("float64")) == (how == "whole")


def test_a_parameter_called_self():
    @npt.stencil(boundary="keep")
    def half(self, by=0.5):
        return self[0] * by

    x = np.arange(4.0)
    equal(half.iterate(self=x, steps=2), x / 4)
    equal(half.debug(self=x), half(self=x))
    assert "half" in half.explain("float64", by=0.5)


def test_axes_are_missed_before_rules_are():
    for call in (lap, lap.debug):
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            call(np.zeros(4), boundary=("wrap",) * 3)


# Python 3.14 warns of a part that is complex itself, and computes it as before.
@pytest.mark.filterwarnings("ignore:complex:DeprecationWarning")
def test_complex_of_two_parts_is_pythons():
    joined = npt.stencil(lambda x, y: complex(x[0], y[0]))
    real = np.array([1, np.inf, -0.0, np.nan, -3])
    imag = np.array([np.inf, 2, -0.0, 1, np.nan])
    for x, y in ((real.astype("float32"), imag), (real, imag + 2j), (imag - 1j, real)):
        exact = np.array([complex(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
        for found in (joined(x, y), joined.debug(x, y)):
            assert found.dtype == np.complex128
            for part, other in ((found.real, exact.real), (found.imag, exact.imag)):
                equal(part, other)
                assert (np.isnan(part) | (np.signbit(part) == np.signbit(other))).all()
    whole = npt.stencil(lambda x: complex(x[0], 2) * complex(1) + complex(imag=x[0]))
    assert whole(np.array([3.0])).tolist() == [3 + 5j]


@pytest.mark.parametrize("dtype", [">u2", ">c16"])
def test_dtype_of_the_other_byte_order(dtype):
    x, options = (
        np.arange(60, dtype=">u1").reshape(6, 10),
        {"dtype": dtype, "overflow": "saturate"},
    )
    plain = npt.stencil(lambda x: 2 * x[0, 0] + x[0, 1])
    decorated = npt.stencil(**options)(plain.__wrapped__)
    staged = npt.stencil(
        lambda x: plain(x, dtype=dtype, overflow="saturate")[0, 1] + x[0, 0], **options
    )
    exact, chunked = plain(x).astype(np.dtype(dtype).newbyteorder("=")), da.from_array(x, chunks=3)
    for found in (decorated(x), plain(x, **options), decorated(chunked).compute(),
                  decorated.debug(x)):  # fmt: skip
        equal(found, exact, strict=True)
        assert found.dtype.isnative
    equal(staged(x), staged(chunked).compute(), strict=True)
    assert decorated.iterate(exact, steps=2).dtype == exact.dtype
    out = np.empty(x.shape, dtype)
    assert decorated(x, out=out) is out
    equal(out, exact)
