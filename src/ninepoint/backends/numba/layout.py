"""Layout: names in generated text, what is kept of stages while loops run, where rows are found.

    x, two rows more than the result      row i + 1 of the result's:   x[b, i + 2], from column 1
    v, of which three rows are kept       row i + 1 of the result's:   v[(i + 2) % 3]

Places are written as sums of indices and lengths: in a chain, how many rows and columns there are
depends on the sides at which the array goes on beyond the block.

Names that the user gave and those of the compiler are kept apart:

    stage band  ->  band_, its row function band__row        field x1  ->  x1_

What the compiler names by number ends in a digit: t0, v0_3, out1, and so do the copies that it
makes of what a user has named: u_0, r__2.  What it names after something ends in one of a few
words: v0_row, v0_in.  A name of the user's does neither here, nor is it a word of the text.
"""

from __future__ import annotations

import keyword
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np

from ...analysis.ranges import Interval, machine_type, ranges
from ...analysis.rewrite import reads
from ...base.frozen import frozen
from ...language.dtypes import computed, short
from ...language.ir import Box, Histogram, Kernel, Offset, State, Values, by_number, joined
from ...loops.operations import Operations
from ...lowering.chain import Edges, mirrored
from ...lowering.kept import Kept, full, kept_stages, needed, rolling_axis
from ..cache import machine
from ..llvm import library
from .points import indented, plus

# Bytes of a cache line.
LINE = 64


# Whether this machine converts half floats, several at once.
HALVES = platform.machine().lower() in ("aarch64", "arm64") or {"+avx", "+f16c"}.issubset(
    machine().rpartition(" ")[2].split(",")
)


# Names.

# What text may call.
LIBRARY = vars(library).keys() - {"np", "math"}

# Modules, built-in functions, and what the loops call their own values.
_WORDS = (
    "np math band range min max int float bool complex abs len round pow divmod "
    "b d i j k n many rest value whole notes turns"
)

RESERVED = frozenset(
    {
        *LIBRARY,
        *_WORDS.split(),
        *keyword.kwlist,
        *keyword.softkwlist,
        "__debug__",
    }
)

# How the names end of functions and values that belong to a stage or to an operation.
_DERIVED = ("_row", "_rows")


def kernel_names(kernel: Kernel) -> dict[str, str]:
    """The names in generated text of all that a kernel is given, and of its stages."""
    stages = kernel.stage_names
    given = [name for name, _ in (*kernel.fields, *kernel.scalars)]
    given += [name for name, _, _ in kernel.coefficients]
    safe: dict[str, str] = {}
    for name in (*given, *stages):
        new = name
        # A stage of the compiler's own has a name that nothing else has.
        own = name in stages and by_number(name)
        while not own and (
            new in RESERVED or by_number(new) or new.endswith(_DERIVED) or new in safe.values()
        ):
            new += "_"
        safe[name] = new
    return safe


