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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeGuard

from ...language.ir import Assign, Atom, Kernel, Read, Ref, State, Values, atoms
from ...lowering.chain import Absent, Edge, Edges
from ...lowering.kept import full

# The rules before and after an array along each core axis.
Rules: TypeAlias = tuple[tuple[str, str], ...]

# Rules under which nobody asks what lies beyond.
NOTHING = ("fill", "keep", "valid")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A field, and by which border and constant what lies beyond its ends, if anybody asks."""

    name: str
    field: str
    beyond: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A stage, or the result: what is made of one row in a turn.

    `rounded` are the types of a state, which is kept as an array of these would be; `edges` are
    those of its arrays where the border's rules must be put there.
    """

    names: tuple[str, ...]
    body: tuple[Assign, ...]
    values: tuple[Atom, ...]
    edges: tuple[Edge | None, ...] = ()
    state: bool = False


@dataclass(frozen=True, slots=True)
class Ring:
    """The rows of one array that are kept.

    In the turn of row i the newest of `count` rows is row i + `newest`, and the first that is
    needed of all is as far as `low` before the first row of the result, or after.  From row
    i + `newest` + `fetched` on back, columns beside the lane's own are there, `before` and
    `after` them.
    """

    newest: int
    low: int
    count: int
    fetched: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Rolling:
    """All levels, in the order in which a turn makes them, and what is kept of each.

    `before` and `after` are the columns that a strip has besides those of its results.
    """

    loaded: tuple[Loaded, ...]
    made: tuple[Made, ...]
    result: Made
    rings: Mapping[str, Ring]
    before: int
    after: int

    @property
    def warm(self) -> int:
        """The turns before the first row of a result."""
        return max((ring.newest - ring.low for ring in self.rings.values()), default=0)


def rolling(
    kernel: Kernel, edges: Edges, borders: Sequence[Rules], *, closed: bool
) -> Rolling | None:
    """What rolls down for a kernel; None where its stages do not roll so.

    `closed` asks for what the rules need between steps; else the array goes on everywhere.
    """
    levels = _levels(kernel, edges, closed=closed)
    return _Measured(kernel, *levels, borders).rolling() if levels is not None else None


def ruled(kernel: Kernel, edges: Edges, borders: Sequence[Rules]) -> bool | None:
    """Whether a rule puts something at the ends of a state, or beyond them.

    None where that cannot be done: what "wrap" has beyond is computed as what is inside is, from
    what lies farther beyond, for which everything else must wrap along that axis too.
    """
    kept = [edges.arrays[name] for stage in kernel.stages if _kept(stage) for name in stage.names]
    copies = [edges.arrays[n] for stage in kernel.stages if _copied(stage) for n in stage.names]
    asked = False
    for axis in range(kernel.ndim):
        rules = [pair for edge in kept if (pair := _pair(edge, borders, axis)) is not None]
        others = [pair for edge in copies if (pair := _pair(edge, borders, axis)) is not None]
        absent = [edge.absent for edge in kept if edge.absent is not None]
        left_out = any(_zone(one, borders, axis) != (0, 0) for one in absent)
        if any("wrap" in pair for pair in rules):
            if left_out or any("wrap" not in pair for pair in (*rules, *others)):
                return None
        elif left_out or any(set(pair) - set(NOTHING) for pair in rules):
            asked = True
    return asked


def _pair(edge: Edge, borders: Sequence[Rules], axis: int) -> tuple[str, str] | None:
    """The rules for what lies beyond the ends of an axis, if anybody looks there."""
    return borders[edge.beyond[0]][axis] if edge.beyond is not None else None


def _zone(absent: Absent, borders: Sequence[Rules], axis: int) -> tuple[int, int]:
    """How many points at both ends of an axis are left out."""
    before, after = borders[absent.border][axis]
    low, high = absent.reach.lo[axis], absent.reach.hi[axis]
    return max(0, -low) * (before in NOTHING), max(0, high) * (after in NOTHING)


