"""Functions of numbers on arrays of every kind, and as parts of kernels.

That their numbers are right on arrays of NumPy, Dask and xarray, random programs show.
"""

import pickle
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_array_equal as equal

import ninepoint as npt
from compared import refuses
from seams import plan_of


@npt.ufunc
def mix(x, y, *, k=3):
    return k * x - y


both = npt.ufunc(lambda x, y: (x + y, x > y))


@npt.ufunc
def halvings(n, *, least=1):
    count = 0
    while n > least:
        n //= 2
        count += 1
    return count


blur = npt.stencil(lambda x: (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1]) / 4, boundary="nearest")
IMAGE = np.random.default_rng(0).random((40, 30))
SMALL = IMAGE[:5, :6]


def test_numbers_alone_give_numbers_and_beside_arrays_widen_nothing():
    result = mix(2, 5)
    assert (result, type(result)) == (1, np.int64)
    assert type(mix(np.float32(2), np.float32(1))) is np.float32
    assert type(mix(np.array(2.0), 1)) is np.float64
    found = both(1.5, 2)
    assert found == (3.5, False)
    assert type(found[1]) is np.bool
    assert mix.debug(2, 5) == 1
    assert type(halvings(1000)) is np.int64
    x = np.arange(4, dtype="float32")
    assert mix(x, 0.5).dtype == "float32"
    assert mix(x, np.float64(0.5)).dtype == mix(x, np.array(0.5)).dtype == "float64"
    equal(mix(2, y=x, k=1), 2 - x)
    small = np.arange(4, dtype="uint8")
    assert mix(small, np.int8(3)).dtype == mix(small, np.array([3], "int8")).dtype
    equal(mix(small, np.int8(3), k=1), [-3, -2, -1, 0])
    assert mix([1, 2], [[3], [4]]).tolist() == [[0, 3], [-1, 2]]
    for value in (2, 2.5, np.float32(1.5), 1j, np.array(2.0), x):
        for _ in range(3):
            equal(mix(x, value), mix.debug(x, value), strict=True)
            equal(mix(value, x), mix.debug(value, x), strict=True)
    refuses(ValueError, "does not fit", mix, x, 2**70)


def test_later_calls_are_as_the_first_whatever_comes_between():
    x, y = np.arange(4.0), np.ones(4)
    fixed, narrow, zero = np.empty(4), np.empty(4, "float32"), np.zeros(())
    out = np.empty_like(IMAGE)
    fixed.flags.writeable = False
    for _ in range(3):
        assert mix(x, y).shape == (4,)
        assert mix(x[:, None], y).shape == (4, 4)
        assert mix(x.astype("int8"), y).dtype == np.float64
        equal(mix(x.astype(">f8"), y, dtype="float32"), 3 * x - y)
        assert mix(IMAGE.T, IMAGE.T).flags.f_contiguous
        assert mix(IMAGE, IMAGE, out=(out,)) is out
        assert mix(x, y, out=narrow) is narrow
        equal(narrow, 3 * x - y)
        assert mix(2.0, 1.0, out=zero) is zero
        assert zero == 5
        for kind, words, other, options in [
            (ValueError, "do not broadcast", np.ones(3), {}),
            (TypeError, "out has dtype", y, {"out": np.empty(4, int)}),
            (ValueError, "read-only", y, {"out": fixed}),
        ]:
            refuses(kind, words, mix, x, other, **options)


@pytest.mark.parametrize("step", [0, 1, -1, 3000])
def test_out_may_lie_over_a_field(step):
    for _ in range(3):
        memory, y = np.arange(10_000.0 + abs(step)), np.arange(10_000.0)
        field, out = memory[:10_000], memory[abs(step) :]
        if step < 0:
            field, out = out, field
        expected = 3 * field - y
        assert mix(field, y, out=out) is out
        equal(out, expected)
    memory = np.arange(20_000.0)
    expected = 3 * memory[::2] - y
    equal(mix(memory[::2], y, out=memory[10_000:]), expected)


