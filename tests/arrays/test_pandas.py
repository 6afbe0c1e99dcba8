"""Tables of pandas, and other arrays that NumPy asks, in functions of numbers."""

import pandas as pd
import pytest

import ninepoint as npt


@npt.ufunc
def multiply(x, y):
    """Not what NumPy's function of this name does: pandas would do that by its own `*`."""
    return x - y


both = npt.ufunc(lambda x, y: (x + y, x - y))


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


def test_columns_keep_their_index_and_name_and_tables_their_columns():
    column = pd.Series([1.0, 2.0], index=["a", "b"], name="price")
    pd.testing.assert_series_equal(multiply(column, 3.0), column - 3.0)
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    pd.testing.assert_frame_equal(multiply(table, 5.0), table - 5)
    # Columns align by their index, and several results are several columns.
    other = pd.Series([10.0, 20.0], index=["b", "a"])
    made = both(column, other)
    assert [one.to_dict() for one in made] == [{"a": 21.0, "b": 12.0}, {"a": -19.0, "b": -8.0}]


def test_left_before_right_and_a_subclass_before_its_base():
    assert multiply(Tagged("left"), Special("special")) == "special"
    assert multiply(Special("left"), Tagged("right")) == "left"
    assert multiply(Tagged(NotImplemented), Special("next")) == "next"
    for nobody in (Tagged(NotImplemented), Refusing()):
        with pytest.raises(TypeError, match=f"cannot be applied to {type(nobody).__name__}"):
            multiply(nobody, 1.0)
    # Pandas lays them beside each other for functions of its own alone.
    with pytest.raises(TypeError, match="cannot be applied to DataFrame and Series: "):
        multiply(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1.0, 2.0]))
