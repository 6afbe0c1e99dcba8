"""Loops: the text of a module that computes a kernel at every point of a block.

    def band_rows(x_0, x_1, x_2, o0, n):          # one row: this is what LLVM vectorises
        for j in range(n): ...

    def band(x, out0):                            # (stack, rows + 2, columns + 2)
        for b in range(out0.shape[0]):
            for i0 in range(out0.shape[1]):
                band_rows(row(x, (b, i0)), row(x, (b, i0 + 1)), ..., row(out0, (b, i0)), n)

A stage has a function of its own, and a buffer that holds as many of its rows as are read at
once; row i of the result is made right after the last row of each stage that it needs.  The
block holds every neighbour of every point: borders are somebody else's.  Offsets are counted
from the lowest, so that no index is ever negative.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..analysis.ranges import Interval, ranges
from ..language.box import Box
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    Kernel,
    Offset,
    Read,
    Ref,
    Stage,
    renamed,
)
from .abreast import abreast
from .expressions import SHORT, Expressions
from .histograms import histogram_function
from .machine import machine_type
from .rows import RowFunction, Source, row_function
from .window_loops import plus

SUPPORT = [
    "row",
    "row_function",
    "padded",
    "integer_divide",
    "integer_modulo",
    "integer_power",
    "shift_left",
    "shift_right",
    "floor_divide",
    "remainder",
    "saturate",
    "saturate_wide",
    "exp_float32",
    "exp_float64",
    "select",
    "nan",
    "inf",
    *SHORT.values(),
]
_RESERVED = frozenset(
    {*SUPPORT, "np", "math", "band", "b", "i", "j", "n", "range", *keyword.kwlist}
)

# A name that is not an attribute.
_NAME = re.compile(r"(?<![\w.])\w+")

# Rows of a buffer are so many bytes longer than they need be, and never a multiple of 4096
# bytes apart: rows that far apart fall into the same cache sets (up to 2x, Zen 4).
_PAD = 64


@dataclass(frozen=True, slots=True)
class Module:
    """Generated text with one function `band`, and the order of its arguments.

    `warm` is how many rows of stages are made before the first row of the result; where it
    is 0, a row costs the same whether it is the first or the hundredth.  `kept` is how many
    bytes of stages are kept for each column.
    """

    text: str
    fields: tuple[str, ...]
    outputs: int
    coefficients: tuple[str, ...]
    scalars: tuple[str, ...]
    warm: int = 0
    kept: int = 0


def heading(title: str, text: str, module: str, names: Sequence[str]) -> list[str]:
    """The first lines of a generated module: imports of what `text` uses.

    `names` are those that it may use of `module`.
    """
    used = set(_NAME.findall(text))
    lines = [f'"""{title}"""', ""]
    if "math" in used:
        lines += ["import math", ""]
    if "np" in used:
        lines += ["import numpy as np", ""]
    listed = ",\n    ".join(name for name in names if name in used)
    return [*lines, f"from ninepoint.backends.{module} import (\n    {listed},\n)", ""]


def safe_names(names: tuple[str, ...]) -> dict[str, str]:
    """Names that clash with nothing in the generated text."""
    found: dict[str, str] = {}
    for name in names:
        new = name
        # Names of ours end in a digit: t0, w1, x_0, ...
        while new in _RESERVED or new[-1].isdigit() or new in found.values():
            new += "_"
        found[name] = new
    return found


def module(kernel: Kernel, title: str, reach: Box, *, fastmath: bool = False) -> Module:
    """Write the loops of a kernel, whose outputs are already in their storage types."""
    return _Writer(kernel, reach).module(title, fastmath)


def rows_kept(kernel: Kernel) -> dict[str, int]:
    """How many rows of each stage are kept."""
    return {name: one.rows for one in _kept_of(kernel) for name in one.stage.names}


def needs(kernel: Kernel) -> dict[str, tuple[Offset, Offset]]:
    """The first and the last row and column at which each stage is needed for a point."""
    return {name: (one.low, one.high) for one in _kept_of(kernel) for name in one.stage.names}


def _kept_of(kernel: Kernel) -> tuple[_Kept, ...]:
    return _Writer(kernel, Box((0,) * kernel.ndim, (0,) * kernel.ndim)).kept


@dataclass(frozen=True, slots=True)
class _Kept:
    """A stage's rows: at which rows and columns it is needed, and how many it keeps.

    Row i of the result is made in the same turn as row i + `high` of the stage, so that only
    the rows which a reader of that turn looks at are kept.
    """

    stage: Stage
    low: Offset
    high: Offset
    rows: int

    @property
    def warm(self) -> int:
        """How many rows are made before the first row of the result."""
        return max(self.high[0] - self.low[0], self.stage.running - 1)

    @property
    def wider(self) -> int:
        """How many more columns than the result it has."""
        return self.high[1] - self.low[1]


class _Writer:
    def __init__(self, kernel: Kernel, reach: Box) -> None:
        self.kernel = kernel
        self.reach = reach
        self.known: dict[str, Interval] = ranges(kernel)
        names = [n for n, _ in kernel.fields] + [n for n, _ in kernel.scalars]
        names += [n for n, _, _ in kernel.coefficients]
        self.names = safe_names(tuple(names))
        types = {n: machine_type(d, self.known[n]) for n, d in kernel.scalars}
        self.expressions = Expressions(self.known, types)
        self.kept = self._kept()
        self.by_name = {name: kept for kept in self.kept for name in kept.stage.names}

    def module(self, title: str, fastmath: bool) -> Module:
        kernel = self.kernel
        outs = [f"out{k}" for k in range(len(kernel.outputs))]
        final = self._function("band_row", kernel.body, kernel.outputs, 0)
        several = self._several()
        written: dict[tuple[str, ...], RowFunction] = {}
        functions = [
            tuple(_once(function, written) for function in self._stage_functions(kept))
            for kept in self.kept
        ]
        final = _once(final, written)
        if several is not None:
            several = _once(several, written)
        fields = tuple(n for n, _ in kernel.fields)
        coefficients = tuple(n for n, *_ in kernel.coefficients)
        scalars = tuple(n for n, _ in kernel.scalars)
        arguments = [
            *(self.names[n] for n in fields),
            *outs,
            *(self.names[n] for n in (*coefficients, *scalars)),
        ]
        lines: list[str] = []
        for function in written.values():
            options = ["noalias=True"] * function.noalias + ["fastmath=True"] * fastmath
            if function.apart:
                options.append("apart=" + _tuple([f'"{name}"' for name in function.apart]))
            decorator = f"@row_function({', '.join(options)})"
            constants = ["", "", *function.constants] if function.constants else []
            lines += [*constants, "", "", decorator, *function.lines]
        lines += ["", "", f"def band({', '.join(arguments)}):"]
        lines += ["    " + line for line in self._band(functions, final, several, outs)]
        text = "\n".join(lines[1:]) + "\n"
        title += ": written by ninepoint; changes made here are lost."
        text = "\n".join([*heading(title, text, "support", SUPPORT), text])
        rows = sum(
            kept.rows * self._item_size(name) for kept in self.kept for name in kept.stage.names
        )
        return Module(text, fields, len(outs), coefficients, scalars, self.warm, rows)

    @property
    def warm(self) -> int:
        return max((kept.warm for kept in self.kept), default=0)

    # What each stage keeps.

    def _kept(self) -> tuple[_Kept, ...]:
        """The rows and columns at which each stage is needed, the last stage first."""
        need: dict[str, tuple[Offset, Offset]] = {}

        def visit(body: tuple[Assign, ...], low: Offset, high: Offset) -> None:
            for assign in body:
                if not isinstance(assign.value, Read) or assign.value.field not in staged:
                    continue
                at = _last_two(assign.value.offset)
                first = (low[0] + at[0], low[1] + at[1])
                last = (high[0] + at[0], high[1] + at[1])
                known = need.get(assign.value.field, (first, last))
                need[assign.value.field] = (
                    (min(known[0][0], first[0]), min(known[0][1], first[1])),
                    (max(known[1][0], last[0]), max(known[1][1], last[1])),
                )

        staged = {name for stage in self.kernel.stages for name in stage.names}
        visit(self.kernel.body, (0, 0), (0, 0))
        found: list[_Kept] = []
        for stage in reversed(self.kernel.stages):
            boxes = [need[name] for name in stage.names if name in need]
            if not boxes:
                continue  # nothing reads it
            low = (min(b[0][0] for b in boxes), min(b[0][1] for b in boxes))
            high = (max(b[1][0] for b in boxes), max(b[1][1] for b in boxes))
            found.append(_Kept(stage, low, high, 1))
            if stage.running:
                # It takes away the row before its own, and adds the last of its rows.
                assert low[0] == high[0]
                low = (low[0] - 1, low[1])
                high = (high[0] + stage.running - 1, high[1])
            visit(stage.body, low, high)
        return tuple(replace(one, rows=self._rows(one, found)) for one in reversed(found))

    def _rows(self, kept: _Kept, others: list[_Kept]) -> int:
        """How many rows of a stage are read in one turn, from the last one back."""
        lowest = kept.high[0]
        readers = [(0, self.kernel.body)]
        readers += [(o.high[0] - (o.stage.running > 0), o.stage.body) for o in others]
        for row, body in readers:
            for assign in body:
                if isinstance(assign.value, Read) and assign.value.field in kept.stage.names:
                    lowest = min(lowest, row + _last_two(assign.value.offset)[0])
        return kept.high[0] - lowest + 1

    # Functions of one row.

    def _stage_functions(self, kept: _Kept) -> tuple[RowFunction, ...]:
        """The function that makes a row; for a running sum, one that adds and one that moves."""
        stage, name = kept.stage, kept.stage.names[0]
        if stage.ranks is not None:
            storage = dict(self.kernel.fields)[stage.ranks.field]
            fields = {n: self.names[n] for n, _ in self.kernel.fields}
            wanted = len(stage.names)
            return (
                histogram_function(
                    f"{name}_row", stage.ranks, storage, fields, self.reach, kept.low[1], wanted
                ),
            )
        if not stage.running:
            return (self._function(f"{name}_row", stage.body, stage.values, kept.low[1]),)
        body, (value,) = stage.body, stage.values
        self.expressions.types[name] = self._stage_type(name)
        before = Ref(value.dtype, name)
        added = Assign(f"{name}_in", Binary(value.dtype, "+", before, value))
        self.known[added.name] = self.known[name]
        sum_in = Ref(value.dtype, added.name)
        # The row that goes: the same operations, on the row before the first.
        out = {a.name: Ref(a.value.dtype, f"{a.name}_out") for a in body}
        leaving = []
        for assign in body:
            one = renamed(assign.value, dict(out))
            if isinstance(one, Read):
                one = replace(one, offset=_moved(one.offset, -stage.running))
            leaving.append(Assign(f"{assign.name}_out", one))
            self.known[leaving[-1].name] = self.known[assign.name]
        gone = out[value.name] if isinstance(value, Ref) else value
        taken = Assign(f"{name}_next", Binary(value.dtype, "-", sum_in, gone))
        self.known[taken.name] = self.known[name]
        column = kept.low[1]
        return (
            self._function(f"{name}_add", (*body, added), (sum_in,), column, name),
            self._function(
                f"{name}_move",
                (*body, *leaving, added, taken),
                (Ref(value.dtype, taken.name),),
                column,
                name,
            ),
        )

    def _several(self) -> RowFunction | None:
        """The function that makes several rows of the result at once."""
        if self.kernel.rows == 1:
            return None
        written = abreast(self.kernel)
        self.known |= ranges(written)
        return self._function("band_rows", written.body, written.outputs, 0)

    def _function(
        self,
        name: str,
        body: tuple[Assign, ...],
        values: tuple[Atom, ...],
        column: int,
        held: str = "",
    ) -> RowFunction:
        sources = {
            n: Source(self.names[n], d.name if d != "float16" else "float32", self.reach.lo[-1])
            for n, d in self.kernel.fields
        }
        sources |= {
            n: Source(n, self._stage_type(n), kept.low[1]) for n, kept in self.by_name.items()
        }
        return row_function(
            name, body, values, column, sources, self.kernel, self.names, self.expressions,
            self.reach, held,
        )  # fmt: skip

    def _stage_type(self, name: str) -> str:
        stage = self.by_name[name].stage
        value = stage.values[stage.names.index(name)]
        return machine_type(value.dtype, self.known[name])

    # The loops over rows.

    def _band(
        self,
        functions: list[tuple[RowFunction, ...]],
        final: RowFunction,
        several: RowFunction | None,
        outs: list[str],
    ) -> list[str]:
        outer = [f"i{axis}" for axis in range(self.kernel.ndim - 2)]
        lines = ["n = out0.shape[out0.ndim - 1]"]
        for kept in self.kept:
            for name in kept.stage.names:
                width = f"padded(n + {kept.wider}, {self._item_size(name)})"
                lines.append(
                    f"{name} = np.empty(({kept.rows}, {width}), dtype=np.{self._stage_type(name)})"
                )
        for function in (*(one for group in functions for one in group), final):
            for buffer, count, machine in function.buffers:
                lines.append(f"{buffer} = np.empty({count}, dtype=np.{machine})")
        lines.append("for b in range(out0.shape[0]):")
        depth = 1
        for axis, index in enumerate(outer):
            lines.append("    " * depth + f"for {index} in range(out0.shape[{axis + 1}]):")
            depth += 1
        if several is not None:
            return lines + [
                "    " * depth + line for line in self._together(several, final, outs, outer)
            ]
        if self.kernel.ndim > 1:
            start = f"{-self.warm}, " if self.warm else ""
            lines.append("    " * depth + f"for i in range({start}out0.shape[{len(outer) + 1}]):")
            depth += 1
        made = self._turn(functions, final, outs, outer)
        return lines + ["    " * depth + line for line in made]

    def _together(
        self, several: RowFunction, final: RowFunction, outs: list[str], outer: list[str]
    ) -> list[str]:
        """Several rows of the result at once, and what remains one by one."""
        count = self.kernel.rows
        places = [["b", *outer, plus("i", row)] for row in range(count)]
        results = [f"row({out}, {_tuple(place)})" for place in places for out in outs]
        height = f"out0.shape[{len(outer) + 1}]"
        return [
            f"for i in range(0, {height} - {count - 1}, {count}):",
            f"    {self._call(several, 0, 0, results)}",
            f"for i in range({height} - {height} % {count}, {height}):",
            f"    {self._call(final, 0, 0, results[: len(outs)])}",
        ]

    def _turn(
        self,
        functions: list[tuple[RowFunction, ...]],
        final: RowFunction,
        outs: list[str],
        outer: list[str],
    ) -> list[str]:
        """What is done for one row of the result: a row of every stage, then its own."""
        lines: list[str] = []
        guarded: int | None = None
        for kept, group in zip(self.kept, functions, strict=True):
            results = [
                f"row({name}, ({self._buffer_row(kept, kept.high[0])},))"
                for name in kept.stage.names
            ]
            last = kept.high[0] + max(0, kept.stage.running - 1)
            calls = [self._call(one, last, kept.wider, results) for one in group]
            if kept.stage.running:
                lines += self._run(kept, calls)
                guarded = None
                continue
            guarded = self._add(lines, calls[0], kept.low[0] - kept.high[0], guarded)
        place = ["b", *outer, "i"][: self.kernel.ndim]
        results = [f"row({out}, {_tuple(place)})" for out in outs]
        self._add(lines, self._call(final, 0, 0, results), 0, guarded)
        return lines

    def _run(self, kept: _Kept, calls: list[str]) -> list[str]:
        """Add rows until the sum is whole; from then on one comes and one goes."""
        (name,), first = kept.stage.names, 1 - kept.stage.running
        return [
            f"if i == {first}:",
            f"    {name}[:] = 0",
            f"if {first} <= i <= 0:",
            f"    {calls[0]}",
            "elif i > 0:",
            f"    {calls[1]}",
        ]

    def _add(self, lines: list[str], call: str, first: int, guarded: int | None) -> int | None:
        """Add a call from row `first` on; `guarded` is the row of the guard it may stand under.

        No guard is needed where the loop begins at that row.
        """
        if first == -self.warm:
            lines.append(call)
            return None
        if first != guarded:
            lines.append(f"if i >= {first}:")
        lines.append(f"    {call}")
        return first

    def _item_size(self, name: str) -> int:
        return {"bool": 1}.get(self._stage_type(name)) or _bits(self._stage_type(name)) // 8

    def _buffer_row(self, kept: _Kept, row: int) -> str:
        if kept.rows == 1:
            return "0"
        place = plus("i", row - kept.low[0])
        return f"{place} % {kept.rows}" if place == "i" else f"({place}) % {kept.rows}"

    def _call(self, function: RowFunction, row: int, wider: int, results: list[str]) -> str:
        """Call a row function for row i + `row` of what it makes."""
        ndim = self.kernel.ndim
        arguments: list[str] = []
        for source, offset in function.rows:
            kept = self.by_name.get(source)
            if kept is not None:
                at = offset[-1] if offset else 0
                arguments.append(f"row({source}, ({self._buffer_row(kept, row + at)},))")
                continue
            steps = [o - low for o, low in zip(offset, self.reach.lo[:-1], strict=True)]
            index = ["b", *(plus(f"i{a}", s) for a, s in enumerate(steps[:-1]))]
            if steps:
                index.append(plus("i", row + steps[-1]))
            arguments.append(f"row({self.names[source]}, {_tuple(index)})")
        if function.loops:
            arguments += [self.names[n] for n, _ in self.kernel.fields]
            arguments += [
                "b",
                *(f"i{a}" for a in range(ndim - 2)),
                *([plus("i", row)] if ndim > 1 else []),
            ]
            arguments += [buffer for buffer, _, _ in function.buffers]
        arguments += [*results, plus("n", wider)]
        arguments += [self.names[n] for n in function.others]
        return f"{function.name}({', '.join(arguments)})"


def _once(function: RowFunction, written: dict[tuple[str, ...], RowFunction]) -> RowFunction:
    """The function, under the name of one that does the same if there is one already.

    The same but for names: the steps of an iteration differ in nothing else.
    """
    if function.constants or function.buffers:
        written[function.lines] = function
        return function
    known: dict[str, str] = {}

    def anonymous(word: re.Match[str]) -> str:
        name = word.group()
        if name[0].isdigit() or (name in _RESERVED and name != function.name):
            return name
        return known.setdefault(name, f"_{len(known)}")

    key = tuple(_NAME.sub(anonymous, line) for line in function.lines)
    first = written.setdefault(key, function)
    return function if first is function else replace(function, name=first.name)


def _moved(offset: Offset, rows: int) -> Offset:
    return (*offset[:-2], offset[-2] + rows, offset[-1])


def _last_two(offset: Offset) -> Offset:
    return (offset[-2] if len(offset) > 1 else 0, offset[-1])


def _tuple(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _bits(machine: str) -> int:
    return int("".join(c for c in machine if c.isdigit()))