def _copied(stage: object) -> TypeGuard[State]:
    """Whether a stage is a field with another end."""
    if not isinstance(stage, State) or len(stage.body) != 1 or len(stage.names) != 1:
        return False
    value = stage.body[0].value
    own = isinstance(value, Read) and not any(value.offset)
    return own and stage.values[0] == Ref(value.dtype, stage.body[0].name)


def _kept(stage: object) -> TypeGuard[State]:
    return isinstance(stage, State) and not _copied(stage)


def _levels(
    kernel: Kernel, edges: Edges, *, closed: bool
) -> tuple[list[Loaded], list[Made], Made] | None:
    """What is loaded, what is made, and the result; names that mean the same are one."""
    fields = {name for name, _ in kernel.fields}
    loaded: dict[str, Loaded] = {}
    alias: dict[str, str] = {}
    made: list[Made] = []

    def read(name: str) -> str:
        """What a name of the kernel's is called here."""
        name = alias.get(name, name)
        if name in fields and name not in loaded:
            loaded[name] = Loaded(name, name)
        return name

    def level(
        names: tuple[str, ...],
        body: tuple[Assign, ...],
        values: tuple[Atom, ...],
        absent: Sequence[Edge | None],
        state: bool,
    ) -> Made:
        if not closed:
            # What "keep" asks for is read near the ends only.
            body = _live(body, values)
        lines = tuple(
            replace(one, value=replace(one.value, field=read(one.value.field)))
            if isinstance(one.value, Read)
            else one
            for one in body
        )
        ends = tuple(_renamed(edge, alias) for edge in absent)
        return Made(names, lines, values, ends, state)

    for stage in kernel.stages:
        if not isinstance(stage, Values | State):
            return None
        if _copied(stage) and isinstance(stage.body[0].value, Read):
            (name,), source = stage.names, stage.body[0].value.field
            if source in fields:
                beyond = edges.arrays[name].beyond
                # Where the array goes on all copies are one.
                alias[name] = name if closed else source
                if closed:
                    loaded[name] = Loaded(name, source, beyond)
                elif source not in loaded:
                    loaded[source] = Loaded(source, source, beyond)
                continue
        state = isinstance(stage, State)
        ends = [edges.arrays[name] for name in stage.names] if state and closed else []
        made.append(level(stage.names, stage.body, stage.values, ends, state))
    outs = tuple(f"out{k}" for k in range(len(kernel.outputs)))
    results = [Edge(None, one) for one in edges.results]
    result = level(outs, kernel.body, kernel.outputs, results, True)
    return list(loaded.values()), made, result


def _live(body: tuple[Assign, ...], values: tuple[Atom, ...]) -> tuple[Assign, ...]:
    """The operations that something depends on."""
    used = {value.name for value in values if isinstance(value, Ref)}
    kept: list[Assign] = []
    for assign in reversed(body):
        if assign.name in used:
            kept.append(assign)
            used |= {atom.name for atom in atoms(assign.value) if isinstance(atom, Ref)}
    return tuple(reversed(kept))


def _renamed(edge: Edge | None, alias: Mapping[str, str]) -> Edge | None:
    if edge is None or edge.absent is None or not edge.absent.before:
        return edge
    before = alias.get(edge.absent.before, edge.absent.before)
    return replace(edge, absent=replace(edge.absent, before=before))


@dataclass(slots=True)
class _Extent:
    """Where an array is needed, along rows and along columns.

    `low` and `high` count from the first row, or column, of the results and from the last; `least`
    and `most` from a point inside the array of the step that reads it.  `kept` rows must be there
    for the rule at the end.
    """

    low: list[int]
    high: list[int]
    least: list[int]
    most: list[int]
    kept: int = 1

    def __or__(self, other: _Extent) -> _Extent:
        """Where either is needed."""
        return _Extent(
            list(map(min, self.low, other.low)),
            list(map(max, self.high, other.high)),
            list(map(min, self.least, other.least)),
            list(map(max, self.most, other.most)),
            max(self.kept, other.kept),
        )


