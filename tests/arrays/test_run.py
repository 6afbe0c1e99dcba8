"""Blocks with open sides: what is computed from a part of an array is that part of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ninepoint.arrays.borders import Border
from ninepoint.arrays.layout import Region
from ninepoint.arrays.regions import needed, wraps
from ninepoint.arrays.run import Block, Domain, run
from windowsum import Alone, Call, program, window

SIDES = ("fill", "keep", "constant", "nearest", "reflect", "mirror")


def random_calls(
    rng: np.random.Generator, rank: int, rings: list[bool]
) -> tuple[list[Call], list[int]]:
    """A few calls on two fields and on each other, and what is wanted of them."""
    calls: list[Call] = []
    values = [0, 1]
    for _ in range(int(rng.integers(1, 5))):
        ndim = int(rng.integers(1, rank + 1))
        along = tuple(int(a) - rank for a in rng.permutation(rank)[:ndim])
        outputs = []
        for k in range(int(rng.integers(1, 3))):
            low = rng.integers(-3, 3, ndim)
            high = low + rng.integers(0, 3, ndim)
            reach = [(int(a), int(b)) for a, b in zip(low, high, strict=True)]
            outputs.append(window(reach, int(rng.integers(99)), field=k % 2))
        rules: list[Any] = [
            ("wrap", "wrap") if rings[axis] else tuple(map(str, rng.choice(SIDES, 2)))
            for axis in along
        ]
        fields = tuple(int(v) for v in rng.choice(values, 2))
        made = tuple(range(len(values), len(values) + len(outputs)))
        prog = program(*outputs, fields=2)
        calls.append(Call(prog, Border(tuple(rules)), fields, made, along, 3))
        values += made
    wanted = {int(v) for v in rng.choice(values[2:], 2)} | {values[-1]}
    # What is last may give fewer points than it is given.
    if rng.random() < 0.3 and not any(rings[axis] for axis in calls[-1].along):
        last = calls[-1]
        valid = Border((("valid", "valid"),) * len(last.along))
        calls[-1] = Call(last.program, valid, last.fields, last.outputs, last.along)
    needed, used = set(wanted), []
    for call in reversed(calls):
        if needed & set(call.outputs):
            used.append(call)
            needed |= set(call.fields)
    return used[::-1], sorted(wanted)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_a_part_of_the_whole(first: int) -> None:
    for seed in range(first, first + 50):
        rng = np.random.default_rng(seed)
        rank = int(rng.integers(1, 4))
        shape = tuple(int(n) for n in rng.integers(1, 14, rank))
        rings = [bool(rng.random() < 0.3) for _ in range(rank)]
        calls, wanted = random_calls(rng, rank, rings)
        groups = [Alone(call) for call in calls]
        fields = [rng.integers(0, 9, shape).astype(float) for _ in range(2)]
        whole = run(groups, Block(tuple(fields)), wanted)
        cuts = [sorted(int(k) for k in rng.integers(0, n + 1, 2)) for n in shape]
        region = Region(tuple(a for a, _ in cuts), tuple(b for _, b in cuts))
        if not region.points:
            continue
        spans = []
        for axis, (cut, n) in enumerate(zip(cuts, shape, strict=True), -rank):
            values, _ = needed(calls, wanted, (cut[0], cut[1]), n, axis)
            both = [values.get(value, (cut[0], cut[1])) for value in (0, 1)]
            span = min(a for a, _ in both), max(b for _, b in both)
            assert wraps(calls, axis) or (span[0] >= 0 and span[1] <= n)
            spans.append(span)
        index = np.ix_(*(np.arange(a, b) % n for (a, b), n in zip(spans, shape, strict=True)))
        start = tuple(a for a, _ in spans)
        block = Block(tuple(field[index] for field in fields), start, Domain(shape))
        parts = run(groups, block, wanted, region=region)
        for value, part, one in zip(wanted, parts, whole, strict=True):
            np.testing.assert_array_equal(part, one[_inside(calls, value, shape, region)], seed)


def _inside(calls: list[Call], value: int, shape: tuple[int, ...], region: Region) -> Any:
    """Where the points of a region stand in a whole result."""
    (call,) = (call for call in calls if value in call.outputs)
    reach = call.reaches[call.outputs.index(value)]
    cut = []
    for axis, (a, b) in enumerate(zip(region.start, region.stop, strict=True), -len(shape)):
        first = last = 0
        if axis in call.along and call.border.uses("valid"):
            k = call.along.index(axis)
            first, last = max(0, -reach.lo[k]), max(0, reach.hi[k])
        stop = max(first, shape[axis] - last)
        a, b = max(a, first), min(b, stop)
        cut.append(slice(a - first, max(a, b) - first))
    return tuple(cut)


def test_a_block_gives_all_that_it_can() -> None:
    call = Call(program(window([(-2, 1)])), Border((("nearest", "fill"),)), (0,), (1,), (-1,))
    again = Call(program(window([(-1, 1)])), Border((("mirror", "mirror"),)), (1,), (2,), (-1,))
    groups, x = [Alone(call), Alone(again)], np.arange(20.0) ** 2
    (whole,) = run(groups, Block((x,)), [2])
    for first, last in ((0, 20), (0, 12), (7, 20), (5, 13)):
        block = Block((x[first:last],), (first,), Domain((20,)))
        (part,) = run(groups, block, [2])
        a, b = (0 if first == 0 else first + 3), (20 if last == 20 else last - 2)
        np.testing.assert_array_equal(part, whole[a:b])


def test_a_block_that_is_too_small_is_refused() -> None:
    call = Call(program(window([(-2, 1)])), Border((("nearest", "fill"),)), (0,), (1,), (-1,))
    block = Block((np.arange(5.0),), (3,), Domain((20,)))
    with pytest.raises(ValueError, match="give a larger block or a smaller region"):
        run([Alone(call)], block, [1], region=Region((4,), (7,)))
