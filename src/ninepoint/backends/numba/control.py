"""Loops at a point, and reads at computed offsets, in the text of a row function.

    t4 = loop c = t0, k = 0      ->     t4_c0, t4_c1 = t3, f64(t0)
           while going:                 while t4_c0:
             u0 = c / 2                     t4_u0 = t4_c1 / 2.0
             next u0 > 1, u0                t4_c0, t4_c1 = t4_u0 > 1.0, t4_u0

A loop that may never end looks now and then whether it shall go on, and a read outside its
neighborhood is noted: both in the `notes` that the function is called with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...analysis.control import outside
from ...analysis.ranges import interval, machine_type, turn_ranges
from ...language.dtypes import computed
from ...language.ir import (
    Assign,
    Atom,
    Carried,
    Const,
    Element,
    Expr,
    Gather,
    Inside,
    Loop,
    Offset,
    Reduce,
    Ref,
    renamed,
    renamed_atom,
    within,
)
from .expressions import Expressions
from .window_loops import WindowLoops, plus

# After so many turns a loop looks whether it shall go on.
EACH = 256


@dataclass
class Control:
    """Writes what is computed at a point, besides its reads at constant offsets.

    It gathers the places of reads that may be outside, in the user's file.
    """

    windows: WindowLoops
    # The rows that are read at computed columns, and the columns that they begin at.
    rows: Mapping[tuple[str, Offset], tuple[str, int]]
    places: list[str]
    looks: bool = field(default=False, init=False)

    @property
    def expressions(self) -> Expressions:
        return self.windows.expressions

    def lines(self, name: str, expr: Expr) -> list[str]:
        """The lines that compute one operation."""
        match expr:
            case Element():
                self.expressions.types[name] = computed(self.windows.storage[expr.array]).name
                index = ", ".join(map(str, expr.index))
                return [f"{name} = {self.windows.names[expr.array]}[{index}]"]
            case Reduce():
                return self.windows.lines(name, expr)
            case Gather():
                return self._gather(name, expr)
            case Inside():
                return self._inside(name, expr)
            case Loop():
                return self._loop(name, expr)
            case Carried():
                self.expressions.declare(name, expr)
                own = Ref(expr.dtype, _value(expr.loop.name, expr.number))
                return [f"{name} = {self._as(own, Ref(expr.dtype, name))}"]
            case _:
                return [f"{name} = {self.expressions.text(name, expr)}"]

    def _loop(self, name: str, loop: Loop) -> list[str]:
        known, types = self.expressions.known, self.expressions.types
        self.expressions.declare(name, loop)
        bounds = turn_ranges(loop, known)
        turn = Ref(loop.index.dtype, f"{name}_n0")
        known[turn.name], types[turn.name] = bounds[loop.index.name], "int64"
        alias: dict[str, Atom] = {loop.index.name: turn}
        owns = [Ref(ref.dtype, _value(name, k)) for k, (ref, _) in enumerate(loop.carried)]
        before: list[str] = []
        for own, (ref, atom), after in zip(owns, loop.carried, loop.next, strict=True):
            alias[ref.name] = own
            # The last turn may leave more than any turn begins with.
            known[own.name] = bounds[ref.name]
            last = known[own.name] | interval(after, bounds)
            types[own.name] = machine_type(ref.dtype, last, self.expressions.least)
            before.append(f"{own.name} = {self._as(atom, own)}")
        before.append(f"{turn.name} = 0")
        lines: list[str] = []
        for assign in loop.body:
            made = Ref(assign.value.dtype, f"{name}_{assign.name}")
            expr = renamed(assign.value, alias)
            alias[assign.name] = made
            known[made.name] = bounds[assign.name]
            lines += self.lines(
                made.name, _apart(expr, made.name) if isinstance(expr, Reduce) else expr
            )
        results = [renamed_atom(atom, alias) for atom in loop.next]
        given = [self._as(atom, own) for atom, own in zip(results, owns, strict=True)]
        lines.append(f"{', '.join(own.name for own in owns)} = {', '.join(given)}")
        lines.append(f"{turn.name} = {turn.name} + 1")
        if not loop.most:
            self.looks = True
            lines += [
                "turns = turns - 1",
                "if turns == 0:",
                f"    turns = {EACH} if go_on(notes) else 1",
                "    if turns == 1:",
                f"        {owns[0].name} = False",
            ]
        return [*before, f"while {owns[0].name}:", *("    " + line for line in lines)]

    def _as(self, atom: Atom, like: Atom) -> str:
        """An operand in the type of another."""
        return self.expressions.atom(atom, self.expressions.machine(like))

    def _gather(self, name: str, expr: Gather) -> list[str]:
        known, last = self.expressions.known, len(expr.origin) - 1
        self.expressions.types[name] = computed(self.windows.storage[expr.field]).name
        lines: list[str] = []
        along: dict[int, str] = {}
        for axis, step in enumerate(expr.index):
            if axis < last and not in_other_rows(expr):
                continue
            own = along[axis] = f"{name}_i{axis}"
            lines.append(f"{own} = {self.expressions.atom(step, 'int64')}")
            if outside(expr, axis, known):
                place = f"{axis}|{expr.place}"
                lines += self._checked(own, expr, place, expr.low[axis], expr.high[axis])
        found = self.rows.get((expr.field, expr.origin[:-1]))
        if found is None or in_other_rows(expr):
            before, text = self.windows.element(expr.field, expr.origin, along)
        else:
            row, column = found
            element = f"{row}[{plus('j', expr.origin[-1] - column)} + {along[last]}]"
            before, text = [], self.windows.loaded(expr.field, element)
        return [*lines, *before, f"{name} = {text}"]

    def _inside(self, name: str, expr: Inside) -> list[str]:
        index, length = interval(expr.index, self.expressions.known), expr.length
        self.expressions.types[name] = "int64"
        lines = [f"{name} = {self.expressions.atom(expr.index, 'int64')}"]
        if index.low < -length or length <= index.high:
            lines += self._checked(name, expr, expr.place, -length, length - 1)
        if index.low < 0:
            lines += [f"{name} = {name} + {length} if {name} < 0 else {name}"]
        return lines

    def _checked(
        self, own: str, expr: Gather | Inside, place: str, low: int, high: int
    ) -> list[str]:
        """Note a number that is outside, and take one that is not."""
        if not expr.place:
            # It is inside wherever it is read.
            return [f"{own} = {own} if {self.expressions.atom(expr.active)} else {high}"]
        self.looks = True
        if place not in self.places:
            self.places.append(place)
        active = self.expressions.atom(expr.active)
        return [
            f"if {own} < {low} or {own} > {high}:",
            f"    if {active}:",
            f"        note(notes, {self.places.index(place) + 1}, {own})",
            "        turns = 1",
            f"    {own} = {high}",
        ]


def in_other_rows(expr: Expr) -> bool:
    """Whether a read at a computed offset may be in another row."""
    return isinstance(expr, Gather) and not all(isinstance(i, Const) for i in expr.index[:-1])


def gathered_rows(body: Iterable[Assign]) -> set[tuple[str, Offset]]:
    """The rows of which elements are read at computed columns."""
    reads = (assign.value for assign in within(body))
    return {
        (one.field, one.origin[:-1])
        for one in reads
        if isinstance(one, Gather) and not in_other_rows(one)
    }


def _value(loop: str, number: int) -> str:
    """The name of what a loop carries."""
    return f"{loop}_c{number}"


def _apart(reduce: Reduce, prefix: str) -> Reduce:
    """The reduction, with names inside its window that nothing else has."""
    alias: dict[str, Atom] = {}
    body: list[Assign] = []
    for assign in reduce.body:
        value = renamed(assign.value, alias)
        alias[assign.name] = Ref(value.dtype, f"{prefix}_{assign.name}")
        body.append(Assign(f"{prefix}_{assign.name}", value))
    return replace(reduce, body=tuple(body), result=renamed_atom(reduce.result, alias))
