"""Shapes: how many columns and rows a thread makes, and which columns it loads at once.

    out = x[0, -1] + x[0, 1]     ->     2 rows of 4 columns; of each row of x the columns
                                        -1, 0 .. 3 and 4

Of all that fit the registers it is that of the least work for each point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...analysis.rewrite import reads
from ...language.ir import (
    Binary,
    Call,
    Cast,
    Element,
    Kernel,
    Offset,
    Read,
    Ref,
    Select,
    Unary,
    operands,
)
from ...lowering.abreast import abreast
from ...lowering.cost import operation
from .printing import Array

# The widest load and store [bytes].
WIDEST = 16

# Rows that are tried.
_ROWS = (1, 2, 4, 8)

# Registers that the values of a thread may take, as they are counted here.
_REGISTERS = 56

# How far apart the columns may be that a point reads: where any lies beyond an end, a thread maps
# all that are between.
SPAN = 64

# Operations of a thread, above which texts take seconds to compile.
LONGEST = 1600

# What a thread spends on its position and on each row it loads or stores, in operations.
THREAD, LOAD, STORE = 50, 3, 3


@dataclass(frozen=True, slots=True)
class Chunk:
    """So many columns from `first` on, of a row of a field: what one load is for."""

    name: str
    field: str
    lead: Offset
    first: int
    count: int

    def place(self, read: Read) -> int | None:
        """Where in it an element is; None if it is elsewhere."""
        place = read.offset[-1] - self.first
        own = (self.field, self.lead) == (read.field, read.offset[:-1])
        return place if own and 0 <= place < self.count else None


@dataclass(frozen=True, slots=True)
class Shape:
    """How many columns and rows a thread makes, by which operations, of which chunks.

    Values take `live` registers where they are most.  What is in no chunk is read where it is
    needed.
    """

    columns: int
    rows: int
    kernel: Kernel
    chunks: tuple[Chunk, ...] = ()
    live: int = 0

    @property
    def several(self) -> bool:
        """Whether a thread makes several points, which it loads and stores in chunks."""
        return self.rows * self.columns > 1


def padded(low: Offset, high: Offset, dtype: np.dtype) -> tuple[Offset, Offset]:
    """The region of a scratch array, widened so that its rows begin where loads may."""
    step = max(1, WIDEST // dtype.itemsize)
    first, last = low[-1] // step * step, -(-high[-1] // step) * step
    return (*low[:-1], first), (*high[:-1], last)


def shape_of(kernel: Kernel, outs: Sequence[Array], fields: Mapping[str, Array]) -> Shape:
    """The columns and rows of the least work for each point, whose values fit the registers.

    Arrays that are read have their names in the kernel.
    """
    best = Shape(1, 1, kernel)
    plain = (Read, Element, Unary, Binary, Select, Cast, Call)
    if not all(isinstance(a.value, plain) for a in kernel.body):
        return best
    columns = [read.offset[-1] for read in reads(kernel.body)]
    if columns and max(columns) - min(columns) > SPAN:
        return best
    shapes = _shapes(kernel, outs, fields)
    return min(shapes, key=lambda one: _work(one, len(outs), fields), default=best)


def _shapes(kernel: Kernel, outs: Sequence[Array], fields: Mapping[str, Array]) -> Iterator[Shape]:
    """All that are not too long, and whose values fit the registers."""
    read = {one.field for one in reads(kernel.body)}
    sizes = [a.dtype.itemsize for a in (*outs, *(fields[name] for name in read))]
    columns = first = max(1, WIDEST // max(sizes))
    while columns == first or columns * min(sizes) >= 4:
        for rows in _ROWS if kernel.ndim > 1 else (1,):
            if rows * columns * len(kernel.body) > 2 * LONGEST or rows == columns == 1:
                continue
            several = abreast(replace(kernel, rows=rows), "r", columns)
            if len(several.body) > LONGEST:
                break
            chunks = _chunks(several, fields, columns)
            shape = Shape(columns, rows, several, chunks, _live(several, chunks, fields))
            if shape.live > _REGISTERS:
                break
            yield shape
        if columns == 1:
            break
        columns //= 2


def _chunks(kernel: Kernel, fields: Mapping[str, Array], columns: int) -> tuple[Chunk, ...]:
    """Which columns of each row are loaded together: those of a block that are needed.

    A block is as many columns as a thread makes, at a multiple of them; of one not all of whose
    columns are needed the smallest half, quarter, ... that has them is loaded.
    """
    needed: dict[tuple[int, Offset, int], set[int]] = defaultdict(set)
    names = list(fields)
    for read in reads(kernel.body):
        number, column = names.index(read.field), read.offset[-1]
        needed[number, read.offset[:-1], column // columns].add(column % columns)
    found: list[Chunk] = []
    for (number, lead, block), inside in sorted(needed.items()):
        first, count = _smallest(min(inside), max(inside))
        name = f"x{len(found)}"
        found.append(Chunk(name, names[number], lead, block * columns + first, count))
    return tuple(found)


def _smallest(low: int, high: int) -> tuple[int, int]:
    """The least power of two of columns, at a multiple of it, that holds these: start, length."""
    count = 1
    while low // count != high // count:
        count *= 2
    return low // count * count, count


def _work(shape: Shape, outs: int, fields: Mapping[str, Array]) -> float:
    """Operations for each point."""
    total: float = THREAD + STORE * shape.rows * outs + LOAD * len(shape.chunks)
    for assign in shape.kernel.body:
        if isinstance(assign.value, Read):
            total += fields[assign.value.field].dtype.itemsize < 4
        else:
            total += operation(assign.value)
    return total / (shape.rows * shape.columns)


def _live(kernel: Kernel, chunks: Sequence[Chunk], fields: Mapping[str, Array]) -> int:
    """How many registers the values take where they are most."""
    words = {one.name: _words(fields[one.field].dtype.itemsize * one.count) for one in chunks}
    live = most = sum(words.values())
    last = {one.name: len(kernel.body) for one in kernel.outputs if isinstance(one, Ref)}
    dying: dict[int, list[str]] = defaultdict(list)
    for place, assign in reversed(list(enumerate(kernel.body))):
        value = assign.value
        words[assign.name] = 1 if value.dtype.is_integer else _words(value.dtype.numpy.itemsize)
        used = operands(value)
        if isinstance(value, Read):
            used = [one.name for one in chunks if one.place(value) is not None]
            if fields[value.field].dtype.itemsize >= 4:
                # It is what was loaded, and not a value of its own.
                words[assign.name] = 0
        for name in used:
            if last.setdefault(name, place) == place:
                dying[place].append(name)
    for place, assign in enumerate(kernel.body):
        live += words[assign.name]
        most = max(most, live)
        live -= sum(words.get(name, 1) for name in set(dying[place]))
    return most


def _words(size: int) -> int:
    """How many registers so many bytes take."""
    return -(-size // 4)
