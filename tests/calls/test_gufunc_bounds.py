"""Indices of gufunc bodies are checked: what is outside an array is told at the line."""

from __future__ import annotations

import importlib.util
import pickle

import dask.array as da
import numpy as np
import pytest

import ninepoint as npt
from nightly import only

TABLE = np.arange(3.0)


def beyond(x, i):
    return x[len(x) + 5]


def written(x, i):
    r = np.zeros(len(x))
    r[len(x)] = 7
    return r


def remainder(x, i):
    return x[i % len(x)]


def in_matrix(a, i):
    return a[0, i] + a[i, 0]


def helper(y, i):
    double = 2 * y
    return double[i]


def called(x, i):
    return helper(x, i)


def flat(x, i):
    return x.flat[i]


def fancy(x, i):
    places = np.array([0, i])
    return x[places]


def into(x, out):
    for k in range(len(x) + 1):
        out[k] = x[k - 1]


def listed(x, i):
    return TABLE[i]


# The body, its signature, the shape of an item, an index that is outside and one that is inside,
# the array that the message names, and the line.
BODIES = [
    (beyond, "(n),()->()", (3,), 0, None, "'x'", "return x[len(x) + 5]"),
    (written, "(n),()->(n)", (3,), 0, None, "'r'", "r[len(x)] = 7"),
    (remainder, "(n),()->()", (0,), 7, None, "'x'", "return x[i % len(x)]"),
    (in_matrix, "(n,k),()->()", (3, 2), 2, 1, "'a'", "return a[0, i] + a[i, 0]"),
    (called, "(n),()->()", (3,), -4, -3, "'double'", "return double[i]"),
    (flat, "(n),()->()", (3,), 3, 2, "an array", "return x.flat[i]"),
    (fancy, "(n),()->(2)", (3,), 3, 2, "'x'", "return x[places]"),
    (into, "(n)->(n)", (3,), None, None, "'out'", "out[k] = x[k - 1]"),
    (listed, "(n),()->()", (3,), 3, -3, "an array", "return TABLE[i]"),
]


@pytest.mark.parametrize(
    ("function", "signature", "item", "outside", "inside", "array", "line"), only(7, BODIES)
)
def test_an_index_that_is_outside_is_told_at_its_line(
    function, signature, item, outside, inside, array, line
):
    gufunc = npt.gufunc(signature)(function)
    few = np.arange(4.0 * np.prod(item)).reshape(4, *item)
    many = np.random.default_rng(1).random((30_000, *item))
    index = () if outside is None else (outside,)
    lazily = da.from_array(few, chunks=(2, *item))

    def called(x, **options):
        result = gufunc(x, *index, **options)
        return result.compute() if isinstance(result, da.Array) else result

    calls = [(few, {}), (few, {}), (many, {"threads": 4}), (lazily, {})]
    for x, options in calls:
        with pytest.raises(IndexError) as caught:
            called(x, **options)
        assert str(caught.value).startswith(
            f"'{function.__name__}' reads or writes outside {array}. [outside-array]\n"
        )
        assert f" | {' ' * 4 * (function is into)}    {line}\n" in str(caught.value)
        assert __file__ in str(caught.value)
    error = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is IndexError
    assert str(error) == str(caught.value)
    with pytest.raises(IndexError), np.errstate(all="ignore"):
        gufunc.debug(few, *index)
    if inside is not None:
        np.testing.assert_array_equal(gufunc(few, inside), gufunc.debug(few, inside))


def test_nothing_is_written_outside_the_results():
    gufunc = npt.gufunc("(n),()->(n)")(written)
    room = np.full((8, 3), -1.0)
    with pytest.raises(IndexError, match="'r'"):
        gufunc(np.ones((3, 3)), 0, out=room[2:5])
    assert (room[:2] == -1).all()
    assert (room[5:] == -1).all()
    assert not (room == 7).any()


def test_checks_are_left_out_where_it_is_asked():
    bare = npt.gufunc("(n),()->()", boundscheck=False)(remainder)
    full = npt.gufunc("(n),()->()")(remainder)
    assert bare.definition.token != full.definition.token
    assert "indices are not checked" in bare.explain()
    assert "not checked" not in full.explain()

    def after(x):
        return x[len(x)]

    stack = np.arange(6.0).reshape(2, 3)
    # That of the next item, which is memory of the array's own.
    bare = npt.gufunc("(n)->()", boundscheck=False)(after)
    again = pickle.loads(pickle.dumps(bare))
    full = pickle.loads(pickle.dumps(npt.gufunc("(n)->()")(after)))
    np.testing.assert_array_equal(bare(np.r_[stack, stack])[:3], [3, 0, 3])
    np.testing.assert_array_equal(again(np.r_[stack, stack])[:3], [3, 0, 3])
    with pytest.raises(IndexError):
        full(stack)


def test_lines_are_those_of_the_file_as_it_is_now(tmp_path):
    text = (
        "import ninepoint as npt\n\n\n@npt.gufunc('(n)->()')\ndef last(x):\n    return x[len(x)]\n"
    )
    for number, (old, new) in enumerate(
        [("", ""), ("@npt", "# above\n\n@npt"), ("    return", "    # within\n    return")]
    ):
        text = text.replace(old, new) if old else text
        path = tmp_path / f"lines{number}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with pytest.raises(IndexError) as caught:
            module.last(np.ones(3))
        line = text.split("\n").index("    return x[len(x)]") + 1
        assert f'File "{path}", line {line}\n' in str(caught.value)