def test_neither_loops_nor_floats_nor_colours_are_a_reason_for_a_warning():
    x = np.array([0.0, 1.0, 1e308])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")

        @npt.ufunc
        def quotient(x, y):
            while x > 1e300:
                x /= 2
            return x / y

        for _ in range(3):
            found = quotient(x, np.array([0.0, 0.0, 1e-308]))
        pixels = np.ones((32, 40, 3), "uint8")
        equal(mix(pixels, pixels, k=1), 0)
    assert np.isnan(found[0])
    assert np.isinf(found[1:]).all()


def test_chunks_even_of_unknown_size():
    known = IMAGE - 0.5
    x = da.from_array(known, chunks=(6, 30))
    some, wanted = x[x[:, 0] > 0], known[known[:, 0] > 0]
    for other, values in ((some, wanted), (2.0, 2.0), (IMAGE[0], IMAGE[0])):
        lazy = mix(some, other)
        assert lazy.dtype == lazy._meta.dtype == np.float64
        # As it is sent to processes.
        found = pickle.loads(pickle.dumps(lazy)).compute(scheduler="sync")
        equal(found, 3 * wanted - values)
    assert [one.dtype.kind for one in both(some, some * 2)] == ["f", "b"]
    assert mix(x[0, 0], 1.0).compute() == 3 * known[0, 0] - 1
    equal(mix(x[x > 0], 2.0).compute(scheduler="sync"), 3 * known[known > 0] - 2)
    columns = x.rechunk((6, 7))
    equal(mix(columns[columns[:, 0] > 0], 2.0).compute(scheduler="sync"), 3 * wanted - 2)
    refuses(ValueError, r"call .compute_chunk_sizes\(\) first", mix, x[x > 0], IMAGE[0])


@npt.stencil(boundary="nearest")
def edges(x):
    near = mix(blur(x), x, k=1)
    return near[0, 1] - near[0, -1]


def test_in_kernels_it_is_a_stage_of_arrays_and_a_helper_of_numbers():
    inner = mix(blur(IMAGE), IMAGE, k=1)
    wide = np.pad(inner, 1, mode="edge")
    equal(edges(IMAGE), (wide[:, 2:] - wide[:, :-2])[1:-1])
    assert len(plan_of(edges, "float64").passes) == 1
    equal(edges.debug(SMALL), edges(SMALL))
    large = np.random.default_rng(0).random((600, 500))
    equal(edges(large, axes=(1, 0)), edges(large.T.copy()).T)
    distance = npt.ufunc(lambda x, y: x - y if x > y else mix(y, x, k=1))

    @npt.stencil(boundary="nearest")
    def rough(x, k):
        return distance(x[0, 1], x[0, -1]) + k * distance(-2, 0)

    wide = np.pad(IMAGE, 1, mode="edge")
    wanted = np.abs(wide[1:-1, 2:] - wide[1:-1, :-2]) + 3.0
    equal(rough(IMAGE, 1.5), wanted)
    equal(rough.debug(SMALL, 1.5), rough(SMALL, 1.5))

    @npt.stencil(boundary="nearest")
    def twice(x, s):
        a = mix(x, 2.0)
        b = mix(s, a, k=1)
        return a[0, 0] + b[0, 1] - x[0, 0]

    # Nothing else shows that `x` is an array.
    across = npt.stencil(lambda x, k: mix(x, 2.0)[0, 1] - k * mix(k, 1.0), boundary="nearest")
    a = 3 * IMAGE - 2
    right = np.pad(a, 1, mode="edge")[1:-1, 2:]
    equal(twice(IMAGE, 4.0), a + (4.0 - right) - IMAGE)
    assert across.fields == ("x",)
    equal(across(IMAGE, 0.5), right - 0.5 * (3 * 0.5 - 1))
    equal(across.debug(SMALL, 0.5), across(SMALL, 0.5))


