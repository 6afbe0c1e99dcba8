"""Arrays of other libraries are asked to apply a function, in the order in which NumPy asks."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from ninepoint.arrays.foreign import Applied, asked, asks


def applied(function, nin=2, nout=1, name="multiply"):
    return Applied(function, name, nin, nout)


def product(x, y, out=None):
    return np.multiply(x, y, out=out)


class Tagged:
    """An array that says who was asked."""

    def __init__(self, answer):
        self.answer = answer

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return self.answer


class Special(Tagged):
    pass


def test_only_arrays_of_others_ask():
    known = [np.ones(2), np.float32(1), 2.0, None, [1], da.ones(2), xr.DataArray([1.0])]
    assert not asks(known)
    assert not asks([np.ma.masked_array([1.0])])
    assert asks([*known, pd.Series([1.0])])
    assert asks([Tagged(1)])


def test_a_column_keeps_its_index_and_name():
    column = pd.Series([1.0, 2.0], index=["a", "b"], name="price")
    made = asked(applied(product), [column, 3.0])
    pd.testing.assert_series_equal(made, column * 3.0)


def test_the_name_of_a_function_of_numpy_is_not_taken_for_it():
    """Pandas does `multiply` by its own `*`, whatever else the user's function does."""
    column = pd.Series([1.0, 2.0])
    made = asked(applied(lambda x, y: x - y), [column, column])
    assert made.tolist() == [0.0, 0.0]
    assert asked(applied(lambda x: x * 5, nin=1), [column]).tolist() == [5.0, 10.0]


def test_several_results_are_several_columns():
    column = pd.Series([1.0, 2.0], index=[5, 6])
    made = asked(applied(lambda x, y: (x + y, x - y), nout=2), [column, column])
    assert [one.tolist() for one in made] == [[2.0, 4.0], [0.0, 0.0]]
    assert all(one.index.tolist() == [5, 6] for one in made)


def test_a_table_keeps_its_columns():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    pd.testing.assert_frame_equal(asked(applied(lambda x: x * 5, nin=1), [table]), table * 5)


def test_columns_align_by_their_index():
    one = pd.Series([1.0, 2.0], index=["a", "b"])
    other = pd.Series([10.0, 20.0], index=["b", "a"])
    assert asked(applied(product), [one, other]).to_dict() == {"a": 20.0, "b": 20.0}


def test_left_before_right_and_a_subclass_before_its_base():
    assert asked(applied(product), [Tagged("left"), Special("special")]) == "special"
    assert asked(applied(product), [Special("left"), Tagged("right")]) == "left"
    assert asked(applied(product), [Tagged(NotImplemented), Special("next")]) == "next"
    assert asked(applied(product), [np.ones(2), np.ones(2)], Tagged("out")) == "out"


def test_nobody_knows():
    with pytest.raises(TypeError, match="cannot be applied to Tagged"):
        asked(applied(product), [Tagged(NotImplemented), 1.0])

    class Refusing:
        __array_ufunc__ = None

    with pytest.raises(TypeError, match="cannot be applied to Refusing"):
        asked(applied(product), [Refusing(), 1.0])
