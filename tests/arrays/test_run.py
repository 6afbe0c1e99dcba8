"""Blocks with open sides: what is computed from a part of an array is that part of the whole."""

from __future__ import annotations

import numpy as np
import pytest

from ninepoint.arrays.borders import Border
from ninepoint.arrays.layout import Region
from ninepoint.arrays.regions import needed, wraps
from ninepoint.arrays.run import run
from ninepoint.arrays.work import Block, Domain
from windowsum import Alone, Call, inside, program, random_calls, window


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
            np.testing.assert_array_equal(part, one[inside(calls, value, shape, region)], seed)


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