class _Measured:
    """How far all that reads an array looks, one level after the other, from the last."""

    def __init__(
        self,
        kernel: Kernel,
        loaded: list[Loaded],
        made: list[Made],
        result: Made,
        borders: Sequence[Rules],
    ) -> None:
        self.loaded, self.made, self.result = loaded, made, result
        self.borders = borders
        self.extents: dict[str, _Extent] = {}
        self.ends = {
            name: edge.beyond
            for one in made
            for name, edge in zip(one.names, one.edges, strict=bool(one.edges))
            if edge is not None and edge.beyond is not None
        }

    def rolling(self) -> Rolling:
        self._visit(self.result, _Extent([0, 0], [0, 0], [0, 0], [0, 0]))
        for level in reversed(self.made):
            found = [self.extents[name] for name in level.names if name in self.extents]
            if not found:
                continue
            joined = found[0]
            for other in found[1:]:
                joined = joined | other
            self.extents |= dict.fromkeys(level.names, joined)
            inside = replace(joined, least=[0, 0], most=[0, 0]) if level.state else joined
            self._visit(level, inside)
        made = tuple(level for level in self.made if level.names[0] in self.extents)
        loaded = tuple(one for one in self.loaded if one.name in self.extents)
        rings = {name: self._ring(name, made) for name in self.extents}
        columns = self.extents.values()
        return Rolling(
            loaded,
            made,
            self.result,
            rings,
            max([0, *(-one.low[1] for one in columns)]),
            max([0, *(one.high[1] for one in columns)]),
        )

    def _visit(self, level: Made, at: _Extent) -> None:
        """Note where a level that is needed there reads."""
        for read in _reads(level.body):
            own = self.extents.setdefault(
                read.field,
                _Extent([2**30] * 2, [-(2**30)] * 2, [2**30] * 2, [-(2**30)] * 2),
            )
            for axis, step in enumerate(full(read.offset)):
                least, most = at.least[axis] + step, at.most[axis] + step
                own.low[axis] = min(own.low[axis], at.low[axis] + step)
                own.high[axis] = max(own.high[axis], at.high[axis] + step)
                own.least[axis] = min(own.least[axis], least)
                own.most[axis] = max(own.most[axis], most)
                if read.field in self.ends:
                    self._repeat(own, self.ends[read.field], axis, at, least, most)

    def _repeat(
        self,
        own: _Extent,
        beyond: tuple[int, int],
        axis: int,
        at: _Extent,
        least: int,
        most: int,
    ) -> None:
        """Note what the rules at the ends repeat, for reads from `least` to `most`."""
        rules = self.borders[beyond[0]]
        rule = rules[axis - 2 + len(rules)] if axis - 2 + len(rules) >= 0 else ("fill", "fill")
        if least < 0 and (source := _repeated(rule[0], -least)) is not None:
            # Of rows: the row that is repeated must be there when the reader's own is made.
            far = at.high[0] + source - at.least[0] if axis == 0 else source
            own.high[axis] = max(own.high[axis], far)
        if most > 0 and (source := _repeated(rule[1], most)) is not None:
            own.low[axis] = min(own.low[axis], -source)
            if axis == 0:
                own.kept = max(own.kept, 2 if rule[1] == "nearest" else source + most + 1)

    def _ring(self, name: str, made: Sequence[Made]) -> Ring:
        extent = self.extents[name]
        newest = extent.high[0]
        lowest, beside, before, after = newest, -(2**30), 0, 0
        for level in (*made, self.result):
            row = 0 if level is self.result else self.extents[level.names[0]].high[0]
            for read in _reads(level.body):
                if read.field != name:
                    continue
                step, column = full(read.offset)
                lowest = min(lowest, row + step)
                if column:
                    beside = max(beside, row + step)
                before, after = max(before, -column), max(after, column)
        count = max(newest - lowest + 1, extent.kept)
        fetched = max(beside, lowest) - newest
        return Ring(newest, extent.low[0], count, fetched, before, after)


def _repeated(rule: str, far: int) -> int | None:
    """How far inside the point is that stands so `far` before the first; None for none."""
    return {"nearest": 0, "reflect": far - 1, "mirror": far}.get(rule)


def _reads(body: tuple[Assign, ...]) -> Iterator[Read]:
    for assign in body:
        if isinstance(assign.value, Read):
            yield assign.value
