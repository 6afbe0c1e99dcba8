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
    Kernel,
    Offset,
    Read,
    Ref,
    Stage,
    State,
    Values,
)
from .rolling import computed_at, full, needed, rolling_axis, unfit
from .schedule import Schedule
from .sharing import inlined, relabelled, renumbered

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


@frozen
class Absent:
    """What is written in the place of points that have no neighbour: where, and by which rule.

    `before` is the array whose values the rule "keep" keeps; empty if the rule keeps none.
    """

    border: int
    reach: Box
    constant: int
    before: str


@dataclass(slots=True)
class Edges:
    """The ends of all arrays of a chain, and of its results out0, out1, ..., by their names.

    There `absent` points are written, and `beyond` the ends what a border and a constant say,
    these by their numbers.  There are such `borders`, and `axes` are all axes, counted from the
    last, down one of which the chain `rolls`.
    """

    axes: Offset
    borders: Sequence[int] = ()
    rolls: int = 0
    absent: dict[str, Absent] = field(default_factory=dict)
    beyond: dict[str, tuple[int, int]] = field(default_factory=dict)
    constants: list[Constant] = field(default_factory=list)

    @property
    def tables(self) -> tuple[tuple[str, np.dtype], ...]:
        """What a chain is given after its coefficients: ends of axes, and constants."""
        ends = (f"ends{-axis}_{border}" for axis in self.axes for border in self.borders)
        return (
            *((name, np.dtype("int64")) for name in ends),
            *((f"constant{k}", dtype) for k, (_, dtype, _) in enumerate(self.constants)),
        )

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
        low, high = (end[axis] for end in ends[name].ends) if name in made else (0, 0)
        more = list[Assign]()
        for array in dict.fromkeys(read.field for read in reads(body, edges.beyond)):
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
        self.ndim = ndim = links[0].kernel.ndim
        borders = dict.fromkeys(link.border for link in links)
        self.edges = Edges(tuple(range(-1, -ndim - 1, -1)), tuple(borders))
        self.stages = list[Stage]()
        self.types = dict(fields)
        # The arrays in which a value stands: by the border of who looks beyond its ends, and for
        # all others.
        self.sources = dict[str, dict[int | None, str]]()
        # What the rule "keep" keeps in each stage, by its first name; "" is the result.
        self.owed = dict[str, Sequence[str]]()
        self.far = [_read_beyond(link.kernel) for link in links]
        # Those of whose borders the rule puts any value at all beyond the ends.
        self.unbounded = {link.border for link in links if link.unbounded}
        # The borders of who looks beyond the ends of each value, and which values the rule "keep"
        # keeps.
        self.readers = dict[str, dict[int, None]]()
        self.kept = set[str]()
        for link, far in zip(links, self.far, strict=True):
            for name, source in link.sources.items():
                if name in far:
                    self.readers.setdefault(source, {})[link.border] = None
            self.kept |= set(self._before(link))

    def kernel(self, schedule: Schedule) -> tuple[Kernel, Edges]:
        links = self.links
        for name, _ in self.fields:
            self._spread(name, made=False)
        for position in range(len(links) - 1):
            self._keep(position)
        body, outputs = self._results()
        # What the last of the fields are.
        positions = {link.sources[name]: one for link in links for name, one in link.kernel.placed}
        kernel = Kernel(
            ndim=self.ndim,
            fields=tuple(self.fields),
            scalars=tuple((one.names[n], d) for one in links for n, d in one.kernel.scalars),
            coefficients=tuple(
                (link.names[name], dtype, shape)
                for link in links
                for name, dtype, shape in link.kernel.coefficients
            ),
            body=body,
            outputs=outputs,
            stages=tuple(self.stages),
            positions=tuple(positions[name] for name, _ in self.fields if name in positions),
        )
        kernel = renumbered(inlined(kernel, schedule), set(kernel.stage_names))
        kernel = in_bodies(kernel, self._with_kept)
        self.edges.rolls = rolling_axis(kernel)
        return kernel, self.edges

    def _made(self, position: int) -> Kernel:
        """A call's kernel with the names of the whole, after its stages are made."""
        link, far, suffix = self.links[position], self.far[position], f"_s{position}"
        kernel = link.kernel
        arrays = {
            name: self.sources[value][link.border if name in far else None]
            for name, value in link.sources.items()
        }
        arrays |= {**link.names, **{name: f"{name}{suffix}" for name in kernel.stage_names}}
        placed = relabelled(kernel, arrays, suffix)
        self.stages += placed.stages
        return placed

    def _keep(self, position: int) -> None:
        """Keep what a call makes."""
        link, placed = self.links[position], self._made(position)
        names = link.made
        self.types |= zip(names, link.types, strict=True)
        if link.leaves or any(name in self.readers or name in self.kept for name in names):
            # It is kept as an array would be.
            free = link.unbounded
            for name in names:
                readers = self.readers.get(name, {})
                free = free or not self.unbounded.isdisjoint(readers)
                self._ends_beyond(name, next(iter(readers), None))
            self.edges.absent |= self._absent(link, names[0])
            stage: Stage = State(names, placed.body, placed.outputs, link.types, free)
        else:
            stage = Values(names, placed.body, placed.outputs)
        self.stages.append(stage)
        for name in names:
            self._spread(name, made=True)

    def _results(self) -> tuple[Body, Atoms]:
        """What is wanted: of what the last call makes, and of what was made before."""
        link, last = self.links[-1], self._made(len(self.links) - 1)
        made, absent = dict(zip(link.made, last.outputs, strict=True)), self._absent(link, "")
        body, outputs = [*last.body], list[Atom]()
        for number, value in enumerate(self.wanted):
            if value not in made:
                # It has been filled already.
                array = self.sources[value][None]
                one = Assign(f"{array}_w{number}", self._own(array))
                body.append(one)
                made[value] = Ref(one.value.dtype, one.name)
            elif value in absent:
                self.edges.absent[f"out{number}"] = absent[value]
            outputs.append(made[value])
        return tuple(body), tuple(outputs)

    # The arrays in which values stand.

    def _spread(self, name: str, made: bool) -> None:
        """Copies of an array for its readers, each with an end by the reader's border.

        The first of them reads what a call has made itself; a field has no ends of its own.
        """
        # What the rule "keep" keeps stands in rows of its own.
        copied = not made and name in self.kept
        borders: list[int | None] = [*self.readers.get(name, {})]
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
        self._ends_beyond(copy, border)
        return copy

    def _own(self, name: str) -> Read:
        """The read of an array at the own point."""
        return Read(value_type(self.types[name]), name, (0,) * self.ndim)

    # What the borders' rules do.

    def _before(self, link: Link) -> tuple[str, ...]:
        """The values that its rule keeps where it leaves out points, if it keeps any."""
        names = [link.sources[name] for name, _ in link.kernel.fields]
        return tuple(names[: len(link.types)]) if link.keeps else ()

    def _absent(self, link: Link, stage: str) -> dict[str, Absent]:
        """What is left out of that which a call makes, in the body of a stage or the result."""
        if not link.leaves:
            return {}
        before = self.owed[stage] = [self.sources[value][None] for value in self._before(link)]
        made = zip(
            link.made, link.types, link.reaches, before or [""] * len(link.made), strict=True
        )
        return {
            name: Absent(link.border, reach, self.edges.constant(link.border, dtype, "fill"), kept)
            for name, dtype, reach, kept in made
        }

    def _ends_beyond(self, array: str, border: int | None) -> None:
        """Note what lies beyond the ends of an array, if anybody looks there."""
        if border is not None:
            constant = self.edges.constant(border, self.types[array], "constant")
            self.edges.beyond[array] = border, constant

    def _with_kept(self, stage: str, body: Body, values: Atoms) -> tuple[Body, Atoms]:
        """A body that reads at the own point all that the rule "keep" keeps of it.

        Nobody uses what is read; but it is there when the rule asks for it, and no array is read
        later than where the result is written.
        """
        there = list(reads(body))
        wanted = {name: self._own(name) for name in self.owed.get(stage, ())}
        more = (Assign(f"{n}_k0{stage}_0", one) for n, one in wanted.items() if one not in there)
        return (*body, *more), values


def _read_beyond(kernel: Kernel) -> set[str]:
    """The fields that are read at other places than the result's."""
    return {
        read.field
        for body, at in computed_at(kernel)
        for read in reads(body, dict(kernel.fields))
        if any(any(end) for end in at.shift(full(read.offset)).ends)
    }
