"""A small real program for the tests of the arrays room: weighted sums by plain slicing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ninepoint.arrays.again import Again
from ninepoint.arrays.borders import Border
from ninepoint.arrays.gathering import source_indices
from ninepoint.arrays.layout import Region
from ninepoint.arrays.run import run
from ninepoint.arrays.work import Block
from ninepoint.language.box import Box

Offset = tuple[int, ...]
# One output: (field, offset) -> weight.
Weights = dict[tuple[int, Offset], float]


_pace: list[float] = []


@dataclass(frozen=True)
class WindowSum:
    """Each output is a weighted sum of neighbours of the fields."""

    outputs: tuple[Weights, ...]
    field_dtypes: tuple[np.dtype[Any], ...]
    out_dtypes: tuple[np.dtype[Any], ...]

    @property
    def takes_elements(self) -> bool:
        return False

    @property
    def every(self) -> tuple[int, ...]:
        return ()

    @property
    def positions(self) -> int:
        return 0

    @property
    def along(self) -> tuple[int, ...]:
        return ()

    @property
    def ndim(self) -> int:
        return len(next(iter(self.outputs[0]))[1])

    @property
    def reaches(self) -> tuple[Box, ...]:
        return tuple(
            Box(
                tuple(map(min, *(o for _, o in weights), next(iter(weights))[1])),
                tuple(map(max, *(o for _, o in weights), next(iter(weights))[1])),
            )
            for weights in self.outputs
        )

    @property
    def reach(self) -> Box:
        joined = self.reaches[0]
        for box in self.reaches[1:]:
            joined = joined | box
        return joined

    def within(self, core: tuple[int, ...]) -> WindowSum:
        return self

    def interleaved(self, lanes: int) -> WindowSum:
        return self._turned(lambda offset: (*offset[:-1], offset[-1] * lanes))

    def transposed(self, order: tuple[int, ...]) -> WindowSum:
        return self._turned(lambda offset: tuple(offset[axis] for axis in order))

    def levelled(self) -> WindowSum:
        return self._turned(lambda offset: (*offset, 0))

    def _turned(self, turn: Callable[[Offset], Offset]) -> WindowSum:
        outputs = tuple({(k, turn(o)): w for (k, o), w in one.items()} for one in self.outputs)
        return replace(self, outputs=outputs)

    def with_numbers(self, numbers: Sequence[Any]) -> WindowSum:
        assert not numbers
        return self

    @property
    def takes_commands(self) -> bool:
        return False

    @property
    def pace(self) -> list[float]:
        return _pace

    @property
    def warm(self) -> int:
        return 0

    @property
    def scalars(self) -> tuple[Any, ...]:
        return ()

    def run(self, fields: list[np.ndarray], outs: list[np.ndarray]) -> None:
        lo, hi = self.reach.lo, self.reach.hi
        n = outs[0].shape[1:]
        assert min(n) >= 1
        for field, dtype in zip(fields, self.field_dtypes, strict=True):
            assert field.dtype == dtype
            assert field.flags.aligned
            assert field.strides[-1] == field.itemsize
            assert field.shape[1:] == tuple(k + b - a for k, a, b in zip(n, lo, hi, strict=True))
        for out, dtype, weights in zip(outs, self.out_dtypes, self.outputs, strict=True):
            assert out.dtype == dtype
            assert out.strides[-1] == out.itemsize
            assert out.shape == outs[0].shape
            total = np.zeros(out.shape, np.result_type(dtype, np.float64))
            for (field, offset), weight in weights.items():
                cut = tuple(slice(o - a, o - a + k) for o, a, k in zip(offset, lo, n, strict=True))
                total = total + weight * fields[field][(slice(None), *cut)]
            out[...] = total.astype(dtype)

    @property
    def handoff(self) -> float:
        return 0.0


def brute(
    program: WindowSum, fields: Sequence[np.ndarray], border: Border, cval: Any = 0
) -> tuple[np.ndarray, ...]:
    """Every point by itself, on fields without a stack, straight from the words of the design."""
    fields = np.broadcast_arrays(*fields)
    shape = fields[0].shape
    results = []
    for k, (weights, reach) in enumerate(zip(program.outputs, program.reaches, strict=True)):
        result = np.zeros(shape, program.out_dtypes[k])
        dropped = [[False] * n for n in shape]
        for place in itertools.product(*map(range, shape)):
            met = []  # the first says: axis by axis, before and then after
            for axis, (i, n) in enumerate(zip(place, shape, strict=True)):
                before, after = border.rules[axis]
                if i + reach.lo[axis] < 0:
                    met.append(before)
                    dropped[axis][i] |= before == "valid"
                if i + reach.hi[axis] >= n:
                    met.append(after)
                    dropped[axis][i] |= after == "valid"
            if "valid" in met:
                continue
            absent = [rule for rule in met if rule in ("fill", "keep")]
            if absent[:1] == ["fill"]:
                result[place] = cval
            elif absent:
                result[place] = fields[k][place]
            else:
                total = np.zeros((), np.result_type(program.out_dtypes[k], np.float64))
                for (field, offset), weight in weights.items():
                    where = [
                        int(source_indices(i + o, i + o + 1, n, *rules)[0])
                        for i, o, n, rules in zip(place, offset, shape, border.rules, strict=True)
                    ]
                    value = cval if -1 in where else fields[field][tuple(where)]
                    total = total + weight * value
                result[place] = total.astype(result.dtype)
        for axis, gone in enumerate(dropped):
            result = result.compress([not g for g in gone], axis=axis)
        results.append(result)
    return tuple(results)


@dataclass(frozen=True)
class Call:
    """A node of a graph of one or more programs: its program, fields and results by number."""

    program: WindowSum
    border: Border
    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    along: tuple[int, ...]
    cval: Any = 0
    thins: bool = False

    @property
    def every(self) -> tuple[int, ...]:
        return (1,) * len(self.along)

    @property
    def full(self) -> Call:
        return self

    @property
    def factors(self) -> tuple[int, ...]:
        return ()

    @property
    def resizes(self) -> bool:
        return self.border.uses("valid")

    @property
    def reaches(self) -> tuple[Box, ...]:
        return self.program.reaches

    @property
    def out_dtypes(self) -> tuple[np.dtype[Any], ...]:
        return self.program.out_dtypes


@dataclass(frozen=True)
class Alone:
    """A group of one call."""

    call: Call
    program: None = None
    joint: None = None
    chain: None = None
    at_once: None = None
    steps: tuple[Alone, ...] = ()
    asked: bool = False
    tile: int = 0

    @property
    def nodes(self) -> tuple[Call, ...]:
        return (self.call,)

    turned = nodes

    @property
    def fields(self) -> tuple[int, ...]:
        return self.call.fields

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.call.outputs


@dataclass(frozen=True)
class Work:
    """Calls one after the other, as a graph of Dask tasks has them."""

    nodes: tuple[Call, ...]
    wanted: tuple[int, ...]
    field_dtypes: tuple[np.dtype[Any], ...]
    token: str
    name: str = "windows"

    parted: bool = True
    held: int = 0
    choices: None = None

    def run(
        self,
        block: Block,
        region: Region | None,
        outs: Mapping[int, np.ndarray] | None = None,
        *,
        noted: Again | None = None,
    ) -> list[np.ndarray]:
        if noted is not None:
            noted.otherwise()
        groups = [Alone(call) for call in self.nodes]
        return run(groups, block, self.wanted, region=region, outs=outs)


def work(
    prog: WindowSum,
    border: Border,
    *,
    axes: Sequence[int] | None = None,
    cval: Any = 0,
    token: str | None = None,
) -> Work:
    """A program by itself; `axes` are counted from the end."""
    fields = len(prog.field_dtypes)
    outputs = tuple(range(fields, fields + len(prog.outputs)))
    along = tuple(range(-prog.ndim, 0)) if axes is None else tuple(axes)
    call = Call(prog, border, tuple(range(fields)), outputs, along, cval)
    words = token or f"{prog} {border} {along} {cval!r}"
    return Work((call,), outputs, prog.field_dtypes, words)


def window(reach: Sequence[tuple[int, int]], seed: int = 0, field: int = 0) -> Weights:
    """Whole-number weights on a full box, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    offsets = itertools.product(*(range(a, b + 1) for a, b in reach))
    return {(field, offset): int(rng.integers(-3, 4)) or 1 for offset in offsets}


def program(
    *outputs: Weights, fields: int = 1, dtype: Any = np.float64, out: Any = None
) -> WindowSum:
    """Give a program whose fields share `dtype`, and whose outputs have dtype `out`."""
    result = np.dtype(dtype if out is None else out)
    return WindowSum(outputs, (np.dtype(dtype),) * fields, (result,) * len(outputs))


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


def inside(calls: list[Call], value: int, shape: tuple[int, ...], region: Region) -> Any:
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


Check = Callable[..., None]