def test_xarray_broadcasts_by_name_and_lazy_values():
    x, row = npt.lazy(IMAGE), npt.lazy(IMAGE[0])
    made = mix(blur(x), x, k=2)
    # Each has the axes of what it reads.
    assert (made.ndim, blur(x).ndim) == (2, 2)
    equal(made.compute(), mix(blur(IMAGE), IMAGE, k=2))
    equal(blur(mix(x, row)).compute(), blur(3 * IMAGE - IMAGE[0]))
    assert mix(npt.lazy(np.array(2.0)), 1.0) == 5
    a = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("t", "x"), coords={"t": [5, 6]}, name="a")
    b = xr.DataArray(np.arange(12.0).reshape(3, 4), dims=("x", "y"))
    result = mix(a, b)
    assert (result.dims, result.name) == (("t", "x", "y"), "a")
    for one, other in [(a, b), (a, 2), (a[0], a[:, 0]), (a[0, 0], 1.0), (a[0, 0], b)]:
        xr.testing.assert_equal(mix(one, other).drop_attrs(), 3 * one - other)
    xr.testing.assert_equal(mix(a.chunk(x=2), b.chunk()).compute(), 3 * a - b)
    made = mix(xr.Dataset({"a": a, "c": 3.0, "names": ("y", list("pqrs"))}), 1)
    xr.testing.assert_equal(made["a"], 3 * a - 1)
    assert made["c"] == 8
    assert made["names"].values.tolist() == list("pqrs")


def test_looks_inside_and_at_calls_with_numbers():
    text = mix.explain("uint8")
    assert "at one element of each array" in text
    assert "border" not in text
    assert "one point after the other, for its loops differ" in halvings.explain("int64")
    assert "def band" in mix.source("float32")
    assert repr(mix) == "<ufunc mix(x, y, *, k=3)>"
    assert (mix.nin, both.nout, mix.nout) == (2, 2, 1)
    assert mix._repr_svg_() is None
    x = np.arange(100.0)
    assert mix.explain(x, x).count("measured") == 1
    assert "100 float64" in str(mix.bench(x, 2.0, repeat=3))
    assert "100 float64" in str(mix.bench(2.0, x, repeat=3, threads=1, k=3.0))
    assert mix.tune(x, 2.0, seconds=0.0) is not None
    refuses(TypeError, "measures arrays of NumPy", mix.bench, 1.0, 2.0)
    refuses(TypeError, "missing 1 required positional argument: 'y'", mix.bench, x)
    for decorator in (npt.ufunc, npt.stencil):
        refuses(TypeError, "'mix' is a ufunc already", decorator, mix)


@npt.ufunc
def multiply(x, y):
    """Not what NumPy's function of this name does: pandas would do that by its own `*`."""
    return x - y


added = npt.ufunc(lambda x, y: (x + y, x - y))


class Tagged:
    """An array that says who was asked."""

    def __init__(self, answer):
        self.answer = answer

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return self.answer


class Special(Tagged):
    pass


class Refusing:
    __array_ufunc__ = None


def test_pandas_keeps_the_index_and_others_are_asked_left_before_right():
    column = pd.Series([1.0, 2.0], index=["a", "b"], name="price")
    pd.testing.assert_series_equal(multiply(column, 3.0), column - 3.0)
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    pd.testing.assert_frame_equal(multiply(table, 5.0), table - 5)
    # Columns align by their index, and several results are several columns.
    other = pd.Series([10.0, 20.0], index=["b", "a"])
    made = added(column, other)
    assert [one.to_dict() for one in made] == [{"a": 21.0, "b": 12.0}, {"a": -19.0, "b": -8.0}]
    assert multiply(Tagged("left"), Special("special")) == "special"
    assert multiply(Special("left"), Tagged("right")) == "left"
    assert multiply(Tagged(NotImplemented), Special("next")) == "next"
    for nobody in (Tagged(NotImplemented), Refusing()):
        refuses(TypeError, f"cannot be applied to {type(nobody).__name__}", multiply, nobody, 1.0)
    # Pandas lays them beside each other for functions of its own alone.
    with pytest.raises(TypeError, match="cannot be applied to DataFrame and Series: "):
        multiply(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1.0, 2.0]))
