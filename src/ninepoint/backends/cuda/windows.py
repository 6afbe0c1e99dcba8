"""Loops over a window, at one point: for what is neither staged nor written out.

median of x over 31 x 31   ->   for (int bit = 7; bit >= 0; bit--)
                                  for (int d0 = 0; d0 < 31; d0++)
                                    for (int d1 = 0; d1 < 31; d1++)
                                      below += x[i0 + d0][i1 + d1] < trial; ...

Floats are added in the order of the CPU's loops.  An element of some rank is found bit by bit: a
thread has no memory for all elements of a window, but can count those below a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...analysis.footprint import zero_product
from ...analysis.ranges import Interval, window_ranges
from ...language.ir import (
    RANKED,
    Assign,
    Binary,
    Coefficient,
    Const,
    Expr,
    Offset,
    Reduce,
    Tap,
    Weight,
)
from ...lowering.looping import PIECE, bounds_inside, live, total_type
from ...lowering.ranks import quantile_position
from ...lowering.typed import Apply, Given, Node, To
from .functions import Array, flat, loaded
from .operations import C_TYPES, Operations, cast, number


class Point(Protocol):
    """What a loop needs of the function that it stands in."""

    operations: Operations
    storage: dict[str, Interval]
    sources: Mapping[str, Array]

    def fresh(self, name: str = "") -> str:
        """A name that nothing else has; that of a value, if there is one."""

    def read(self, field: str, offset: Offset, along: Mapping[int, str]) -> tuple[list[str], str]:
        """An element of a field, moved along axes, and the lines that come before it."""

    def element(self, array: str, machine: str, places: Sequence[str]) -> str:
        """An element of a coefficient array, as a value of a machine type."""

    def table(self, machine: str, texts: Sequence[str]) -> str:
        """The name of an array of constants."""


@dataclass(frozen=True)
class Window:
    """The loops of one window."""

    point: Point
    name: str
    reduce: Reduce

    @property
    def _operations(self) -> Operations:
        return self.point.operations

    @property
    def _known(self) -> dict[str, Interval]:
        return self._operations.known

    @property
    def _count(self) -> int:
        return math.prod(self.reduce.shape)

    def lines(self) -> list[str]:
        """The lines that give the window's value its name."""
        reduce, name = self.reduce, self.name
        own = self._operations.declare(name, reduce)
        items = window_ranges(reduce, self._known, self.point.storage)
        joined = items[0]
        for item in items[1:]:
            joined = joined | item
        self._known.update(bounds_inside(reduce, self._known, self.point.storage))
        inner = self._inner()
        target = self.point.fresh(name)
        if reduce.kind == "var":
            return self._variance(target, own, inner)
        if reduce.kind == "quantile":
            return self._quantile(target, own, inner, joined)
        if reduce.kind in RANKED:
            return self._of_valid(target, own, inner, joined)
        start, step, finish = self._accumulation(target, own, joined)
        return [*start, *self._loops([*inner, *step]), *finish]

    # Elements.

    def _loops(self, inner: Sequence[str]) -> list[str]:
        return over(self.reduce.shape, inner)

    def _inner(self) -> list[str]:
        """The lines of one element."""
        values = {a.name: a.value for a in self.reduce.body}
        there = self._live()
        return [line for a in self.reduce.body for line in self._inside(a, values, there)]

    def _place(self) -> str:
        """The index in the window, in C order."""
        shape = self.reduce.shape
        return flat([f"d{axis}" for axis in range(len(shape))], shape)

    def _live(self) -> str:
        """Whether the element here matters, where constant weights hold zeros."""
        found = live(self.reduce)
        if not found:
            return ""
        table = self.point.table("uint8", [str(int(one)) for one in found])
        return f"{table}[{self._place()}] != 0"

    def _inside(self, assign: Assign, values: dict[str, Expr], there: str) -> list[str]:
        name, expr = assign.name, assign.value
        operations, lines = self._operations, list[str]()
        match expr:
            case Tap():
                own = operations.declare(name, expr)
                places = self._places(expr)
                along = dict(zip(expr.axes, places, strict=True))
                lines, text = self.point.read(expr.field, expr.origin, along)
                text = loaded(own, self.point.sources[expr.field].dtype, text)
                if there:
                    text = f"{there} ? ({text}) : {number(own, 0)}"
            case Weight():
                own = operations.declare(name, expr)
                constants = [Const(expr.dtype, text).value for text in expr.texts]
                table = self.point.table(own, [number(own, value) for value in constants])
                text = f"{table}[{self._place()}]"
            case Coefficient():
                own = operations.declare(name, expr)
                text = self.point.element(expr.array, own, self._places(expr))
            case _:
                text = operations.text(name, expr)
                own = operations.types[name]
                product = isinstance(expr, Binary) and expr.op == "*"
                if product and any(zero_product(expr, values, k) for k in range(self._count)):
                    text = f"{there} ? ({text}) : {number(own, 0)}"
        return [*lines, f"const {C_TYPES[own]} {self.point.fresh(name)} = {text};"]

    def _places(self, expr: Tap | Coefficient) -> list[str]:
        """The index in the window, which tables say where elements are picked."""
        if not expr.picked:
            return [f"d{axis}" for axis in range(len(self.reduce.shape))]
        axes = zip(*expr.picked, strict=True)
        return [f"{self.point.table('int32', list(map(str, axis)))}[d0]" for axis in axes]

    # Reductions.

    def _result(self, machine: str) -> Node:
        return self._operations.operand(self.reduce.result, machine)

    def _accumulation(
        self, name: str, own: str, item: Interval
    ) -> tuple[list[str], list[str], list[str]]:
        """What stands before, inside and after the loop over a window."""
        kind, operations = self.reduce.kind, self._operations
        machine = operations.machine(self.reduce.result)
        result = operations.atom(self.reduce.result)
        c = C_TYPES[own]
        match kind:
            case "sum" | "prod":
                first, op = (0, "+") if kind == "sum" else (1, "*")
                step = self._step(own, op)
                return [f"{c} {name} = {number(own, first)};"], [f"{name} = {step};"], []
            case "any" | "all":
                op, start_with = ("|", "false") if kind == "any" else ("&", "true")
                step = f"{name} = {name} {op} ({result});"
                return [f"bool {name} = {start_with};"], [step], []
            case "mean":
                total = total_type(self.reduce, item, operations.least)
                if total == own:
                    start, target = [f"{c} {name} = {number(own, 0)};"], name
                    finish = [f"{name} = {name} / {number(own, self._count)};"]
                else:
                    target = self.point.fresh()
                    start = [f"{C_TYPES[total]} {target} = {number(total, 0)};"]
                    top = cast(own, target)
                    finish = [f"const {c} {name} = {top} / {number(own, self._count)};"]
                return start, [f"{target} = {self._step(total, '+', target)};"], finish
            case "min" | "max":
                op = "<" if kind == "min" else ">"
                best = name if machine == own else self.point.fresh()
                test = f"{result} {op} {best}"
                if item.nan:
                    test = f"({test}) | ({result} != {result})"
                start = [f"{C_TYPES[machine]} {best} = {_extreme(kind, machine)};"]
                # The range may allow the other sign, where an element is dropped.
                finish = [] if best == name else [f"const {c} {name} = {cast(own, best)};"]
                return start, [f"{best} = {test} ? {result} : {best};"], finish
            case "argmin" | "argmax":
                best, better = self.point.fresh(), self.point.fresh()
                op = "<" if kind == "argmin" else ">"
                first_of_all = f"({self._place()} == 0)"
                test = f"({result} {op} {best}) | {first_of_all}"
                if item.nan:
                    # The first NaN is taken, and nothing after it.
                    strange = f"({result} != {result})"
                    test = f"(({test}) | {strange}) & (({best} == {best}) | {first_of_all})"
                return (
                    [
                        f"{c} {name} = {number(own, 0)};",
                        f"{C_TYPES[machine]} {best} = {_extreme('min', machine)};",
                    ],
                    [
                        f"const bool {better} = {test};",
                        f"{best} = {better} ? {result} : {best};",
                        f"{name} = {better} ? {cast(own, self._place())} : {name};",
                    ],
                    [],
                )
            case _:
                raise AssertionError(kind)

    def _step(self, machine: str, op: str, target: str = "") -> str:
        """The sum or the product so far, and one more element."""
        operations = self._operations
        held = operations.names.get(self.name, "")
        operations.names[self.name], operations.types[self.name] = target or held, machine
        step = Apply(op, (Given(self.name), self._result(machine)))
        text = operations.node(To(machine, step) if "int" in machine else step)
        operations.names[self.name] = held
        operations.declare(self.name, self.reduce)
        return text

    def _variance(self, name: str, own: str, inner: list[str]) -> list[str]:
        """As on the CPU: the mean, squares about it, less what the mean's rounding adds."""
        mean, apart, rest, squares = (self.point.fresh() for _ in range(4))
        result = self._operations.atom(self.reduce.result, "float64")
        count = number("float64", float(self._count))
        divisor = number("float64", max(0.0, self._count - self.reduce.quantile))
        terms = [f"const double {apart} = {result} - {mean};"]
        kept = f"({squares} < 0.0 ? 0.0 : {squares}) / {divisor}"
        return [
            *self._added(inner, {mean: result}),
            f"{mean} = {mean} / {count};",
            *self._added([*inner, *terms], {rest: apart, squares: f"{apart} * {apart}"}),
            f"{squares} = {squares} - {rest} * {rest} / {count};",
            # Where all elements are equal, rounding alone is left, which may be below 0.
            f"const {C_TYPES[own]} {name} = {cast(own, kept)};",
        ]

    def _added(self, inner: list[str], sums: dict[str, str]) -> list[str]:
        """Add terms over the window, short pieces of its last axis first."""
        shape = self.reduce.shape
        last, length = len(shape) - 1, shape[-1]
        lines = {name: self.point.fresh() for name in sums}
        first, end = "0", str(length)
        if length > 2 * PIECE:
            first, end = "p", f"(p + {PIECE} < {length} ? p + {PIECE} : {length})"
        body = [f"double {line} = 0.0;" for line in lines.values()]
        body += [f"for (int d{last} = {first}; d{last} < {end}; d{last}++) {{"]
        body += ["  " + line for line in inner]
        body += [f"  {lines[n]} = {lines[n]} + {term};" for n, term in sums.items()]
        body += ["}", *(f"{name} = {name} + {line};" for name, line in lines.items())]
        if length > 2 * PIECE:
            body = _loop(f"for (int p = 0; p < {length}; p += {PIECE})", body)
        for axis in reversed(range(last)):
            body = _loop(f"for (int d{axis} = 0; d{axis} < {shape[axis]}; d{axis}++)", body)
        return [*(f"double {name} = 0.0;" for name in sums), *body]

    def _quantile(self, name: str, own: str, inner: list[str], item: Interval) -> list[str]:
        low, fraction = quantile_position(self._count, self.reduce.quantile)
        machine = self._operations.machine(self.reduce.result)
        result = self._operations.atom(self.reduce.result)
        found = Ranks(self.point, machine, result, item)
        lines, names = found.lines(self._loops, inner, low, 2 if fraction else 1)
        first = cast(own, names[0]) if machine != own else names[0]
        if fraction:
            last = cast(own, names[1]) if machine != own else names[1]
            if fraction == 0.5:
                first = f"({first} + {last}) / {number(own, 2.0)}"
            elif fraction < 0.5:
                first = f"{first} + ({last} - {first}) * {number(own, fraction)}"
            else:
                first = f"{last} - ({last} - {first}) * {number(own, 1 - fraction)}"
        if item.nan:
            strange = self.point.fresh()
            test = f"{strange} = {strange} | ({result} != {result});"
            lines += [f"bool {strange} = false;", *self._loops([*inner, test])]
            first = f"{strange} ? {number(own, math.nan)} : {first}"
        return [*lines, f"const {C_TYPES[own]} {name} = {first};"]

    def _of_valid(self, name: str, own: str, inner: list[str], item: Interval) -> list[str]:
        """The same of what is no NaN, which is counted first."""
        count, low, part = (self.point.fresh() for _ in range(3))
        machine = self._operations.machine(self.reduce.result)
        result = self._operations.atom(self.reduce.result)
        lines = [
            f"int {count} = 0;",
            *self._loops([*inner, f"{count} += ({result} == {result});"]),
        ]
        where = number("float64", self.reduce.quantile)
        if self.reduce.kind == "nanrank":
            place = f"int({count} * {where} / 100.0)"
            last = f"{count} - ({count} > 0)"
            lines.append(f"const int {low} = {place} < {count} ? {place} : {last};")
        else:
            lines += [
                f"double {part} = {where} * ({count} - ({count} > 0));",
                f"const int {low} = int({part});",
                f"{part} = {part} - {low};",
            ]
        filled = f"({result} == {result} ? {result} : {number(machine, math.inf)})"
        ranks = Ranks(self.point, machine, filled, item)
        wanted = 1 if self.reduce.kind == "nanrank" else 2
        more, names = ranks.lines(self._loops, inner, low, wanted)
        first, *last_one = (cast(own, n) if machine != own else n for n in names)
        for last in last_one:
            step = f"({last} - {first})"
            less = cast(own, f"(1.0 - {part})") if own != "float64" else f"(1.0 - {part})"
            near = cast(own, part) if own != "float64" else part
            first = (
                f"{part} == 0.0 ? {first} : {part} == 0.5 ? ({first} + {last}) / "
                f"{number(own, 2.0)} : {part} < 0.5 ? {first} + {step} * {near} : "
                f"{last} - {step} * {less}"
            )
        none = number(own, math.nan)
        return [*lines, *more, f"const {C_TYPES[own]} {name} = {count} ? ({first}) : {none};"]


