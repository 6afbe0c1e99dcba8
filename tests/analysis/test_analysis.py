"""The small pieces of the compiler, by what they promise: on every input, or on random ones."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from ninepoint.language import ir
from ninepoint.language.dtypes import DType
from ninepoint.lowering.division import multiplier
from ninepoint.lowering.ranks import merge, of_sorted, quantile_position, sort
from ninepoint.lowering.separable import FINE, separated

# Division.


def divided(n: np.ndarray, divisor: int, low: int, high: int) -> np.ndarray | None:
    """Quotients by multiplication, in numbers of the width that is promised; None if none."""
    found = multiplier(low, high, divisor)
    if found is None:
        return None
    wide = np.dtype(f"uint{found.width}")
    moved = n + found.shift * divisor
    assert moved.min() >= 0
    assert moved.max() < 2 ** (found.width // 2)
    product = moved.astype(wide) * wide.type(found.factor)
    return (product >> wide.type(found.bits)).astype("int64") - found.shift


@pytest.mark.parametrize("low", [0, -1, -7, -300])
def test_division_of_every_small_number(low):
    for divisor in range(2, 70):
        for high in (0, 1, divisor - 1, divisor, 255, 1275, 2295):
            n = np.arange(low, high + 1)
            found = divided(n, divisor, low, high)
            assert found is not None
            np.testing.assert_array_equal(found, n // divisor)


@pytest.mark.parametrize("low", [0, -(2**15)])
def test_division_of_every_number_of_16_bits(low):
    n = np.arange(low, low + 2**16)
    for divisor in [3, 5, 7, 9, 25, 49, 255, 961, 32767, 32768, 65535, 65536]:
        found = divided(n, divisor, low, low + 2**16 - 1)
        assert found is not None
        np.testing.assert_array_equal(found, n // divisor)


def test_division_of_large_numbers_where_it_is_hardest():
    """Just below and at multiples of the divisor."""
    rng = Random(0)
    given = 0
    for _ in range(3000):
        divisor = rng.randint(2, 2 ** rng.randint(2, 31))
        high = rng.randint(0, 2 ** rng.randint(1, 34))
        low = rng.choice([0, -rng.randint(0, 2 ** rng.randint(1, 33))])
        multiples = [rng.randint(low // divisor, high // divisor) * divisor for _ in range(20)]
        near = {m + step for m in multiples for step in (-1, 0)} | {low, high}
        n = np.array([v for v in near if low <= v <= high])
        found = divided(n, divisor, low, high)
        if found is not None:
            given += 1
            np.testing.assert_array_equal(found, n // divisor)
    assert given > 1000


def test_division_is_refused_where_64_bits_do_not_do():
    assert multiplier(0, 2**32, 7) is None
    assert multiplier(-1, 2**32 - 1, 9) is None


# Separable weights.


def is_product(table: np.ndarray) -> bool:
    """Whether every 2 x 2 minor of every unfolding is zero."""
    for axis in range(table.ndim):
        matrix = np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)
        rows = [[int(v) for v in row] for row in matrix]
        for one, other in itertools.combinations(rows, 2):
            if any(
                one[i] * other[j] != one[j] * other[i]
                for i, j in itertools.combinations(range(len(one)), 2)
            ):
                return False
    return True


def product(factors: tuple[tuple[float, ...], ...]) -> np.ndarray:
    table = np.ones(())
    for factor in factors:
        table = np.multiply.outer(table, np.array(factor))
    return table


@pytest.mark.parametrize("shape", [(3,), (1, 4), (2, 2), (3, 3), (5, 2), (2, 3, 2), (3, 3, 3)])
def test_whole_weights_are_separated_exactly_where_they_can_be(shape):
    rng = np.random.default_rng(len(shape))
    both = {True: 0, False: 0}
    for _ in range(200):
        table = product(tuple(rng.integers(-4, 5, n) for n in shape))
        if rng.random() < 0.5:
            table.flat[rng.integers(table.size)] += rng.integers(-1, 2)
        possible = is_product(table) and table.any()
        both[bool(possible)] += 1
        found = separated(table, True)
        if len(shape) > 1:
            assert (found is not None) == possible, table
        if found is not None:
            np.testing.assert_array_equal(product(found), table)
            assert all(v == int(v) for factor in found for v in factor)
    assert both[True] > 20


@pytest.mark.parametrize("shape", [(3, 3), (5, 7), (3, 3, 3)])
def test_float_weights_are_separated_to_rounding(shape):
    rng = np.random.default_rng(1)
    for _ in range(100):
        table = product(tuple(rng.normal(size=n) for n in shape))
        table /= table.sum()
        found = separated(table, False)
        assert found is not None
        assert np.abs(product(found) - table).max() <= 8 * FINE * np.abs(table).max()
        table.flat[rng.integers(table.size)] += 1e-9 * np.abs(table).max()
        assert separated(table, False) is None


# Sorting.


class Machine:
    """Runs operations on arrays of truths as they are emitted."""

    def __init__(self) -> None:
        self.values: dict[str, np.ndarray] = {}

    def given(self, value: np.ndarray) -> ir.Ref:
        name = f"t{len(self.values)}"
        self.values[name] = value
        return ir.Ref(DType.INT, name)

    def emit(self, expr: ir.Expr) -> ir.Ref:
        of = self.values
        if isinstance(expr, ir.Binary):
            left, right = of[expr.left.name], of[expr.right.name]
            assert expr.op in ("<", ">")
            return self.given(left < right if expr.op == "<" else left > right)
        assert isinstance(expr, ir.Select)
        chosen = np.where(of[expr.test.name], of[expr.then.name], of[expr.other.name])
        return self.given(chosen)


def ordered_truths(lengths: list[int]) -> list[np.ndarray]:
    """Every way of filling ordered lists with zeros and ones; an array for each element."""
    ones = np.indices([n + 1 for n in lengths]).reshape(len(lengths), -1)
    return [
        (k >= n - ones[which]).astype("int8") for which, n in enumerate(lengths) for k in range(n)
    ]


# What only compares and exchanges sorts everything if it sorts every list of zeros and ones:
# D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.3.4, theorem Z.


@pytest.mark.parametrize("count", range(1, 15))
def test_networks_sort_every_list(count):
    machine = Machine()
    items = ordered_truths([1] * count)
    lanes = sort([machine.given(v) for v in items], machine.emit)
    found = np.array([machine.values[lane.name] for lane in lanes])
    np.testing.assert_array_equal(found, np.sort(np.array(items), axis=0))


@pytest.mark.parametrize("first", range(9))
@pytest.mark.parametrize("last", range(9))
def test_every_pair_of_ordered_lists_is_merged(first, last):
    if not first + last:
        return
    machine = Machine()
    items = ordered_truths([first, last])
    refs = [machine.given(v) for v in items]
    lanes = merge(refs[:first], refs[first:], machine.emit)
    assert len(lanes) == first + last
    found = np.array([machine.values[lane.name] for lane in lanes])
    np.testing.assert_array_equal(found, np.sort(np.array(items), axis=0))


@pytest.mark.parametrize(
    ("height", "width"), [(2, 2), (3, 3), (2, 7), (4, 5), (5, 3), (5, 5), (7, 2), (6, 4)]
)
def test_every_rank_of_every_set_of_ordered_columns(height, width):
    items = ordered_truths([height] * width)
    wanted = np.sort(np.array(items), axis=0)
    for low in range(height * width):
        for many in (1, 2):
            if low + many > height * width:
                continue
            machine = Machine()
            refs = [machine.given(v) for v in items]
            columns = [refs[k * height : (k + 1) * height] for k in range(width)]
            found = of_sorted(columns, low, many, machine.emit)
            assert len(found) == many
            for k, one in enumerate(found):
                np.testing.assert_array_equal(machine.values[one.name], wanted[low + k])


def test_ranks_of_random_lists_with_equal_elements():
    rng = np.random.default_rng(0)
    for _ in range(40):
        height, width = (int(n) for n in rng.integers(2, 8, 2))
        table = np.sort(rng.integers(0, 9, (height, width, 50)), axis=0)
        machine = Machine()
        columns = [[machine.given(table[i, j]) for i in range(height)] for j in range(width)]
        low = int(rng.integers(height * width))
        (found,) = of_sorted(columns, low, 1, machine.emit)
        wanted = np.sort(table.reshape(-1, 50), axis=0)[low]
        np.testing.assert_array_equal(machine.values[found.name], wanted)


@pytest.mark.parametrize("count", [1, 2, 3, 9, 10, 49])
def test_places_of_quantiles(count):
    items = np.arange(count) ** 2.0
    for quantile in np.linspace(0, 1, 23):
        low, fraction = quantile_position(count, float(quantile))
        assert 0 <= low < count
        assert 0 <= fraction < 1
        above = items[min(low + 1, count - 1)]
        value = items[low] + fraction * (above - items[low])
        np.testing.assert_allclose(value, np.quantile(items, quantile), rtol=1e-12, atol=1e-12)