def as_tuple(items: list[str]) -> str:
    """The text of a tuple."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


# Rows.


# Rows of a field or of a stage, at an offset along all axes but the last: what each is called in
# the text, and the column that it begins at.
Rows: TypeAlias = Mapping[tuple[str, Offset], tuple[str, int]]


@frozen
class RowFunction:
    """The text of a row function, and what it must be called with.

    Some of its `parameters` are those of its `rows`; o0, o1, ... are its results, `n` is how many
    columns these have, and `i` and the like are its place.  Its `buffers` are made once, so.
    """

    name: str
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    constants: tuple[str, ...] = ()
    rows: Rows = field(default_factory=dict)
    buffers: Mapping[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[str, ...]:
        """Its text."""
        head = f"def {self.name}({', '.join(self.parameters)}):"
        return (head, *indented(self.body))


# How often each name is added, and the number itself under "".
Sum: TypeAlias = Mapping[str, int]


def sum_text(sums: Iterable[Sum]) -> str:
    """The sum of sums: `n + 2 * before1 - 3`."""
    total = Counter[str]()
    for one in sums:
        total.update(one)
    text = ""
    for name, times in sorted(total.items(), key=lambda item: (item[0] == "", item[1] < 0)):
        if not times:
            continue
        term = name if name and abs(times) == 1 else f"{abs(times)} * {name}"
        term = term if name else str(abs(times))
        text += f" {'-' if times < 0 else '+'} {term}" if text else "-" * (times < 0) + term
    return text or "0"


class Layout:
    """Where the rows of a kernel lie, or of a chain whose arrays have such `edges`.

    Its results are stored as `dtypes`, without which they are stored as they are computed.
    """

    def __init__(
        self,
        kernel: Kernel,
        reach: Box,
        dtypes: Sequence[np.dtype] = (),
        edges: Edges | None = None,
    ) -> None:
        self.reach, self.dtypes = reach, dtypes
        # Without axes where the array goes on at all ends.
        self.edges = edges or Edges(())
        # What is needed of a stage where the array goes on, and where it ends.
        self.needs, self.ends = needed(kernel, mirrored=True), needed(kernel, stored=True)
        if edges:
            kernel = mirrored(kernel, edges)
        self.kernel = kernel
        self.known: dict[str, Interval] = ranges(kernel)
        self.names = kernel_names(kernel)
        self.axis = rolling_axis(kernel)
        # The names of the indices along all axes but the last.
        self.indices = [*(f"i{axis}" for axis in range(kernel.ndim - 2)), "i"][: kernel.ndim - 1]
        # Those of the loops that are around all that rolls: a kernel of one axis has no rows.
        self.outer = self.indices[: len(self.indices) + self.axis + 2]
        # The last of them tells which turn it is, of those in which stages roll.
        self.turn = self.outer[-1] if self.outer else ""
        # The fields that are constant along a row: positions along another axis.
        self.constant = {name for name, one in kernel.placed if one.axis < kernel.ndim - 1}
        self.every = kernel.every or (1,) * kernel.ndim
        self._keep_stages()
        # What a function takes that looks anywhere: the fields, and its place.
        self.whole = [*(self.names[name] for name, _ in kernel.fields), "b", *self.indices]
        # What a kernel is given after its arrays.
        self.coefficients = [self.names[name] for name, _, _ in kernel.coefficients]
        self.scalars = [self.names[name] for name, _ in kernel.scalars]
        self.others = [*self.coefficients, *self.scalars, "notes"]
        # What slides along rows knows elements as they are computed with; a chain keeps them so.
        slides = any(isinstance(stage, Histogram) for stage in kernel.stages)
        self.converts = HALVES and not slides and not edges
        self.loads = {
            name: one.load
            for name, dtype in kernel.fields
            if self.converts and (one := short(dtype))
        }
        self.expressions = Operations(
            self.known,
            {name: machine_type(dtype, self.known[name]) for name, dtype in kernel.scalars},
            {name: self.names[name] for name, _ in kernel.scalars},
        )
        # Where reads stand that may be outside of their neighborhood.
        self.places: list[str] = []

    def _keep_stages(self) -> None:
        """Tell what is kept of each stage, and how far all of them reach."""
        kernel = self.kernel
        # Positions along a row are the same in all rows, and so are stages that read nothing else.
        columns = {name for name, one in kernel.placed if one.axis == kernel.ndim - 1}
        self.alike = {
            stage.names[0]
            for stage in kernel.stages
            if isinstance(stage, Values) and {read.field for read in reads(stage.body)} <= columns
        }
        # Of a turn that makes several rows each stage keeps as many more.
        self.kept = tuple(
            replace(one, count=1 if self.is_alike(one) else one.count + kernel.rows - 1)
            for one in kept_stages(kernel)
        )
        self.by_name = {name: kept for kept in self.kept for name in kept.stage.names}
        # The machine types of what is read of fields and of stages.
        self.machines = {name: computed(dtype).name for name, dtype in kernel.fields}
        for name, kept in self.by_name.items():
            stage, k = kept.stage, kept.stage.names.index(name)
            self.machines[name] = (
                computed(stage.storage[k]).name
                if isinstance(stage, State)
                else machine_type(stage.values[k].dtype, self.known[name])
            )
        # The result is a stage that is kept nowhere.
        here, outs = full((0,) * kernel.ndim), [f"out{k}" for k in range(len(kernel.outputs))]
        result = Values(tuple(outs), kernel.body, kernel.outputs)
        self.result = Kept(result, here, here, self.axis, 1)
        self.stages = (*self.kept, self.result)
        self.names |= {name: name for name in outs}
        # Whether every plane of the axis down which stages roll has a turn.
        self.rolled = any(one.count > 1 for one in self.kept)
        # How many planes are made before the first of the result.
        self.warm = max((kept.warm for kept in self.kept), default=0)
        # Rows of a chain begin at multiples of 64 bytes where the array's rows begin: of the loads
        # of a step, those of the point's own column then touch one cache line a vector (heat in
        # two and three axes, float32: 1.2x, Zen 4).  So all of its stages are kept alike.
        boxes = [*self.ends.values(), *((one.low, one.high) for one in self.stages)]
        self.low, self.high = joined([Box(*one) for one in boxes]).ends

    def is_alike(self, kept: Kept) -> bool:
        """Whether all rows of a stage are the same."""
        return kept.stage.names[0] in self.alike

    def item_size(self, name: str) -> int:
        """The bytes of an element of a stage."""
        return np.dtype(self.machines[name]).itemsize

    # Extents: of the results, and of a stage where the array goes on, and where it ends.

    def length(self, axis: int) -> str:
        """The length of the result along an axis, counted from the last, which is -1."""
        return "n" if axis == -1 else f"out0.shape[{self.kernel.ndim + axis + 1}]"

    def points(self, axis: int) -> Sum:
        """How many points the results span along an axis."""
        step = self.every[axis]
        return {self.length(axis): step, "": 1 - step}

    def on(self, side: str, axis: int, times: int) -> Sum:
        """So many, where the array goes on `before` or `after` the block."""
        return {f"{side}{-axis}" if self.edges.axes else "": times}

    def ends_at(self, kept: Kept, axis: int, last: bool) -> tuple[Sum, ...]:
        """Where a stage begins or, at `last`, ends along an axis."""
        name, side = kept.stage.names[0], "after" if last else "before"
        ended = 0 if isinstance(kept.stage, State) else self.ends[name][last][axis]
        more = self.on(side, axis, self.needs[name][last][axis] - ended)
        return (*[self.points(axis)] * last, {"": ended}, more)

    def limits(self, kept: Kept, axis: int) -> tuple[str, str]:
        """Where a stage begins and ends along an axis."""
        return sum_text(self.ends_at(kept, axis, False)), sum_text(self.ends_at(kept, axis, True))

    def columns(self, kept: Kept) -> str:
        """How many columns a row of a stage has."""
        less = [{n: -times for n, times in one.items()} for one in self.ends_at(kept, -1, False)]
        return sum_text((*self.ends_at(kept, -1, True), *less))

    def rolls(self, axis: int) -> bool:
        """Whether results are made at some of the planes of an axis that all have a turn."""
        return self.rolled and self.every[axis] > 1 and axis == self.axis

    # What is kept.

    def room(self, kept: Kept) -> tuple[Offset, Offset]:
        """The first and the last offset that there is room for."""
        return (self.low, self.high) if self.edges.axes else (kept.low, kept.high)

    def first(self, kept: Kept) -> int:
        """The element of a stage's row at which column 0 is kept."""
        if not self.edges.axes or kept is self.result:
            return -kept.low[-1]
        least = min(map(self.item_size, self.by_name), default=LINE)
        found: int = -(self.low[-1] * least // LINE) * LINE // least
        return found

    def buffers(self) -> list[str]:
        """The lines that make room for what is kept."""
        lines: list[str] = []
        for kept in self.kept:
            low, high = self.room(kept)
            axes = range(self.axis + 1, -1)
            inner = [sum_text((self.points(k), {"": high[k] - low[k]})) for k in axes]
            if inner:
                # An odd number of rows, so that planes are no multiple of 4096 bytes apart either.
                inner[-1] += " | 1"
            columns = sum_text((self.points(-1), {"": self.first(kept) + high[-1]}))
            for name in kept.stage.names:
                width = f"padded({columns}, {self.item_size(name)})"
                shape = as_tuple([str(kept.count), *inner, width])
                kind = f"np.{self.machines[name]}"
                lines.append(f"{self.names[name]} = np.empty({shape}, dtype={kind})")
        return lines

    # Places.

    def made(self, kept: Kept, down: int = 0) -> Offset:
        """Where a stage's row of this turn is, relative to the result's: in its last plane."""
        place = [0] * len(self.indices)
        if place:
            place[self.axis + 1] = kept.high[self.axis] + down
        return tuple(place)

    def plane(self, kept: Kept, row: Offset, stop: int = -2) -> list[str]:
        """Where a stage keeps the plane of a row that is `row` from the result's, or volume.

        That is its index along the axes up to `stop`, of which all but that which rolls are
        counted from the lowest.
        """
        index = "0"
        if kept.count > 1:
            turn = plus(self.turn, row[self.axis + 1] - kept.low[self.axis])
            index = f"({turn}) % {kept.count}" if " " in turn else f"{turn} % {kept.count}"
        low, _ = self.room(kept)
        axes = range(self.axis + 1, stop)
        return [index, *(plus(self.indices[k + 1], row[k + 1] - low[k]) for k in axes)]

    def place(self, kept: Kept, row: Offset) -> str:
        """Where a stage keeps a row, or where it is in a result."""
        if kept is not self.result:
            return as_tuple(self.plane(kept, row, -1))
        own: list[str] = []
        for axis, index in enumerate(self.indices, -self.kernel.ndim):
            step = self.every[axis]
            if step > 1:
                index = f"{index} // {step}" if self.rolls(axis) else f"q{axis + self.kernel.ndim}"
            own.append(index)
        return as_tuple(["b", *map(plus, own, row)])

    def at(self, row: Offset) -> list[str]:
        """The index of a row in a field: from where the block begins that the fields hold."""
        return [
            sum_text(({index: 1, "": row[k + 1]}, self.on("before", k, -self.reach.lo[k])))
            for k, index in enumerate(self.indices, -self.kernel.ndim)
        ]