@dataclass(frozen=True)
class Ranks:
    """The elements of some rank, found bit by bit by counting those below a number."""

    point: Point
    machine: str
    element: str
    values: Interval

    def lines(
        self,
        loops: Callable[[Sequence[str]], list[str]],
        inner: Sequence[str],
        rank: int | str,
        wanted: int,
    ) -> tuple[list[str], list[str]]:
        """The lines, and the names that `wanted` elements from `rank` on then have."""
        key, trial, below = (self.point.fresh() for _ in range(3))
        lines = [
            f"{self._c} {key} = 0;",
            f"for (int bit = {self._bits - 1}; bit >= 0; bit--) {{",
            f"  const {self._c} {trial} = {key} | {self._c}(1) << bit;",
            f"  int {below} = 0;",
            *("  " + s for s in loops([*inner, f"{below} += {self._key} < {trial};"])),
            f"  if ({below} <= {rank}) {key} = {trial};",
            "}",
        ]
        keys = [key]
        after = rank + 1 if isinstance(rank, int) else f"{rank} + 1"
        if wanted > 1:
            above, upto, one = (self.point.fresh() for _ in range(3))
            lines += [
                f"int {upto} = 0;",
                f"{self._c} {above} = ~{self._c}(0);",
                *loops(
                    [
                        *inner,
                        f"const {self._c} {one} = {self._key};",
                        f"{upto} += {one} <= {key};",
                        f"{above} = {one} > {key} && {one} < {above} ? {one} : {above};",
                    ]
                ),
                f"if ({upto} > {after}) {above} = {key};",
            ]
            keys.append(above)
        names = [self.point.fresh() for _ in keys]
        for name, one in zip(names, keys, strict=True):
            lines.append(f"const {C_TYPES[self.machine]} {name} = {self._value(one)};")
        return lines, names

    @property
    def _floats(self) -> bool:
        return self.machine.startswith("float")

    @property
    def _unsigned(self) -> str:
        return f"uint{max(32, np.dtype(self.machine).itemsize * 8)}"

    @property
    def _c(self) -> str:
        return C_TYPES[self._unsigned]

    @property
    def _bits(self) -> int:
        if self._floats:
            return np.dtype(self.machine).itemsize * 8
        return (int(self.values.high) - int(self.values.low)).bit_length()

    @property
    def _key(self) -> str:
        """An element as a number that is not negative, in the same order."""
        if self._floats:
            return f"npt_key({self.element})"
        low = int(self.values.low)
        text = cast(self._unsigned, self.element)
        return text if not low else f"{text} - {number(self._unsigned, low)}"

    def _value(self, key: str) -> str:
        if self._floats:
            return f"npt_keyed({key})"
        low = int(self.values.low)
        text = key if not low else f"{key} + {number(self._unsigned, low)}"
        return cast(self.machine, text)


def over(shape: Sequence[int], inner: Sequence[str]) -> list[str]:
    """Loops over every index d0, d1, ... of a window, in C order."""
    lines = list(inner)
    for axis in reversed(range(len(shape))):
        lines = _loop(f"for (int d{axis} = 0; d{axis} < {shape[axis]}; d{axis}++)", lines)
    return lines


def _loop(head: str, body: Sequence[str]) -> list[str]:
    return [f"{head} {{", *("  " + line for line in body), "}"]


def _extreme(kind: str, machine: str) -> str:
    """What every element replaces."""
    if machine == "bool":
        return "true" if kind == "min" else "false"
    if machine.startswith("float"):
        return number(machine, math.inf if kind == "min" else -math.inf)
    info = np.iinfo(machine)
    return number(machine, info.max if kind == "min" else info.min)
