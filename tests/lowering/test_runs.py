"""Windows of any shape: what boxes hold, and that texts made of them are right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import agreement
import ninepoint as npt
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Boundary
from ninepoint.inspecting.asked import asked
from ninepoint.lowering.runs import boxes
from ninepoint.lowering.schedule import Schedule
from ninepoint.lowering.work import work

HOLED = np.array(
    [[0, 1, 1, 1, 0, 0, 1], [1, 1, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]],
    dtype=bool,
)
BALL, WIDE, HUGE = npt.shapes.ball(2), npt.shapes.disk(4.2), npt.shapes.ring(13, 4)
LINE = np.array([1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1], dtype=bool)


def masks() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    found = [npt.shapes.disk(r) for r in (0, 2, 5, 10)] + [npt.shapes.ring(9, 6), HOLED]
    for _ in range(60):
        mask = rng.random((rng.integers(1, 9), rng.integers(1, 9))) < rng.choice([0.3, 0.7, 1])
        mask.flat[0] = True
        found.append(mask)
    return found


@pytest.mark.parametrize("idempotent", [True, False])
def test_boxes_hold_each_element_and_sums_hold_it_once(idempotent: bool) -> None:
    for mask in masks():
        wanted = [tuple(place) for place in np.argwhere(mask).tolist()]
        made = boxes(tuple(wanted), idempotent)
        known = {(1, 1): [(0, 0)]}

        def elements(pieces: Any, known: Any = known) -> list[tuple[int, int]]:
            return [
                (piece.place[0] + i, piece.place[1] + j)
                for piece in pieces
                for i, j in known[piece.box]
            ]

        for box, pieces in made.kept:
            known[box] = elements(pieces)
            assert sorted(set(known[box])) == sorted(np.ndindex(*box))
        found = elements(made.pieces)
        assert sorted(set(found)) == wanted
        assert idempotent or len(found) == len(wanted)
        assert made.cost <= 3 * len(wanted)


def largest(x):
    return x[-2:2, -1:6][HOLED].max(), x[-2:2, -1:6][HOLED].mean()


def deviation(x):
    return x[-2:2, 0:7][HOLED].var()


def computed(x):
    d = x[0, 1] - x[0, 0]
    return d[-2:2, -1:6][HOLED].min() + np.abs(x[-2:2, -1:6])[HOLED].sum()


def ball(x):
    near = x[-2:3, -2:3, 0:5]
    return near[BALL].min(), near[BALL].sum()


def line(x):
    return x[-12:-1][LINE].max() - x[-12:-1][LINE].sum()


def counted(x):
    return np.percentile(x[-4:5, -4:5][WIDE], 40), np.median(x[-4:5, -4:5][WIDE])


def slid(x):
    return np.percentile(x[-13:14, -13:14][HUGE], 40)


@pytest.mark.parametrize(
    ("kernel", "dtype", "shape"),
    [
        (largest, "uint8", (9, 8)),
        (largest, "float32", (3, 11)),
        (deviation, "int16", (6, 7)),
        (computed, "int16", (6, 9)),
        (ball, "uint8", (5, 6, 4)),
        (ball, "float64", (3, 3, 7)),
        (line, "int64", (9,)),
        (counted, "uint8", (5, 6)),
        (counted, "int8", (5, 6)),
        (counted, "bool", (5, 6)),
        (slid, "uint8", (4, 7)),
    ],
)
def test_texts_give_what_the_reference_says(kernel: Any, dtype: str, shape: Any) -> None:
    draw = random.Random(str(shape))
    x = np.array([draw.randint(0, 100) for _ in range(np.prod(shape))]).reshape(shape)
    x = (x > 50 if dtype == "bool" else x - 50 if dtype[0] != "u" else x).astype(dtype)
    if dtype == "float32":
        x[1, 2] = np.nan
    # What is written out otherwise is done in boxes, and counted.
    schedule = Schedule(direct=1, network=0)
    for rule in ("wrap", "constant"):
        stencil = npt.stencil(schedule=schedule, boundary=rule, cval=1)(kernel)
        compiled = asked(stencil.definition, [x]).last
        border = Boundary.of(rule).on(compiled.ndim)
        program = agreement.Plain(compiled.bind({}))
        made = on_numpy.apply(program, [x], border=border, cval=1, threads=1)
        wanted = stencil.debug(x)
        if not isinstance(made, tuple):
            made, wanted = (made,), (wanted,)
        for one, other in zip(made, wanted, strict=True):
            if one.dtype.kind == "f":
                np.testing.assert_allclose(one, other, rtol=1e-5)
            else:
                np.testing.assert_array_equal(one, other)


def lowered(function: Any, dtype: str) -> Any:
    return asked(npt.stencil(function).definition, [dtype]).forms[0].lowered


def test_large_shapes_are_few_reads() -> None:
    disk, near = npt.shapes.disk(26), slice(-26, 27)
    for dtype in ("uint8", "float32"):
        made = work(lowered(lambda x: x[near, near][disk].max(), dtype))
        assert made.loads < 100, "of 2121 elements"
    made = work(lowered(lambda x: x[near, near][disk].sum(), "uint8"))
    assert made.loads < 100


def test_explain_tells_of_boxes() -> None:
    disk, near = npt.shapes.disk(5), slice(-5, 6)
    told = str(npt.stencil(lambda x: x[near, near][disk].max()).explain("uint8"))
    assert "max over 81 elements" in told
    assert "12 runs and boxes of elements compared at each point" in told
    assert "kept for the neighbours: 7 x 1, 9 x 1" in told
    told = str(npt.stencil(lambda x: np.median(x[near, near][disk])).explain("uint8"))
    assert "81 elements counted below each bit of the result" in told
