"""Shapes: how many columns and rows a thread makes, and which columns it loads at once.

    out = x[0, -1] + x[0, 1]     ->     2 rows of 4 columns; of each row of x the columns
                                        -1, 0 .. 3 and 4

Of all that fit the registers it is that of the least work for each point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...language.box import Box
from ...language.ir import (
    Assign,
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
    atoms,
)
from ...lowering.abreast import abreast
from ...lowering.chain import Constant
from ...lowering.cost import operation
from .bodies import Array
from .borders import Rules

# The widest load and store [bytes].
WIDEST = 16

# Rows that are tried.
_ROWS = (1, 2, 4, 8)

# Registers that the values of a thread may take, as they are counted here.
_REGISTERS = 56

# Where a point takes so many operations that memory waits for them, fewer threads may have more
# registers, if that is much less work.
_SHORT = 60
_MANY = 110
_MUCH = 0.85

# How far apart the columns may be that a point reads: where any lies beyond an end, a thread maps
# all that are between.
SPAN = 64

# Operations of a thread, above which texts take seconds to compile.
LONGEST = 1600

# What a thread spends on its position and on each row it loads or stores, in operations.
THREAD, LOAD, STORE = 50, 3, 3

# How much less work more registers must be worth.
GAIN = 0.97


@dataclass(frozen=True, slots=True)
class Part:
    """What one launch computes: the outputs of `kernel`, from `low` to the lengths plus `high`.

    `regions` are those of the scratch arrays that it may read.  Results have `reaches`, whose
    ends are written as the border says; a stage has none.
    """

    kernel: Kernel
    name: str
    low: Offset
    high: Offset
    targets: tuple[Array, ...]
    arrays: Mapping[str, Array]
    regions: Mapping[str, tuple[Offset, Offset]]
    rules: Rules
    constants: tuple[Constant, ...]
    reaches: tuple[Box, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """The size of an element of each array that is read or written [bytes]."""
        read = {a.value.field for a in self.kernel.body if isinstance(a.value, Read)}
        return [a.dtype.itemsize for a in (*self.targets, *(self.arrays[n] for n in read))]


@dataclass(frozen=True, slots=True)
class Chunk:
    """So many columns from `first` on, of a row of a field: what one load is for."""

    name: str
    first: int
    count: int


Row = tuple[str, Offset]


@dataclass(frozen=True, slots=True)
class Shape:
    """How many columns and rows a thread makes, by which operations."""

    columns: int
    rows: int
    kernel: Kernel
    chunks: Mapping[Row, tuple[Chunk, ...]]
    live: int = 0


def padded(low: Offset, high: Offset, dtype: np.dtype) -> tuple[Offset, Offset]:
    """The region of a scratch array, widened so that its rows begin where loads may."""
    step = max(1, WIDEST // dtype.itemsize)
    first, last = low[-1] // step * step, -(-high[-1] // step) * step
    return (*low[:-1], first), (*high[:-1], last)


def shape_of(part: Part) -> Shape | None:
    """The columns and rows of the least work for each point, whose values fit the registers."""
    kernel = part.kernel
    plain = (Read, Element, Unary, Binary, Select, Cast, Call)
    if not all(isinstance(assign.value, plain) for assign in kernel.body):
        return None
    columns = [a.value.offset[-1] for a in kernel.body if isinstance(a.value, Read)]
    if columns and max(columns) - min(columns) > SPAN:
        return None
    best: Shape | None = None
    least = 0.0
    for limit, gain in ((_REGISTERS, GAIN), (_MANY, _MUCH)):
        for shape in _shapes(part, limit):
            work = _work(shape, part)
            if best is None or work < least * gain:
                best, least = shape, work
        if least <= _SHORT and best is not None:
            break
    return best


def _shapes(part: Part, limit: int) -> Iterator[Shape]:
    """All that are not too long, and whose values take no more registers."""
    kernel = part.kernel
    widest, narrowest = max(part.sizes), min(part.sizes)
    columns = first = max(1, WIDEST // widest)
    while columns == first or columns * narrowest >= 4:
        for rows in _ROWS if kernel.ndim > 1 else (1,):
            if rows * columns * len(kernel.body) > 2 * LONGEST or rows == columns == 1:
                continue
            several = abreast(replace(kernel, rows=rows), "r", columns)
            if len(several.body) > LONGEST:
                break
            shape = Shape(columns, rows, several, _chunks(several, part.arrays, columns))
            shape = replace(shape, live=_live(shape, part))
            if shape.live > limit:
                break
            yield shape
        if columns == 1:
            break
        columns //= 2


def _chunks(
    kernel: Kernel, arrays: Mapping[str, Array], columns: int
) -> dict[Row, tuple[Chunk, ...]]:
    """Which columns of each row are loaded together: those of a block that are needed.

    A block is as many columns as a thread makes, at a multiple of them; of one not all of whose
    columns are needed the smallest half, quarter, ... that has them is loaded.
    """
    needed: dict[Row, set[int]] = defaultdict(set)
    for assign in kernel.body:
        if isinstance(assign.value, Read):
            name, offset = assign.value.field, assign.value.offset
            needed[name, offset[:-1]].add(offset[-1])
    found: dict[Row, tuple[Chunk, ...]] = {}
    number = 0
    order = {name: k for k, name in enumerate(arrays)}
    for row in sorted(needed, key=lambda row: (order[row[0]], row[1])):
        chunks: list[Chunk] = []
        for block in sorted({column // columns for column in needed[row]}):
            inside = [c - block * columns for c in needed[row] if c // columns == block]
            first, count = _smallest(min(inside), max(inside))
            chunks.append(Chunk(f"x{number}", block * columns + first, count))
            number += 1
        found[row] = tuple(chunks)
    return found


def _smallest(low: int, high: int) -> tuple[int, int]:
    """The least power of two of columns, at a multiple of it, that holds these: start, length."""
    count = 1
    while low // count != high // count:
        count *= 2
    return low // count * count, count


def _work(shape: Shape, part: Part) -> float:
    """Operations for each point."""
    total: float = THREAD + STORE * shape.rows * len(part.targets)
    total += LOAD * sum(map(len, shape.chunks.values()))
    for assign in shape.kernel.body:
        if isinstance(assign.value, Read):
            total += part.arrays[assign.value.field].dtype.itemsize < 4
        else:
            total += operation(assign.value)
    return total / (shape.rows * shape.columns)


def _live(shape: Shape, part: Part) -> int:
    """How many registers the values take where they are most."""
    kernel = shape.kernel
    sizes = {
        chunk.name: part.arrays[name].dtype.itemsize * chunk.count
        for (name, _), chunks in shape.chunks.items()
        for chunk in chunks
    }
    live = most = sum(map(_words, sizes.values()))
    last: dict[str, int] = {}
    for place, assign in enumerate(kernel.body):
        value = assign.value
        for name in _used(assign, shape):
            last[name] = place
        sizes[assign.name] = 4 if value.dtype.is_integer else value.dtype.numpy.itemsize
        if isinstance(value, Read) and part.arrays[value.field].dtype.itemsize >= 4:
            # It is what was loaded, and not a value of its own.
            sizes[assign.name] = 0
    last |= {output.name: len(kernel.body) for output in kernel.outputs if isinstance(output, Ref)}
    freed: dict[int, int] = defaultdict(int)
    for name, place in last.items():
        freed[place] += _words(sizes.get(name, 4))
    for place, assign in enumerate(kernel.body):
        live += _words(sizes[assign.name])
        most = max(most, live)
        live -= freed[place]
    return most


def _words(size: int) -> int:
    """How many registers so many bytes take."""
    return -(-size // 4)


def _used(assign: Assign, shape: Shape) -> Iterator[str]:
    if isinstance(assign.value, Read):
        yield chunk_of(assign.value, shape).name
    else:
        yield from (atom.name for atom in atoms(assign.value) if isinstance(atom, Ref))


def chunk_of(read: Read, shape: Shape) -> Chunk:
    """The chunk that has an element."""
    column = read.offset[-1]
    (found,) = (
        chunk
        for chunk in shape.chunks[read.field, read.offset[:-1]]
        if chunk.first <= column < chunk.first + chunk.count
    )
    return found
