"""Row functions: the text that computes one row of a stage, or of the result.

    @row_function(noalias=True)
    def v0_row(x_0, x_1, x_2, o0, n):
        for j in range(n):
            v0_0 = x_0[j]
            ...
            o0[j] = v0_4

What it writes overlaps nothing that it reads.  LLVM finds that out by comparing pointers, as
long as there are few; to promise it is better only where each row is read at one offset, for
LLVM, once it is sure, keeps x[j + 1] for the next turn of the loop, which must then shuffle
lanes (3x3 sum of int8: 2.6 instead of 4.5 Gpixel/s, Zen 4).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from ...analysis.ranges import of_type
from ...language.box import Box
from ...language.dtypes import computed
from ...language.ir import (
    COMPARISONS,
    Assign,
    Atom,
    Binary,
    Cast,
    Coefficient,
    Const,
    Element,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
    Select,
    Tap,
    Unary,
    Weight,
    atoms,
    within,
)
from ...lowering.abreast import POINTER_CHECKS
from ...lowering.cost import operation
from ...lowering.pieces import Piece, Roll, pieces, rolled
from .control import EACH, NOTES, Control, gathered_rows, in_other_rows
from .expressions import Expressions, as_tuple
from .window_loops import WindowLoops, plus

# Columns that are computed by themselves at the end of a row: a vector of bytes, two of 16 bits,
# and of wider elements half as many.
VECTOR = 64

# Operations, over all columns that a multiple of these leaves, from which on that is less work
# than LLVM's narrow vectors and single columns.  In rows of 445 columns a median of 3 x 3 bytes
# takes 17 instead of 28 us, one of float32 55 instead of 60; a mean of 3 x 3 float32 gains
# nothing, and lost a tenth in rows of 98, which leave 2 (448 rows, Zen 5).
LEFT = 1000

_VECTORS = frozenset({"+", "-", "*", "&", "|", "^", "minimum", "maximum"})


@dataclass(frozen=True, slots=True)
class Source:
    """A field or a stage: its name in the text, its type, and the column its rows begin at.

    Of one that is kept in `parts`, where not all results are made, each row holds every so many
    columns, from one of these on.  All elements of a row of one that is `constant` are alike,
    positions along another axis, and only the first is there.  Where
    there is a function to `load` them, elements are converted by it.
    """

    name: str
    machine: str
    column: int
    parts: tuple[int, ...] = ()
    constant: bool = False
    load: str = ""


# A source, an offset along all axes but the last, and one of the parts.
Row: TypeAlias = tuple[str, Offset, int]


@dataclass(frozen=True, slots=True)
class RowFunction:
    """The text of a row function, and what it must be called with.

    `rows` are sources with their offsets along all axes but the last, and which of their parts it
    is; `others` are scalars and coefficients; `loops` says that it also takes whole fields and
    the place.  With `noalias` LLVM is promised that no two rows overlap; without it, that the
    results `apart` overlap nothing.  With `overlap` (64, 9) the last 64 columns are computed by
    themselves, some for the second time, where a multiple of 64 leaves at least 9.  It is told
    what is `given` besides, and the buffers that are `cleared` are zero when it is first called.
    """

    name: str
    lines: tuple[str, ...]
    constants: tuple[str, ...]
    rows: tuple[Row, ...]
    others: tuple[str, ...]
    buffers: tuple[tuple[str, int | str, str], ...]
    loops: bool
    noalias: bool
    apart: tuple[str, ...]
    overlap: tuple[int, ...]
    given: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()


def row_function(
    name: str,
    body: tuple[Assign, ...],
    values: tuple[Atom, ...],
    column: int,
    sources: dict[str, Source],
    kernel: Kernel,
    names: dict[str, str],
    expressions: Expressions,
    reach: Box,
    held: str = "",
    every: int = 1,
    tail: tuple[int, int] = (0, 0),
    stores: tuple[str, ...] = (),
    places: list[str] | None = None,
) -> RowFunction:
    """Write the function; `column` is where its row begins, relative to the result's.

    `held` names what the row holds already, for a function that changes it.  Its columns are
    `every` so many of those that it reads; of the first values, as many as `tail` says beside the
    number of operations for them, it makes one more column.  Its
    results are converted by the functions that `stores` names, "" for none.  The `places` of
    reads that may be outside of their neighborhood are added to those that are there.
    """
    parts: tuple[Piece, ...] = (Piece(body, ""),)
    if _cuttable(values, held, every):
        parts = pieces(body, values[0])
    rolls = rolled(parts, lambda name: _movable(sources[name], kernel, name))
    body = tuple(assign for roll in rolls for assign in roll.piece.body)
    if rolls[-1].count > 1:
        values = (Ref(values[0].dtype, rolls[-1].piece.result),)
    for roll in rolls:
        for own, constants in roll.tables.items():
            expressions.types[own] = str(constants[0].dtype.value)
            expressions.known[own] = of_type(constants[0].dtype)
    reads = _places(body, sources, column, every)
    elsewhere = {name for roll in rolls for name, move in roll.moves.items() if any(move[:-1])}
    along = gathered_rows(body)
    rows = _rows({at for name, (at, _) in reads.items() if name not in elsewhere} | along, sources)
    labels = _labels(rows, sources, {assign.name for assign in body})
    storage = dict(kernel.fields) | {n: d for n, d, _ in kernel.coefficients}
    loads = {name: source.load for name, source in sources.items()}
    windows = WindowLoops(expressions, storage, names, reach, loads)
    control = Control(
        expressions, windows, storage, names, reach, [] if places is None else places,
        {row: labels[row] for row in along}, column,
    )  # fmt: skip
    place = "j" if every == 1 else "q0"
    expressions.tables.fetched = {}
    once: list[str] = []
    ends = 0
    before_last: list[str] = []
    held_type = ""
    for roll in rolls:
        front = [
            f"{own} = {expressions.tables.listed(expressions.types[own], map(_real, numbers))}[p0]"
            for own, numbers in roll.tables.items()
        ]
        lines = [f"{held} = o0[{place}]"] if held else []
        if roll.piece.before:
            # Pieces of one form end with values of one type.
            expressions.types[roll.piece.before] = held_type
            lines.append(f"{roll.piece.before} = o0[j]")
        for number, assign in enumerate(roll.piece.body):
            if number == tail[0]:
                ends = len(lines)
            target, expr = assign.name, assign.value
            match expr:
                case Read():
                    source, (read, step) = sources[expr.field], reads[target]
                    expressions.types[target] = source.machine
                    further = _further(roll, target, -1)
                    row = labels.get(read, "")
                    if target in elsewhere:
                        row = f"{target}_row0"
                        front.append(f"{row} = {_row(target, expr, source.name, reach, roll)}")
                    if source.constant:
                        once.append(f"{target} = {row}[0]")
                        continue
                    element = f"{row}[{plus(place if source.parts else 'j', step)}{further}]"
                    lines.append(f"{target} = {windows.loaded(expr.field, element)}")
                case Element() if roll.count > 1:
                    expressions.types[target] = computed(storage[expr.array]).name
                    index = [f"{at}{_further(roll, target, k)}" for k, at in enumerate(expr.index)]
                    front.append(f"{target} = {names[expr.array]}[{', '.join(index)}]")
                case Tap() | Weight() | Coefficient():
                    raise AssertionError(expr)
                case _:
                    lines += control.lines(target, expr)
        if roll is not rolls[-1]:
            held_type = expressions.types[roll.piece.result]
            before_last += _over_row(roll, front, [*lines, f"o0[j] = {roll.piece.result}"])
    atoms = [expressions.atom(value) for value in values]
    stored = [
        f"{store}({one})" if store else one
        for one, store in zip_longest(atoms, stores, fillvalue="")
    ]
    storing = [f"o{k}[{place}] = {one}" for k, one in enumerate(stored)]
    loops = bool(elsewhere)
    loops |= any(isinstance(a.value, Reduce) or in_other_rows(a.value) for a in within(body))
    others = _others(body, values, kernel)
    if control.looks:
        others = (*others, NOTES)
        once.append(f"turns = {EACH}")
    arguments = [labels[row] for row in rows]
    if loops:
        arguments += [names[n] for n, _ in kernel.fields]
        places = ["b", *(f"i{a}" for a in range(kernel.ndim - 2)), "i"]
        arguments += places[: kernel.ndim]
        arguments += [buffer for buffer, _, _ in windows.buffers]
    arguments += [f"o{k}" for k in range(len(values))] + ["n"]
    arguments += [names[n] for n in others]
    once = [*expressions.tables.fetched.values(), *once]
    text = [f"def {name}({', '.join(arguments)}):", *("    " + line for line in once)]
    text += ["    " + line for line in before_last]
    if every > 1:
        text += ["    for q0 in range(n):", f"        j = {every} * q0"]
        text += ["        " + line for line in (*lines, *storing)]
    else:
        text += ["    " + line for line in _over_row(rolls[-1], front, [*lines, *storing])]
    if tail[1]:
        # What all values need there may lie outside of what is given.
        text += ["    q0 = n", f"    j = {every} * q0"]
        text += ["    " + line for line in (*lines[:ends], *storing[: tail[1]])]
    machines = [sources[field].machine for field, *_ in rows]
    machines += [expressions.types[v.name] for v in values if isinstance(v, Ref)]
    overlap = _overlap(body, max((np.dtype(one).itemsize for one in machines), default=1))
    noalias = _promised(reads.values(), len(rows), every)
    # One result is left to be compared with the rows, which keeps LLVM unsure of these.
    apart = () if noalias else tuple(f"o{k}" for k in range(len(values) - 1))
    return RowFunction(
        name, tuple(text), tuple(windows.constants), tuple(rows), others,
        tuple(windows.buffers), loops, noalias, apart,
        () if held or loops or control.looks or every > 1 else overlap,
    )  # fmt: skip


def _movable(source: Source, kernel: Kernel, name: str) -> bool:
    """Whether rows of a source can be told by their number: those of a field that is an array."""
    own = dict(kernel.fields)
    return name in own and not source.constant and not source.load and kernel.ndim > 1


def _real(constant: Const) -> float:
    """The number that a float is."""
    assert isinstance(constant.value, float), constant
    return constant.value


def _further(roll: Roll, name: str, axis: int) -> str:
    """How much further a read is in each turn of a loop over pieces."""
    step = roll.moves[name][axis] if name in roll.moves else 0
    return "" if not step else f" {'+' if step > 0 else '-'} {abs(step)} * p0"


def _row(name: str, read: Read, array: str, reach: Box, roll: Roll) -> str:
    """The row of a field that a turn of a loop over pieces reads."""
    indices = [*(f"i{axis}" for axis in range(len(read.offset) - 2)), "i"]
    steps = [at - low for at, low in zip(read.offset, reach.lo, strict=True)]
    places = [
        plus(index, step) + _further(roll, name, axis)
        for axis, (index, step) in enumerate(zip(indices, steps, strict=False))
    ]
    return f"row({array}, {as_tuple(['b', *places])})"


def _over_row(roll: Roll, front: Sequence[str], lines: Sequence[str]) -> list[str]:
    """A loop over the row; for pieces that do the same, one in a loop over these."""
    made = ["for j in range(n):", *("    " + line for line in lines)]
    if roll.count == 1:
        return made
    return [f"for p0 in range({roll.count}):", *("    " + line for line in (*front, *made))]


def _cuttable(values: tuple[Atom, ...], held: str, every: int) -> bool:
    """Whether a row may hold what was made so far of its one value."""
    return len(values) == 1 and isinstance(values[0], Ref) and not held and every == 1


def _overlap(body: tuple[Assign, ...], widest: int) -> tuple[int, ...]:
    """How many columns are computed by themselves at the end, and how many must be left for it.

    `widest` is the size of the widest element that is loaded or stored.
    """
    columns = VECTOR if widest <= 2 else VECTOR // 2
    least = math.ceil(LEFT / max(1, sum(operation(assign.value) for assign in body)))
    return (columns, least) if least < columns and all(map(_in_vectors, body)) else ()


def _in_vectors(assign: Assign) -> bool:
    """Whether LLVM surely computes an operation in vectors: else more columns are more work."""
    match assign.value:
        case Binary(dtype=dtype, op=op):
            known = op in _VECTORS or op in COMPARISONS or (op == "/" and dtype.is_float)
            return known and not dtype.is_complex
        case Cast(dtype=dtype, arg=arg):
            return dtype.is_float or not arg.dtype.is_float
        case Read() | Unary() | Select():
            return True
        case _:
            return False


def _promised(places: Collection[tuple[Row, int]], rows: int, every: int) -> bool:
    """Whether to promise LLVM that the rows do not overlap the results."""
    # What a turn reads of a row that no other turn reads: with steps several columns may be.
    apart = {(row, step % every) for row, step in places}
    return len(apart) == len(places) or rows > POINTER_CHECKS


def _places(
    body: tuple[Assign, ...], sources: dict[str, Source], column: int, every: int
) -> dict[str, tuple[Row, int]]:
    """Where each read of a body looks: in which row, and how far from the place there."""
    found = {}
    for assign in body:
        read = assign.value
        if isinstance(read, Read):
            source = sources[read.field]
            step, part = column + read.offset[-1] - source.column, 0
            if source.parts:
                step, rest = divmod(step, every)
                part = source.parts.index(rest)
            found[assign.name] = (read.field, read.offset[:-1], part), step
    return found


def _rows(found: Collection[Row], sources: dict[str, Source]) -> list[Row]:
    order = list(sources)
    return sorted(found, key=lambda row: (order.index(row[0]), *row[1:]))


def _labels(rows: list[Row], sources: dict[str, Source], taken: set[str]) -> dict[Row, str]:
    """The names of the rows, which no operation has: those of a stage `__` begin so as well."""
    labels: dict[Row, str] = {}
    for k, row in enumerate(rows):
        name = sources[row[0]].name
        while f"{name}_{k}" in taken:
            name += "_"
        labels[row] = f"{name}_{k}"
        taken = taken | {labels[row]}
    return labels


def _others(body: tuple[Assign, ...], values: tuple[Atom, ...], kernel: Kernel) -> tuple[str, ...]:
    """The scalars and coefficients that a body uses."""
    used = {a.name for assign in body for a in atoms(assign.value) if isinstance(a, Ref)}
    used |= {value.name for value in values if isinstance(value, Ref)}
    for assign in within(body):
        inner = assign.value.body if isinstance(assign.value, Reduce) else ()
        for one in (assign, *inner):
            if isinstance(one.value, Element | Coefficient):
                used.add(one.value.array)
    known = [n for n, *_ in kernel.coefficients] + [n for n, _ in kernel.scalars]
    return tuple(n for n in known if n in used)
