"""Rings: the rows of fields and stages that a warp keeps while it rolls down a strip.

    v = x[0, 1] - x[0, -1]               x: row i + 1        beside it 1 column before, 1 after
    out = v[-1, 0] + v[1, 0]      ->     v: rows i - 1 .. i + 1

A turn makes row i of the result: the newest row of each field is loaded, that of each stage is
made of what is there, and the oldest of each ring goes.  What lies beside a lane's own columns is
in the registers of the lanes beside it, and is fetched when it is first read.

Where an array ends between two steps, what lies beyond is put there by a border's rule, from rows
and columns of the same ring: these must be there by then, so that some rows are made earlier, some
are kept longer, and a strip is a little wider than what is read needs.  A row before the first is
put there in the turn in which that is made which it repeats; one after the last, in the turn in
which it would itself be made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ...analysis.ranges import Interval, machine_type, of_storage, ranges
from ...analysis.rewrite import reads
from ...language.box import Box, joined
from ...language.dtypes import value_type
from ...language.ir import Assign, Atom, DType, Kernel, Offset, Read, Ref, Stage, State, Values
from ...lowering.chain import Absent, Constant, Edge, Edges
from ...lowering.kept import full
from .bodies import Body
from .printing import Rules, asked, left_out


@dataclass(frozen=True, slots=True)
class Loaded:
    """A field, and by which border and constant what lies beyond its ends, if anybody asks."""

    name: str
    field: str
    beyond: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A stage, or the result: what is made of one row in a turn.

    A `state` is an array as those of calls are, with `edges` where the border's rules are put.
    """

    names: tuple[str, ...]
    body: tuple[Assign, ...]
    values: tuple[Atom, ...]
    edges: tuple[Edge, ...]
    state: bool


@dataclass(frozen=True, slots=True)
class Ring:
    """The rows of one array that are kept.

    In the turn of row i the newest of `count` rows is row i + `newest`, and the first that is
    needed of all is as far as `low` before the first row of the result, or after.  From row
    i + `newest` + `fetched` on back, columns beside the lane's own are there, `before` and
    `after` them.  Its elements are of the type `machine`.
    """

    name: str
    machine: str
    newest: int
    low: int
    count: int
    fetched: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Rolling:
    """A kernel with its ends: all levels, in the order in which a turn makes them, with rings.

    Borders and ends have two axes: one row is the only row of its plane.  `beside` are the columns
    that a strip has before and after those of its results.
    """

    kernel: Kernel
    edges: Edges
    borders: tuple[Rules, ...]
    known: Mapping[str, Interval]
    loaded: tuple[Loaded, ...]
    levels: tuple[Made, ...]
    rings: Mapping[str, Ring]
    beside: tuple[int, int]
    constants: tuple[Constant, ...]

    @property
    def warm(self) -> int:
        """The turns before the first row of a result."""
        return max((ring.newest - ring.low for ring in self.rings.values()), default=0)

    @property
    def fallback(self) -> Rules:
        """Rules for fields beyond whose ends nobody looks: where all else wraps they do too."""
        wraps, nearest = ("wrap", "wrap"), ("nearest", "nearest")
        axes = zip(*self.borders, strict=True)
        return tuple(wraps if wraps in pairs else nearest for pairs in axes)

    def rules_of(self, absent: Absent) -> tuple[Rules, Box]:
        """The rules at the ends of an array, and how far points look that have other values."""
        reach = absent.reach
        return self.borders[absent.border], Box(full(reach.lo), full(reach.hi))

    def zones(self, axis: int) -> tuple[int, int]:
        """The most points at both ends of states and results that have other values."""
        absent = [edge.absent for level in self.levels for edge in level.edges if edge.absent]
        lost = [left_out(*self.rules_of(one))[axis] for one in absent]
        low, high = zip((0, 0), *lost, strict=True)
        return max(low), max(high)

    def margins(self) -> tuple[int, int]:
        """How many rows lie before and after those of a result that is near no end."""
        (low, high), rings = self.zones(0), self.rings.values()
        loads = [self.warm - self.rings[one.name].newest for one in self.loaded]
        least = [low - ring.low for ring in rings]
        return max(0, low, *loads, *least), high + max(0, *(ring.newest for ring in rings))

    def takes_rules(self) -> bool:
        """Whether the rules at the ends of states, and beyond them, can be put there.

        What "wrap" has beyond is computed as what is inside is, from what lies farther beyond, for
        which everything else must wrap along that axis too.
        """
        edges = [edge for level in self.levels[:-1] for edge in level.edges]
        beyond = [edge.beyond for edge in edges if edge.beyond]
        loaded = [one.beyond for one in self.loaded if one.beyond]
        for axis in range(2):
            rules = [self.borders[border][axis] for border, _ in (*beyond, *loaded)]
            if any("wrap" in self.borders[border][axis] for border, _ in beyond):
                absent = [edge.absent for edge in edges if edge.absent]
                leaves = any(any(left_out(*self.rules_of(one))[axis]) for one in absent)
                if leaves or any("wrap" not in pair for pair in rules):
                    return False
        return True


