"""Blocks from their own chunk and the faces around: what they give is that part of the whole."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.arrays.chunked import pieces
from ninepoint.arrays.chunked.faces import Faces, compute, cut
from ninepoint.arrays.layout import Region
from ninepoint.arrays.run import run
from ninepoint.arrays.work import Block
from ninepoint.calls import Call
from ninepoint.graph import graph_of
from ninepoint.lowering.schedule import Schedule
from ninepoint.program import Program
from windowsum import Alone, Work, inside, random_calls


def random_cuts(
    rng: np.random.Generator, n: int, least: int, whole: bool
) -> list[tuple[int, int]]:
    """Chunks of an axis that are all of some length at least."""
    marks = [0]
    while not whole and n - marks[-1] >= 2 * least and rng.random() < 0.8:
        marks.append(
            marks[-1]
            + int(rng.integers(least, max(least + 1, min(n - marks[-1] - least, 3 * least))))
        )
    return list(itertools.pairwise([*marks, n]))


@pytest.mark.parametrize("first", [0, 60])
def test_blocks_of_a_whole(first: int, limited: Any) -> None:
    """Pipelines of any rules and axes, several results, fields that broadcast, any chunks."""
    limited(pieces_bytes=0)
    limited(pieces_of_rows_bytes=0)
    for seed in range(first, first + 60):
        rng = np.random.default_rng(seed)
        limited(pieces_reaches=int(rng.integers(1, 3)))
        rank = int(rng.integers(1, 4))
        shape = tuple(int(n) for n in rng.integers(1, 40 if rank < 3 else 24, rank))
        rings = [bool(rng.random() < 0.3) for _ in range(rank)]
        calls, wanted = random_calls(rng, rank, rings)
        work = Work(tuple(calls), tuple(wanted), (np.dtype(float),) * 2, f"{seed}")
        looks = pieces.looks(work, rank)
        chunks = [
            random_cuts(rng, n, max(1, high - low + 1), rng.random() < 0.2)
            for n, (low, high, _) in zip(shape, looks, strict=True)
        ]
        # A program's nodes work on fields of one shape: none reads the thin field alone.
        thin = tuple(n if rng.random() < 0.7 else 1 for n in shape)
        thin = thin if all({*call.fields} != {1} for call in calls) else shape
        fields = [rng.integers(0, 9, one).astype(float) for one in (shape, thin)]
        if rank > 1 and thin[0] == 1 != shape[0] and all(-rank not in c.along for c in calls):
            fields[1] = fields[1][0]
        whole = run([Alone(call) for call in calls], Block(tuple(fields)), wanted)
        check(seed, work, shape, chunks, fields, whole, rings)


def check(
    seed: int,
    work: Any,
    shape: tuple[int, ...],
    chunks: list[list[tuple[int, int]]],
    fields: list[np.ndarray],
    whole: Sequence[np.ndarray],
    rings: list[bool],
) -> None:
    rank = len(shape)
    looks = pieces.looks(work, rank)
    depths = [
        (high, -low) if len(cuts) > 1 else (0, 0)
        for cuts, (low, high, _) in zip(chunks, looks, strict=True)
    ]

    def chunk(field: np.ndarray, place: tuple[int, ...]) -> np.ndarray:
        where = [chunks[axis][k] for axis, k in enumerate(place)][rank - field.ndim :]
        part = tuple(
            slice(0, 1) if n == 1 else slice(a, b)
            for n, (a, b) in zip(field.shape, where, strict=True)
        )
        found = field[part].copy()
        found.flags.writeable = False
        return found

    def faces(field: np.ndarray, place: tuple[int, ...]) -> Faces:
        thick = [
            (0, 0) if n == 1 else depth
            for n, depth in zip(field.shape, depths[rank - field.ndim :], strict=True)
        ]
        return pickle.loads(pickle.dumps(cut(chunk(field, place), thick)))

    for place in itertools.product(*(range(len(cuts)) for cuts in chunks)):
        spans = [chunks[axis][k] for axis, k in enumerate(place)]
        region = Region(tuple(a for a, _ in spans), tuple(b for _, b in spans))
        around: list[dict[tuple[int, ...], Any]] = []
        for field in fields:
            known = {}
            for offset in itertools.product((-1, 0, 1), repeat=rank):
                other = []
                for k, o, cuts, ring in zip(place, offset, chunks, rings, strict=True):
                    other.append((k + o) % len(cuts) if ring else k + o)
                lacks = any(
                    o and n == 1
                    for o, n in zip(offset[rank - field.ndim :], field.shape, strict=True)
                )
                there = all(0 <= k < len(cuts) for k, cuts in zip(other, chunks, strict=True))
                if any(offset) and there and not lacks:
                    known[offset] = faces(field, tuple(other))
            around.append(known)
        own = [chunk(field, place) for field in fields]
        made = compute(work, shape, region, own, around)
        for value, one, result in zip(work.wanted, made, whole, strict=True):
            expected = result[inside(list(work.nodes), value, shape, region)]
            assert one.dtype == expected.dtype
            np.testing.assert_array_equal(one, expected, f"{seed} {place}")


@npt.stencil
def sloped(x, y, gain=2):
    """Two results of two fields, which look to different sides."""
    return x[0, 1] - x[-2, 0] + gain * y[0, 0], y[1, -1] + x[0, 0]


@npt.stencil
def edged(x, y):
    a, b = sloped(x, y)
    return a[-1, 0] + b[0, 1] * x[0, 0], b[0, 0]


@npt.stencil(boundary="reflect")
def steep(x):
    return x[0, 1] - x[-2, 0] * 2


@npt.stencil(boundary="nearest")
def steeper(x):
    a = steep(x)
    return a[1, 0] - a[0, -1] + x[0, 0]


@pytest.mark.parametrize(
    ("stencil", "rule"),
    [
        (sloped, "wrap"),
        (sloped, "valid"),
        (edged, (("mirror", "fill"), ("reflect", "constant"))),
        (steeper, "nearest"),
    ],
)
def test_blocks_of_machine_code_that_come_again(
    stencil: npt.Stencil, rule: Any, limited: Any
) -> None:
    """What was noted of one block gives what the next one needs."""
    limited(pieces_bytes=0)
    rng = np.random.default_rng(1)
    shape = (32, 3, 40, 48)
    x = rng.integers(0, 99, shape).astype("float32")
    y = rng.integers(0, 99, shape[2:]).astype("int16")
    fields = [x, y] if "y" in stencil.fields else [x]
    call = Call.of(stencil.definition, stencil.definition.defaults, boundary=rule)
    graph, wanted = graph_of(call, [field.dtype for field in fields])
    # As one kernel, which small arrays have only where somebody asks for it.
    chosen = Schedule(stages=(("a", "rows"),) if stencil is steeper else ())
    work = Program(graph, wanted, chosen, graph.token)
    whole = stencil(*fields, boundary=rule)
    whole = whole if isinstance(whole, tuple) else (whole,)
    rings = [False, False, rule == "wrap", rule == "wrap"]
    for rows in ((10, 10, 10, 10), (40,)):
        chunks = [_spans((16, 16)), [(0, 3)], _spans(rows), _spans((12, 12, 12, 12))]
        check(0, work, shape, chunks, fields, whole, rings)


def _spans(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


def test_programs_are_packed_once_and_received_once() -> None:
    call = Call.of(sloped.definition, {"gain": 3}, boundary="nearest")
    graph, wanted = graph_of(call, [np.dtype("float32"), np.dtype("int16")])
    work = Program(graph, wanted, Schedule(), graph.token)
    packed = pickle.dumps(work)
    received = pickle.loads(packed)
    assert pickle.loads(packed) is received
    assert pickle.dumps(received) == packed
    assert (received.token, received.wanted) == (work.token, work.wanted)
    # Without a name of its meaning it is any program.
    nameless = Program(graph, wanted, Schedule())
    assert pickle.loads(pickle.dumps(nameless)) is not pickle.loads(pickle.dumps(nameless))
