"""Loops over a window, at one point: for what is neither staged nor written out.

median of x over 31 x 31   ->   for d0 in range(31):
                                    for d1 in range(31):
                                        buffer[at] = x[b, i0 + d0, j + d1]; ...
                                t0 = select(buffer, 961, 480)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...analysis.footprint import live
from ...analysis.ranges import Interval, machine_type, window_range
from ...language.box import Box
from ...language.dtypes import computed
from ...language.ir import (
    RANKED,
    Assign,
    Binary,
    Coefficient,
    Const,
    Offset,
    Reduce,
    Ref,
    Tap,
    Weight,
)
from ...loops.nodes import SHORT
from ...loops.operations import number
from ...lowering.ranks import quantile_position
from ...lowering.windows import PIECE, total_type
from .expressions import Expressions


@dataclass
class WindowLoops:
    """The texts of window loops; gathers the tables and buffers that they need."""

    expressions: Expressions
    storage: dict[str, np.dtype]
    names: dict[str, str]
    reach: Box
    # How floats of 16 bits that are converted where they are read are loaded, by their fields.
    loads: Mapping[str, str] = field(default_factory=dict)
    constants: list[str] = field(default_factory=list)
    buffers: dict[str, str] = field(default_factory=dict)

    def loaded(self, field: str, text: str) -> str:
        """An element of a field as it is computed with."""
        load = self.loads.get(field)
        return f"{load}({text})" if load else text

    @property
    def known(self) -> dict[str, Interval]:
        return self.expressions.known

    def lines(self, name: str, reduce: Reduce) -> list[str]:
        """A loop over the window, at this point; what is not written out comes here."""
        own = self.expressions.declare(name, reduce)
        inner = [line for a in reduce.body for line in self._inside(name, a, reduce)]
        joined = window_range(reduce, self.known)
        result = self.expressions.atom(reduce.result)
        if reduce.kind == "var":
            return _variance(name, reduce, SHORT[own], inner, result)
        if reduce.kind in RANKED:
            return self.ranked(name, reduce, own, inner, joined)
        start, step, finish = self._accumulation(name, reduce, own, result, joined)
        return [*start, *over(reduce.shape, [*inner, *step]), *finish]

    def ranked(
        self, name: str, reduce: Reduce, own: str, inner: list[str], item: Interval
    ) -> list[str]:
        """The elements of some rank, of all elements in a buffer, or of those that are no NaN."""
        buffer, at, count = f"buffer_{name}", f"at_{name}", math.prod(reduce.shape)
        machine, short = self.expressions.machine(reduce.result), SHORT[own]
        result = self.expressions.atom(reduce.result)
        self.buffers[buffer] = f"np.empty({count}, dtype=np.{machine})"
        start, kept = [f"{at} = 0"], f"{buffer}[{at}] = {result}"
        if reduce.kind == "quantile":
            step, length = [kept, f"{at} += 1"], str(count)
            if item.nan:
                strange = f"strange_{name}"
                length = f"0 if {strange} else {count}"
                start.append(f"{strange} = False")
                step.append(f"{strange} = {strange} | ({result} != {result})")
            low, _ = quantile_position(count, reduce.quantile)
            found = f"select({buffer}, {length}, {low})", f"select({buffer}, {length}, {low + 1})"
            after = quantile(name, reduce, short, found, item.nan)
        else:
            step = [kept, f"{at} += 1 if {result} == {result} else 0"]
            first, part = f"low_{name}", f"part_{name}"
            second = f"{first} + 1 if {part} else {first}"
            found = f"select({buffer}, {at}, {first})", f"select({buffer}, {at}, {second})"
            after = place_of_valid(name, reduce, at) + of_valid(name, reduce, short, found, at)
        return [*start, *over(reduce.shape, [*inner, *step]), *after]

    def _guarded(self, name: str, inner: str, reduce: Reduce, text: str) -> str:
        """A value that is 0 where the result does not depend on it."""
        found = live(reduce, inner)
        if all(found):
            return text
        table, machine = f"live_{inner}_{name}", self.expressions.types[inner]
        self._table(table, list(map(str, found)), reduce.shape, "bool")
        place = ", ".join(f"d{axis}" for axis in range(len(reduce.shape)))
        return f"({text}) if {table}[{place}] else {number(machine, 0)}"

    def _table(self, name: str, texts: list[str], shape: Offset, dtype: str) -> None:
        rows = [", ".join(texts[i : i + 8]) for i in range(0, len(texts), 8)]
        body = ",\n    ".join(rows)
        self.constants.append(
            f"{name} = np.array([\n    {body},\n], dtype=np.{dtype}).reshape({tuple(shape)})"
        )

    def _inside(self, name: str, assign: Assign, reduce: Reduce) -> list[str]:
        inner, expr = assign.name, assign.value
        dims = [f"d{axis}" for axis in range(len(reduce.shape))]
        types = self.expressions.types
        if inner not in self.known:
            one = replace(reduce, result=Ref(expr.dtype, inner))
            self.known[inner] = window_range(one, self.known)
        match expr:
            case Tap():
                places = self._places(f"{inner}_{name}", expr, dims)
                self._as_stored(inner, expr.field)
                along = dict(zip(expr.axes, places, strict=True))
                last = len(expr.origin) - 1
                if expr.lanes > 1 and last in along:
                    along[last] = f"{expr.lanes} * {along[last]}"
                lines, text = self.element(expr.field, expr.origin, along)
                text = self._guarded(name, inner, reduce, text)
                return [*lines, f"{inner} = {text}"]
            case Weight():
                known = self.known[inner]
                types[inner] = machine_type(expr.dtype, known)
                if expr.dtype.is_float:
                    numbers = map(float, expr.texts)
                    table = self.expressions.tables.listed(types[inner], numbers)
                    return [f"{inner} = {table}[{_flat(dims, reduce.shape)}]"]
                table = f"{inner}_{name}"
                constants = [number(types[inner], Const(expr.dtype, t).value) for t in expr.texts]
                self._table(table, constants, reduce.shape, types[inner])
                return [f"{inner} = {table}[{', '.join(dims)}]"]
            case Coefficient():
                self._as_stored(inner, expr.array)
                places = self._places(f"{inner}_{name}", expr, dims)
                return [f"{inner} = {self.names[expr.array]}[{', '.join(places)}]"]
            case _:
                text = self.expressions.text(inner, expr)
                if isinstance(expr, Binary) and expr.op == "*":
                    text = self._guarded(name, inner, reduce, text)
                return [f"{inner} = {text}"]

    def element(
        self, field: str, origin: Offset, along: Mapping[int, str]
    ) -> tuple[list[str], str]:
        """An element so far from an offset along some axes, and the lines that come before it."""
        ndim = self.reach.ndim
        index = [*(f"i{axis}" for axis in range(ndim - 2)), "i", "j"][-ndim:]
        for axis, place in along.items():
            index[axis] += f" + {place}"
        steps = [o - low for o, low in zip(origin, self.reach.lo, strict=True)]
        index = [plus(place, step) for place, step in zip(index, steps, strict=True)]
        return [], self.loaded(field, f"{self.names[field]}[b, {', '.join(index)}]")

    def _places(self, name: str, expr: Tap | Coefficient, dims: list[str]) -> list[str]:
        """The index in the window, which tables say where elements are picked."""
        if not expr.picked:
            return dims
        axes = list(zip(*expr.picked, strict=True))
        for axis, places in enumerate(axes):
            self._table(f"{name}_{axis}", list(map(str, places)), (-1,), "int64")
        return [f"{name}_{axis}[d0]" for axis in range(len(axes))]

    def _accumulation(
        self, name: str, reduce: Reduce, own: str, result: str, item: Interval
    ) -> tuple[list[str], list[str], list[str]]:
        """What stands before, inside and after the loop over a window."""
        short, kind = SHORT[own], reduce.kind
        item_type = self.expressions.machine(reduce.result)
        match kind:
            case "sum" | "prod" | "mean":
                total, op, kept = short, "*" if kind == "prod" else "+", name
                finish = []
                if kind == "mean":
                    kept, total = (
                        f"sum_{name}",
                        SHORT[total_type(reduce, item, self.expressions.least)],
                    )
                    count = math.prod(reduce.shape)
                    finish = [f"{name} = {short}({kept}) / {short}({count})"]
                return (
                    [f"{kept} = {total}({int(kind == 'prod')})"],
                    [f"{kept} = {total}({kept} {op} {total}({result}))"],
                    finish,
                )
            case "any" | "all":
                op = "|" if kind == "any" else "&"
                return [f"{name} = {kind == 'all'}"], [f"{name} = {name} {op} ({result})"], []
            case "min" | "max":
                op, kept, finish = "<" if kind == "min" else ">", name, list[str]()
                if item_type != own:
                    # The range may allow the other sign, where an element is dropped.
                    kept, finish = f"{kind}_{name}", [f"{name} = {short}({kind}_{name})"]
                test = f"{result} {op} {kept}"
                if item.nan:
                    test = f"({test}) | ({result} != {result})"
                start = [f"{kept} = {self._extreme(kind, item_type)}"]
                return start, [f"{kept} = {result} if {test} else {kept}"], finish
            case "argmin" | "argmax":
                best, at = f"best_{name}", f"at_{name}"
                op = "<" if kind == "argmin" else ">"
                better = f"({result} {op} {best}) | ({at} == 0)"
                if item.nan:
                    # The first NaN is taken, and nothing after it.
                    strange = f"{result} != {result}"
                    better = f"(({better}) | ({strange})) & (({best} == {best}) | ({at} == 0))"
                return (
                    [
                        f"{name} = {short}(0)",
                        f"{at} = 0",
                        f"{best} = {self._extreme('min', item_type)}",
                    ],
                    [
                        f"better_{name} = {better}",
                        f"{best} = {result} if better_{name} else {best}",
                        f"{name} = {short}({at}) if better_{name} else {name}",
                        f"{at} += 1",
                    ],
                    [],
                )
            case _:
                raise AssertionError(kind)

    def _extreme(self, kind: str, machine: str) -> str:
        """What every element replaces."""
        if machine == "bool":
            return str(kind == "min")
        if machine.startswith("float"):
            return f"{SHORT[machine]}({'inf' if kind == 'min' else '-inf'})"
        info = np.iinfo(machine)
        return f"{SHORT[machine]}({info.max if kind == 'min' else info.min})"

    def _as_stored(self, name: str, array: str) -> None:
        self.expressions.types[name] = computed(self.storage[array]).name


def _flat(dims: Sequence[str], shape: Sequence[int]) -> str:
    """The text of an index among all elements of a window, of those along its axes."""
    text = dims[0]
    for dim, length in zip(dims[1:], shape[1:], strict=True):
        text = f"({text}) * {length} + {dim}" if " " in text else f"{text} * {length} + {dim}"
    return text


def _variance(name: str, reduce: Reduce, short: str, inner: list[str], result: str) -> list[str]:
    """The mean first, then squares about it, less what the mean's own rounding adds to them.

    In double precision, and line by line: an element is added to the few of its line, and the
    line to those before it, so that errors grow with the sides of a window, not its elements.
    Source: T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample
    variance: analysis and recommendations", The American Statistician 37 (3), 1983, formula 1.7.
    """
    mean, apart, count = f"mean_{name}", f"apart_{name}", math.prod(reduce.shape)
    rest, squares = f"rest_{name}", f"squares_{name}"
    divisor = max(0.0, count - reduce.quantile)
    terms = [f"{apart} = f64({result}) - {mean}"]
    return [
        *_added(reduce.shape, inner, {mean: f"f64({result})"}),
        f"{mean} = {mean} / {float(count)!r}",
        *_added(reduce.shape, [*inner, *terms], {rest: apart, squares: f"{apart} * {apart}"}),
        f"{squares} = {squares} - {rest} * {rest} / {float(count)!r}",
        # Where all elements are equal, rounding alone is left, which may be below 0.
        f"{name} = {short}((0.0 if {squares} < 0.0 else {squares}) / {divisor!r})",
    ]


def quantile(
    name: str, reduce: Reduce, short: str, found: tuple[str, str], nan: bool
) -> list[str]:
    """What lies between an element and the next, which are `found`; NaN where one is."""
    _, fraction = quantile_position(math.prod(reduce.shape), reduce.quantile)
    lines, high = [f"{name} = {short}({found[0]})"], f"high_{name}"
    if fraction:
        lines.append(f"{high} = {short}({found[1]})")
        if fraction == 0.5:
            lines.append(f"{name} = ({name} + {high}) / {short}(2.0)")
        elif fraction < 0.5:
            lines.append(f"{name} = {name} + ({high} - {name}) * {short}({fraction!r})")
        else:
            lines.append(f"{name} = {high} - ({high} - {name}) * {short}({1 - fraction!r})")
    if nan:
        lines.append(f"{name} = {short}(nan) if strange_{name} else {name}")
    return lines


def place_of_valid(name: str, reduce: Reduce, count: str) -> list[str]:
    """Which of so many elements that are no NaN is wanted, and how far from the next."""
    low, part = f"low_{name}", f"part_{name}"
    if reduce.kind == "nanrank":
        place = f"int({count} * {reduce.quantile!r} / 100)"
        return [
            f"{low} = {place} if {place} < {count} else {count} - 1",
            f"{low} = max({low}, 0)",
        ]
    return [
        f"{part} = {reduce.quantile!r} * ({count} - 1 if {count} else 0)",
        f"{low} = int({part})",
        f"{part} = {part} - {low}",
    ]


def of_valid(
    name: str, reduce: Reduce, short: str, found: tuple[str, str], count: str
) -> list[str]:
    """What is wanted of so many elements that are no NaN, of which two are `found`."""
    part, high = f"part_{name}", f"high_{name}"
    lines = [f"{name} = {short}({found[0]})"]
    if reduce.kind == "nanquantile":
        apart = f"({high} - {name})"
        lines += [
            f"{high} = {short}({found[1]})",
            f"if {part} == 0.5:",
            f"    {name} = ({name} + {high}) / {short}(2.0)",
            f"elif {part} > 0.5:",
            f"    {name} = {high} - {apart} * {short}(1.0 - {part})",
            f"elif {part} > 0.0:",
            f"    {name} = {name} + {apart} * {short}({part})",
        ]
    return [*lines, f"{name} = {name} if {count} else {short}(nan)"]


def over(shape: Offset, inner: Sequence[str]) -> list[str]:
    """Loops over every index d0, d1, ... of a window, in C order."""
    lines = list(inner)
    for axis in reversed(range(len(shape))):
        head = f"for d{axis} in range({shape[axis]}):"
        lines = [head, *indented(lines)]
    return lines


def _added(shape: Offset, inner: list[str], sums: dict[str, str]) -> list[str]:
    """Add terms over a window, short pieces of its last axis first."""
    last, length = len(shape) - 1, shape[-1]
    body = [f"line_{name} = 0.0" for name in sums]
    elements = f"range({length})"
    if length > 2 * PIECE:
        end = f"p0 + {PIECE}"
        elements = f"range(p0, {end} if {end} < {length} else {length})"
    body += [f"for d{last} in {elements}:", *indented(inner)]
    body += [f"    line_{name} = line_{name} + {term}" for name, term in sums.items()]
    body += [f"{name} = {name} + line_{name}" for name in sums]
    if length > 2 * PIECE:
        body = [f"for p0 in range(0, {length}, {PIECE}):", *indented(body)]
    return [*(f"{name} = 0.0" for name in sums), *over(shape[:-1], body)]


def plus(name: str, step: int) -> str:
    """`name + step`, `name - step`, or the name alone."""
    if not step:
        return name
    return f"{name} + {step}" if step > 0 else f"{name} - {-step}"


def indented(lines: Sequence[str], depth: int = 1) -> list[str]:
    """Lines inside of something."""
    return ["    " * depth + line for line in lines]