def rolling(kernel: Kernel, edges: Edges, borders: Sequence[Rules]) -> Rolling | None:
    """What rolls down for a kernel; None where its stages do not roll so."""
    # One row is the only row of its plane, beyond whose ends nobody looks.
    borders = [(("valid", "valid"),) * (2 - kernel.ndim) + rules for rules in borders]
    found = _levels(kernel, edges)
    if found is None:
        return None
    loaded, levels = found
    rules = {
        name: borders[edge.beyond[0]]
        for level in levels
        for name, edge in zip(level.names, level.edges, strict=True)
        if edge.beyond
    }
    here = Box((0, 0), (0, 0))
    extents = dict.fromkeys(levels[-1].names, _Extent(here, here))
    for level in reversed(levels):
        own_extents = [extents[name] for name in level.names if name in extents]
        if not own_extents:
            continue  # nothing reads it
        whole = reduce(_Extent.__or__, own_extents)
        extents |= dict.fromkeys(level.names, whole)
        at = replace(whole, looked=here) if level.state else whole
        for read in reads(level.body):
            own = _moved(at, full(read.offset), rules.get(read.field))
            extents[read.field] = extents.get(read.field, own) | own
    levels = [level for level in levels if level.names[0] in extents]
    loaded = [one for one in loaded if one.name in extents]
    known, storage, kept = ranges(kernel), dict(kernel.fields), _kept_types(kernel)
    types: dict[str, str] = {}
    for one in loaded:
        dtype = storage[one.field]
        types[one.name] = machine_type(value_type(dtype), of_storage(dtype), Body.least)
    for level in levels[:-1]:
        for name in level.names:
            types[name] = machine_type(kept[name], known[name], Body.least)
    rows = [(extents[level.names[0]].needed.hi[0], level) for level in levels]
    return Rolling(
        kernel,
        edges,
        tuple(borders),
        known,
        tuple(loaded),
        tuple(levels),
        {
            name: _ring(name, (f"r{k}", machine), extents[name], rows)
            for k, (name, machine) in enumerate(types.items())
        },
        joined([one.needed for one in extents.values()]).sides[1],
        asked(edges.constants, borders),
    )


def _copied(stage: Stage) -> str:
    """What a stage is a copy of, with another end; empty if it is none."""
    if not isinstance(stage, State) or len(stage.body) != 1 or len(stage.names) != 1:
        return ""
    value = stage.body[0].value
    own = isinstance(value, Read) and not any(value.offset)
    own = own and stage.values[0] == Ref(value.dtype, stage.body[0].name)
    return value.field if own and isinstance(value, Read) else ""


