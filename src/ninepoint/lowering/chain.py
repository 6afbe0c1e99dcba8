"""Chains: several calls as one kernel, each a stage of the next; steps of an iteration are some.

    step:  out = u[-1] + u[1]             v = u[-1] + u[1]
    3 steps                        ->     w = v[-1] + v[1]
                                          out = w[-1] + w[1]

A step's rows are made right after the last rows of the step before that it needs, while these
are in cache: a wavefront that runs down the rows, or down the planes where there are planes.

Each call has a border of its own.  What a call makes is kept with the
rule of the border at its ends, and what lies beyond the ends is put there by the rule of the
call that reads it; two calls with two rules read two copies.  A call that nobody looks beyond,
and whose own rule leaves nothing out, is an ordinary stage, or computed where it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from ..analysis.rewrite import in_bodies, reads
from ..base.frozen import frozen
from ..language.dtypes import short, value_type
from ..language.ir import (
    Assign,
    Atom,
    Atoms,
    Body,
    Box,
    DType,
    Kernel,
    Offset,
    Read,
    Ref,
    Stage,
    State,
    Values,
)
from .fusion import inlined, relabelled, renumbered, unfit
from .kept import computed_at, full, needed, rolling_axis
from .schedule import Schedule

# A value that a border's rule writes, as the rule's border, the type, and who asks for it: what
# stands beyond the ends of an array, or in the place of points that are left out.
Constant: TypeAlias = tuple[int, np.dtype, Literal["constant", "fill"]]


@frozen
class Link:
    """One call: a lowered kernel, and the names that it has in the whole.

    `sources` says what its fields are: fields of the whole, or what an earlier call made.
    `made` names its outputs; `names` its scalars and coefficients.
    `types` and `reaches` are those of its outputs.  Links with equal numbers as `border` have
    equal borders and constants.  The rule `keeps` values of the first fields, or `leaves` out
    points near the ends of rows, or of planes; it puts any value at all there if `unbounded`,
    else values of the array and zeros.
    """

    kernel: Kernel
    sources: Mapping[str, str] = field(hash=False)
    made: tuple[str, ...]
    names: Mapping[str, str] = field(hash=False)
    types: tuple[np.dtype, ...]
    reaches: tuple[Box, ...]
    border: int
    keeps: bool
    leaves: bool
    unbounded: bool

    def placed(self, sources: Mapping[str, str], suffix: str) -> Kernel:
        """Its kernel with the names of the whole, and for all else names with this end."""
        kernel = self.kernel
        arrays = {**self.names, **sources}
        arrays |= {name: f"{name}{suffix}" for name in kernel.stage_names}
        scalars = {n: Ref(d, self.names[n]) for n, d in kernel.scalars}
        return relabelled(kernel, arrays, suffix, scalars)


@frozen
class Absent:
    """What is written in the place of points that have no neighbour: where, and by which rule.

    `before` is the array whose values the rule "keep" keeps; empty if the rule keeps none.
    """

    border: int
    reach: Box
    constant: int
    before: str


@frozen
class Edge:
    """The ends of an array: what is written there, and by which border what lies beyond them.

    `beyond` is the border and the constant; nothing where nobody looks beyond the ends.
    """

    beyond: tuple[int, int] | None
    absent: Absent | None


@dataclass(slots=True)
class Edges:
    """The ends of all arrays of a chain, by their names, and those of its results.

    `borders` are the numbers of those that are used, and `axes` all axes, counted from the last,
    down one of which the chain `rolls`.
    """

    axes: Offset
    rolls: int = 0
    arrays: dict[str, Edge] = field(default_factory=dict)
    results: tuple[Absent | None, ...] = ()
    borders: list[int] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)

    @property
    def tables(self) -> tuple[tuple[str, np.dtype], ...]:
        """What a chain is given after its coefficients: ends of axes, and constants."""
        ends = (f"ends{-axis}_{border}" for axis in self.axes for border in self.borders)
        return (
            *((name, np.dtype("int64")) for name in ends),
            *((f"constant{k}", dtype) for k, (_, dtype, _) in enumerate(self.constants)),
        )

    def border(self, number: int) -> int:
        """The number, noted as used."""
        if number not in self.borders:
            self.borders.append(number)
        return number

    def constant(self, *one: *Constant) -> int:
        """The number of a constant."""
        if one not in self.constants:
            self.constants.append(one)
        return self.constants.index(one)


def unchainable(kernel: Kernel, made: Sequence[np.dtype]) -> str:
    """Why a kernel that makes these types cannot be in a chain; empty where it can."""
    for dtype in filter(short, made):
        return f"rows are kept as float32, and each step rounds to {dtype}"
    return unfit(kernel)


def chained(
    links: Sequence[Link],
    fields: Sequence[tuple[str, np.dtype]],
    wanted: Sequence[str],
    schedule: Schedule,
) -> tuple[Kernel, Edges]:
    """The kernel that does calls at once, and the ends of its arrays, those of all axes.

    What is `wanted` are values that they make.  Stages are computed where they are read, if that
    costs less than to keep them.
    """
    return _Chain(links, fields, wanted).kernel(schedule)


def mirrored(kernel: Kernel, edges: Edges) -> Kernel:
    """Keep of what is stored also the planes, or rows, of which those beyond the ends are copies.

    What lies beyond an end of the axis that rolls is a copy of one that lies as far inside.  Reads
    of which nobody uses what is read see to it that this one is there.
    """
    axis = rolling_axis(kernel)
    if -axis > kernel.ndim:
        return kernel
    ends = needed(kernel, stored=True)
    # A stage that is not stored is made as well beyond the ends.
    made = {stage.names[0] for stage in kernel.stages if isinstance(stage, Values)} & ends.keys()

    def mirrors(name: str, body: Body, values: Atoms) -> tuple[Body, Atoms]:
        low, high = (end[axis] for end in ends[name]) if name in made else (0, 0)
        more = list[Assign]()
        for array in dict.fromkeys(read.field for read in reads(body, edges.arrays)):
            known = list(reads(body, {array}))
            offsets = [read.offset[axis] for read in known]
            least, most = min(offsets), max(offsets)
            for k, at in enumerate((-2 * low - least, -2 * high - most)):
                if not least <= at <= most:
                    offset = list(known[0].offset)
                    offset[axis] = at
                    read = replace(known[0], offset=tuple(offset))
                    # Nothing else is called so: no name of a user's ends in a digit.
                    more.append(Assign(f"{array}_m0{name}_{k}", read))
        return (*body, *more), values

    return in_bodies(kernel, mirrors)


class _Chain:
    def __init__(
        self, links: Sequence[Link], fields: Sequence[tuple[str, np.dtype]], wanted: Sequence[str]
    ) -> None:
        self.links = links
        self.fields = fields
        self.wanted = wanted
        self.ndim = links[0].kernel.ndim
        self.edges = Edges(tuple(range(-1, -self.ndim - 1, -1)))
        self.stages = list[Stage]()
        self.scalars = list[tuple[str, DType]]()
        self.types = dict(fields)
        # The arrays in which a value stands: by the border of who looks beyond its ends, and for
        # all others.
        self.sources = dict[str, dict[int | None, str]]()
        self.far = [_read_beyond(link.kernel) for link in links]
        # What each stage, by its first name, has to read at the own point; "" is the result.
        self.owed = dict[str, Sequence[str]]()
        # Those of whose borders the rule puts any value at all beyond the ends.
        self.unbounded = {link.border for link in links if link.unbounded}
        # The borders of who looks beyond the ends of each value, and which values the rule "keep"
        # keeps.
        self.readers = dict[str, list[int]]()
        self.kept = set[str]()
        for link, far in zip(links, self.far, strict=True):
            for name, source in link.sources.items():
                if name in far:
                    borders = self.readers.setdefault(source, [])
                    borders += [link.border] * (link.border not in borders)
            self.kept |= set(self._before(link))

    def kernel(self, schedule: Schedule) -> tuple[Kernel, Edges]:
        for name, _ in self.fields:
            self._spread(name, made=False)
        for position in range(len(self.links) - 1):
            self._keep(position)
        stage, self.edges.results = self._made(len(self.links) - 1)
        self.owed[""] = self.owed[stage.names[0]]
        body, outputs = self._wanted(dict(zip(stage.names, stage.values, strict=True)), stage.body)
        # What the last of the fields are.
        positions = {
            link.sources[name]: one for link in self.links for name, one in link.kernel.placed
        }
        kernel = Kernel(
            ndim=self.ndim,
            fields=tuple(self.fields),
            scalars=tuple(self.scalars),
            coefficients=tuple(
                (link.names[name], dtype, shape)
                for link in self.links
                for name, dtype, shape in link.kernel.coefficients
            ),
            body=body,
            outputs=outputs,
            stages=tuple(self.stages),
            positions=tuple(positions[name] for name, _ in self.fields if name in positions),
        )
        kernel = renumbered(inlined(kernel, schedule), set(kernel.stage_names))
        kernel = in_bodies(kernel, self._with_owed)
        self.edges.rolls = rolling_axis(kernel)
        return kernel, self.edges

    def _made(self, position: int) -> tuple[Values, tuple[Absent, ...]]:
        """What a call makes, and what is absent of it."""
        link = self.links[position]
        self.scalars += [(link.names[n], d) for n, d in link.kernel.scalars]
        sources = {
            name: self.sources[value][link.border if name in self.far[position] else None]
            for name, value in link.sources.items()
        }
        placed = link.placed(sources, f"_s{position}")
        self.stages += placed.stages
        before = [self.sources[value][None] for value in self._before(link)]
        self.owed[link.made[0]] = before
        border = self.edges.border(link.border)
        absent = tuple(
            Absent(border, reach, self.edges.constant(border, dtype, "fill"), name)
            for dtype, reach, name in zip(
                link.types, link.reaches, before or ("",) * len(link.types), strict=True
            )
        )
        return Values(link.made, placed.body, placed.outputs), absent

    def _keep(self, position: int) -> None:
        """Keep what a call makes."""
        link = self.links[position]
        stage, absent = self._made(position)
        names = stage.names
        self.types |= dict(zip(names, link.types, strict=True))
        if link.leaves or any(name in self.readers or name in self.kept for name in names):
            # It is kept as an array would be.
            free = link.unbounded
            for name, one in zip(names, absent, strict=True):
                readers = self.readers.get(name, [])
                free = free or not self.unbounded.isdisjoint(readers)
                beyond = self._beyond(next(iter(readers), None), self.types[name])
                self.edges.arrays[name] = Edge(beyond, one)
            self.stages.append(State(names, stage.body, stage.values, link.types, free))
        else:
            self.stages.append(stage)
        for name in names:
            self._spread(name, made=True)

    def _wanted(self, made: Mapping[str, Atom], body: Body) -> tuple[Body, Atoms]:
        """What is `made` last and what was made before, as results."""
        absent = dict(zip(made, self.edges.results, strict=True))
        outputs = list[Atom]()
        more = list[Assign]()
        for number, value in enumerate(self.wanted):
            if value in made:
                outputs.append(made[value])
                continue
            array = self.sources[value][None]
            one = Assign(f"{array}_w{number}", self._own(array))
            more.append(one)
            outputs.append(Ref(one.value.dtype, one.name))
        # What was made before has been filled already.
        self.edges.results = tuple(absent.get(value) for value in self.wanted)
        return (*body, *more), tuple(outputs)

    # The arrays in which values stand.

    def _spread(self, name: str, made: bool) -> None:
        """Copies of an array for its readers, each with an end by the reader's border.

        The first of them reads what a call has made itself; a field has no ends of its own.
        """
        # What the rule "keep" keeps stands in rows of its own.
        copied = not made and name in self.kept
        borders: list[int | None] = [*self.readers.get(name, [])]
        arrays = {
            border: name if made and not k else self._copy(name, f"{name}_c{2 * k}", border)
            for k, border in enumerate(borders or [None] * copied)
        }
        self.sources[name] = {None: next(iter(arrays.values()), name), **arrays}

    def _copy(self, name: str, copy: str, border: int | None) -> str:
        """A stage that is another array, with an end of its own."""
        dtype = self.types[copy] = self.types[name]
        one, free = Assign(f"{copy}_1", self._own(name)), border in self.unbounded
        value = Ref(one.value.dtype, one.name)
        self.stages.append(State((copy,), (one,), (value,), (dtype,), free))
        self.edges.arrays[copy] = Edge(self._beyond(border, dtype), None)
        return copy

    def _own(self, name: str) -> Read:
        """The read of an array at the own point."""
        return Read(value_type(self.types[name]), name, (0,) * self.ndim)

    def _with_owed(self, stage: str, body: Body, values: Atoms) -> tuple[Body, Atoms]:
        """A body that reads all that it owes at the own point.

        Nobody uses what is read; but it is there when the rule "keep" asks for it, and no array
        is read later than where the result is written.
        """
        there = list(reads(body))
        wanted = {name: self._own(name) for name in self.owed.get(stage, ())}
        more = (Assign(f"{n}_k0{stage}_0", one) for n, one in wanted.items() if one not in there)
        return (*body, *more), values

    # What the borders' rules do.

    def _before(self, link: Link) -> tuple[str, ...]:
        """The values that its rule keeps where it leaves out points, if it keeps any."""
        names = [link.sources[name] for name, _ in link.kernel.fields]
        return tuple(names[: len(link.types)]) if link.keeps else ()

    def _beyond(self, border: int | None, dtype: np.dtype) -> tuple[int, int] | None:
        if border is None:
            return None
        return self.edges.border(border), self.edges.constant(border, dtype, "constant")


def _read_beyond(kernel: Kernel) -> set[str]:
    """The fields that are read at other places than the result's."""
    return {
        read.field
        for body, at in computed_at(kernel)
        for read in reads(body, dict(kernel.fields))
        if any(any(end) for end in at.shift(full(read.offset)).ends)
    }
