"""Tables of pandas, and other arrays that NumPy asks, in functions of numbers."""

from __future__ import annotations

import pandas as pd
import pytest

import ninepoint as npt


@npt.ufunc
def multiply(x, y):
    """Not what NumPy's function of this name does: pandas would do that by its own `*`."""
    return x - y


@npt.ufunc
def product(x, y):
    return x * y


@npt.ufunc
def both(x, y):
    return x + y, x - y


class Tagged:
    """An array that says who was asked."""

    def __init__(self, answer):
        self.answer = answer

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return self.answer


class Special(Tagged):
    pass


def test_a_column_keeps_its_index_and_name():
    column = pd.Series([1.0, 2.0], index=["a", "b"], name="price")
    pd.testing.assert_series_equal(product(column, 3.0), column * 3.0)
    assert multiply(column, column).tolist() == [0.0, 0.0]


def test_several_results_are_several_columns():
    column = pd.Series([1.0, 2.0], index=[5, 6])
    made = both(column, column)
    assert [one.tolist() for one in made] == [[2.0, 4.0], [0.0, 0.0]]
    assert all(one.index.tolist() == [5, 6] for one in made)


def test_a_table_keeps_its_columns():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    pd.testing.assert_frame_equal(product(table, 5.0), table * 5)


def test_columns_align_by_their_index():
    one = pd.Series([1.0, 2.0], index=["a", "b"])
    other = pd.Series([10.0, 20.0], index=["b", "a"])
    assert product(one, other).to_dict() == {"a": 20.0, "b": 20.0}


def test_left_before_right_and_a_subclass_before_its_base():
    assert product(Tagged("left"), Special("special")) == "special"
    assert product(Special("left"), Tagged("right")) == "left"
    assert product(Tagged(NotImplemented), Special("next")) == "next"


def test_nobody_knows():
    with pytest.raises(TypeError, match="cannot be applied to Tagged"):
        product(Tagged(NotImplemented), 1.0)

    class Refusing:
        __array_ufunc__ = None

    with pytest.raises(TypeError, match="cannot be applied to Refusing"):
        product(Refusing(), 1.0)