def _levels(kernel: Kernel, edges: Edges) -> tuple[list[Loaded], list[Made]] | None:
    """What is loaded, and what is made, the result last."""
    fields = {name for name, _ in kernel.fields}
    loaded: dict[str, Loaded] = {}
    made: list[Made] = []
    for stage in kernel.stages:
        if not isinstance(stage, Values | State):
            return None
        source = _copied(stage)
        if source in fields:
            (name,) = stage.names
            loaded[name] = Loaded(name, source, edges.arrays[name].beyond)
            continue
        ends = tuple(edges.arrays.get(name, Edge(None, None)) for name in stage.names)
        state = isinstance(stage, State)
        made.append(Made(stage.names, stage.body, stage.values, ends, state))
    # No array is called so.
    outs = tuple(f"result {k}" for k in range(len(kernel.outputs)))
    results = tuple(Edge(None, one) for one in edges.results)
    made.append(Made(outs, kernel.body, kernel.outputs, results, True))
    for level in made:
        for read in reads(level.body, fields):
            loaded.setdefault(read.field, Loaded(read.field, read.field))
    return list(loaded.values()), made


def _kept_types(kernel: Kernel) -> dict[str, DType]:
    """The type of what is kept of each stage, by its names."""
    found: dict[str, DType] = {}
    for stage in kernel.stages:
        match stage:
            case State(names, storage=storage):
                # A border's rule may put any element of its storage there.
                found |= zip(names, map(value_type, storage), strict=True)
            case Values(names, values=values):
                found |= zip(names, [value.dtype for value in values], strict=True)
            case _:
                pass
    return found


@dataclass(frozen=True, slots=True)
class _Extent:
    """Where an array is needed, along rows and along columns.

    What is `needed` counts from the first row, or column, of the results and from the last; what
    is `looked` at from a point inside the array of the step that reads it.  `kept` rows must be
    there for the rule at the end.
    """

    needed: Box
    looked: Box
    kept: int = 1

    def __or__(self, other: _Extent) -> _Extent:
        """Where either is needed."""
        kept = max(self.kept, other.kept)
        return _Extent(self.needed | other.needed, self.looked | other.looked, kept)


def _moved(at: _Extent, step: Offset, rules: Rules | None) -> _Extent:
    """Where an array is needed that is read so far from there, and what the rules repeat of it."""
    needed, looked, kept = at.needed.shift(step), at.looked.shift(step), 1
    low, high = list(needed.lo), list(needed.hi)
    for axis, (before, after) in enumerate(rules or ()):
        source = _repeated(before, -looked.lo[axis])
        if source is not None:
            # Of rows: the row that is repeated must be there when the reader's own is made.
            far = at.needed.hi[0] + source - at.looked.lo[0] if axis == 0 else source
            high[axis] = max(high[axis], far)
        source = _repeated(after, looked.hi[axis])
        if source is not None:
            low[axis] = min(low[axis], -source)
            if axis == 0:
                kept = 2 if after == "nearest" else source + looked.hi[axis] + 1
    return _Extent(Box(tuple(low), tuple(high)), looked, kept)


def _repeated(rule: str, far: int) -> int | None:
    """How far inside the point is that stands so `far` before the first; None for none."""
    if far <= 0:
        return None
    return {"nearest": 0, "reflect": far - 1, "mirror": far}.get(rule)


def _ring(
    name: str, own: tuple[str, str], extent: _Extent, rows: Sequence[tuple[int, Made]]
) -> Ring:
    """The ring of an array, of levels that make these rows in a turn."""
    newest = extent.needed.hi[0]
    lowest, beside, before, after = newest, -(2**30), 0, 0
    for row, level in rows:
        for read in reads(level.body, {name}):
            step, column = full(read.offset)
            lowest = min(lowest, row + step)
            if column:
                beside = max(beside, row + step)
            before, after = max(before, -column), max(after, column)
    count = max(newest - lowest + 1, extent.kept)
    fetched = max(beside, lowest) - newest
    return Ring(*own, newest, extent.needed.lo[0], count, fetched, before, after)
