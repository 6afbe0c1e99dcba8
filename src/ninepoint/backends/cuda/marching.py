"""Marching: what a thread makes in each turn while it goes along the first axis, plane by plane.

    a = x[-1, 0, 0] + x[-1, 0, 1]                 b = x[1, 0, 0] + x[1, 0, 1]
    b = x[1, 0, 0] + x[1, 0, 1]         ->        a = b[-2], of two turns before
    out = b - a                                   out = b - a

Of each plane of a field the columns that a thread needs are there from the turn on in which the
newest of them is read: those of its own points come from memory, those beside them from the
threads beside it.  They are kept as long as somebody reads them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...language.ir import (
    Assign,
    Atom,
    Binary,
    Call,
    Cast,
    Element,
    Expr,
    Kernel,
    Read,
    Ref,
    Select,
    Unary,
    atoms,
    renamed,
)
from ...lowering.abreast import abreast
from ...lowering.cost import operation
from .shapes import GAIN, LOAD, LONGEST, SPAN, STORE, WIDEST, Part, smallest, words

# Threads of a block along both axes of a plane: what lies beside a block is read twice, and is
# least where blocks are about as long as wide.
THREADS = (16, 16)

# Rows that are tried.
_ROWS = (1, 2, 4)

# Registers that the values of a thread may take, as they are counted here: with what addresses
# take there are enough for two blocks and a half.
_REGISTERS = 64

# Memory that the threads of a block may share [bytes].
_SHARED = 40000

# How far apart the planes may be that a point reads.
_DEEPEST = 16

# How much less work must be with fewer columns, whose loads have fewer bytes under way.
_NARROWER = 0.85

# What a thread spends on a turn besides, in operations.
_TURN = 25


@dataclass(frozen=True, slots=True)
class Own:
    """A field: how far ahead its newest plane is, and how many are kept of each own row."""

    newest: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """Columns beside a thread's own: `count` of a row, from `first` on, of so many planes.

    The newest of them is as far ahead as that which the threads of a block share.
    """

    name: str
    row: int
    first: int
    count: int
    planes: int


@dataclass(frozen=True, slots=True)
class Halo:
    """What a block reads around its own points: rows, and chunks of as many columns."""

    above: int
    below: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class March:
    """How a thread marches: what it makes in a turn, and what it keeps for later ones.

    `earlier` values are kept for so many turns; `kernel` reads them like a field.  `shared` are
    the fields of whose planes one is shared, and how far ahead.
    """

    columns: int
    rows: int
    kernel: Kernel
    earlier: Mapping[str, int]
    own: Mapping[str, Own]
    beside: Mapping[str, tuple[Beside, ...]]
    shared: Mapping[str, int]
    halo: Halo
    warm: int
    live: int = 0

    @property
    def tile(self) -> tuple[int, int]:
        """The rows and columns of a block."""
        return THREADS[0] * self.rows, THREADS[1] * self.columns

    @property
    def room(self) -> tuple[int, int]:
        """The rows and columns of a plane that the threads of a block share."""
        rows, columns = self.tile
        halo = self.halo
        return rows + halo.above + halo.below, columns + (halo.before + halo.after) * self.columns

    @property
    def around(self) -> int:
        """The chunks that a block reads around its own."""
        rows, columns = self.room
        return rows * columns // self.columns - math.prod(self.tile) // self.columns


def march_of(part: Part) -> March | None:
    """The columns and rows of the least work for each point; None where nothing is gained."""
    kernel = part.kernel
    plain = (Read, Element, Unary, Binary, Select, Cast, Call)
    if kernel.ndim != 3 or not all(isinstance(assign.value, plain) for assign in kernel.body):
        return None
    planes: dict[str, set[int]] = defaultdict(set)
    for read in reads(kernel.body):
        planes[read.field].add(read.offset[0])
    if max((len(one) for one in planes.values()), default=0) < 2:
        return None
    if any(max(one) - min(one) > _DEEPEST for one in planes.values()):
        return None
    columns = [read.offset[-1] for read in reads(kernel.body)]
    if max(columns) - min(columns) > SPAN:
        return None
    best: March | None = None
    least = 0.0
    for march in _marches(part):
        work = _work(march, part)
        gain = GAIN if best is None or march.columns == best.columns else _NARROWER
        if best is None or work < least * gain:
            best, least = march, work
    return best


def reads(body: Sequence[Assign]) -> Iterator[Read]:
    """What is read."""
    return (assign.value for assign in body if isinstance(assign.value, Read))


def _marches(part: Part) -> Iterator[March]:
    """All that are not too long, and whose values fit."""
    kernel, columns = part.kernel, max(1, WIDEST // max(part.sizes))
    while True:
        for rows in _ROWS:
            if rows * columns * len(kernel.body) > 2 * LONGEST:
                break
            march = _march(abreast(replace(kernel, rows=rows), ".", columns), rows, columns)
            march = replace(march, live=_live(march, part))
            if len(march.kernel.body) <= LONGEST and _fits(march, part):
                yield march
        if columns == 1 or columns // 2 * min(part.sizes) < 4:
            break
        columns //= 2


def _fits(march: March, part: Part) -> bool:
    """Whether registers and shared memory are enough, and neighbours are in the next block."""
    halo, size = march.halo, math.prod(march.room)
    shared = sum(2 * size * part.arrays[name].dtype.itemsize for name in march.shared)
    far = max(halo.above, halo.below) > march.tile[0] or max(halo.before, halo.after) > THREADS[1]
    return march.live <= _REGISTERS and shared <= _SHARED and not far


def earlier(kernel: Kernel) -> tuple[Kernel, dict[str, int]]:
    """The kernel with what a turn before has made read like a field, and for how many turns."""
    numbers: dict[Expr, int] = {}
    keys: dict[str, tuple[int, int | None]] = {}
    for assign in kernel.body:
        keys[assign.name] = _key(assign.value, keys, numbers)
    leaders: dict[int, tuple[int, str]] = {}
    for assign in kernel.body:
        key, shift = keys[assign.name]
        rolls = not isinstance(assign.value, Read | Cast | Element) and shift is not None
        if rolls and shift is not None and shift > leaders.get(key, (shift - 1, ""))[0]:
            leaders[key] = shift, assign.name
    found: dict[str, Assign] = {}
    kept: dict[str, int] = {}
    for assign in kernel.body:
        key, shift = keys[assign.name]
        found[assign.name] = assign
        if shift is not None and key in leaders and leaders[key][0] > shift:
            ahead, name = leaders[key]
            before = Read(assign.value.dtype, name, (shift - ahead, 0, 0))
            found[assign.name] = Assign(assign.name, before)
    used: set[str] = set()
    asked = [value.name for value in kernel.outputs if isinstance(value, Ref)]
    while asked:
        name = asked.pop()
        if name in used or name not in found:
            continue
        used.add(name)
        value = found[name].value
        if isinstance(value, Read):
            if value.field in found:
                kept[value.field] = max(kept.get(value.field, 0), -value.offset[0])
                asked.append(value.field)
        else:
            asked += [atom.name for atom in atoms(value) if isinstance(atom, Ref)]
    body = tuple(assign for name, assign in found.items() if name in used)
    return replace(kernel, body=body), kept


def _key(
    expr: Expr, keys: Mapping[str, tuple[int, int | None]], numbers: dict[Expr, int]
) -> tuple[int, int | None]:
    """What an operation is whichever plane it is done at, as a number, and at which it is.

    Of what has no plane there is none.
    """
    if isinstance(expr, Read):
        shift: int | None = expr.offset[0]
        expr = replace(expr, offset=(0, *expr.offset[1:]))
    else:
        refs = [atom for atom in atoms(expr) if isinstance(atom, Ref) and atom.name in keys]
        shifts = [found for ref in refs if (found := keys[ref.name][1]) is not None]
        shift = max(shifts, default=None)
        alias: dict[str, Atom] = {}
        for ref in refs:
            key, own = keys[ref.name]
            away = "" if own is None or shift is None else own - shift
            alias[ref.name] = Ref(ref.dtype, f"{key} {away}")
        expr = renamed(expr, alias)
    return numbers.setdefault(expr, len(numbers)), shift


def _march(several: Kernel, rows: int, columns: int) -> March:
    kernel, kept = earlier(several)
    found = [read for read in reads(kernel.body) if read.field not in kept]
    own: dict[str, list[set[int]]] = defaultdict(lambda: [set[int]() for _ in range(rows)])
    beside: dict[str, dict[tuple[int, int], list[Read]]] = defaultdict(lambda: defaultdict(list))
    for read in found:
        plane, row, column = read.offset
        if 0 <= row < rows and 0 <= column < columns:
            own[read.field][row].add(plane)
        else:
            beside[read.field][row, column // columns].append(read)
    shared = {
        name: max(read.offset[0] for group in groups.values() for read in group)
        for name, groups in beside.items()
    }
    chunks: dict[str, tuple[Beside, ...]] = {}
    number = 0
    for name, groups in beside.items():
        ones: list[Beside] = []
        for (row, block), group in sorted(groups.items()):
            inside = [read.offset[2] - block * columns for read in group]
            first, count = smallest(min(inside), max(inside))
            planes = shared[name] - min(read.offset[0] for read in group) + 1
            ones.append(Beside(f"s{number}", row, block * columns + first, count, planes))
            number += 1
        chunks[name] = tuple(ones)
        for planes_of_row in own[name]:
            planes_of_row.add(shared[name])
    owns: dict[str, Own] = {}
    for name, sets in own.items():
        newest = max(max(one, default=-(2**30)) for one in sets)
        owns[name] = Own(newest, tuple(newest - min(one) + 1 if one else 0 for one in sets))
    every = [one for ones in chunks.values() for one in ones]
    halo = Halo(
        max([0, *(-one.row for one in every)]),
        max([0, *(one.row - rows + 1 for one in every)]),
        max([0, *(-(one.first // columns) for one in every)]),
        max([0, *((one.first + one.count - 1) // columns for one in every)]),
    )
    oldest: dict[str, int] = {}
    for read in reads(several.body):
        oldest[read.field] = min(oldest.get(read.field, read.offset[0]), read.offset[0])
    warm = max(
        one.newest - min(oldest[name], shared.get(name, one.newest)) for name, one in owns.items()
    )
    return March(columns, rows, kernel, kept, owns, chunks, shared, halo, warm)


def _live(march: March, part: Part) -> int:
    """About how many registers the values take."""
    kernel = march.kernel
    sizes = {
        a.name: 4 if a.value.dtype.is_integer else a.value.dtype.numpy.itemsize
        for a in kernel.body
    }
    total = sum(count * words(sizes[name]) for name, count in march.earlier.items())
    around = -(-march.around // math.prod(THREADS)) if march.shared else 0
    for name, one in march.own.items():
        chunk = words(part.arrays[name].dtype.itemsize * march.columns)
        total += chunk * (sum(one.counts) + march.rows + around * (name in march.shared))
    for name, ones in march.beside.items():
        size = part.arrays[name].dtype.itemsize
        total += sum(one.planes * words(size * one.count) for one in ones)
    last = {value.name: len(kernel.body) for value in kernel.outputs if isinstance(value, Ref)}
    for place, assign in reversed(list(enumerate(kernel.body))):
        for atom in atoms(assign.value):
            if isinstance(atom, Ref):
                last.setdefault(atom.name, place)
    live = most = 0
    ends: dict[int, int] = defaultdict(int)
    for place, assign in enumerate(kernel.body):
        value = assign.value
        there = isinstance(value, Read) and (
            value.field in march.earlier or part.arrays[value.field].dtype.itemsize >= 4
        )
        size = 0 if there else words(sizes[assign.name])
        live += size
        most = max(most, live)
        ends[max(place, last.get(assign.name, place))] += size
        live -= ends[place]
    return total + most


def _work(march: March, part: Part) -> float:
    """Operations for each point."""
    around = -(-march.around // math.prod(THREADS)) if march.shared else 0
    total: float = _TURN + STORE * march.rows * len(part.targets)
    total += LOAD * march.rows * len(march.own) + (LOAD + 1) * around * len(march.shared)
    total += march.rows * len(march.shared) + sum(map(len, march.beside.values()))
    for assign in march.kernel.body:
        if not isinstance(assign.value, Read):
            total += operation(assign.value)
        elif assign.value.field not in march.earlier:
            total += part.arrays[assign.value.field].dtype.itemsize < 4
    return total / (march.rows * march.columns)
