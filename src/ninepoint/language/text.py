"""The printed form of a kernel.

kernel (x: int8), 2 axes
  t0 = x[-1, 0]                          int
  t1 = x[1, 0]                           int
  t2 = t1 - t0                           int
  return t2

What is kept for the neighbours stands before what reads it.  A kernel that is printed in full
shows every number and type: two that differ are printed differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import assert_never

from .ir import (
    RANKED,
    Assign,
    Atom,
    Binary,
    Call,
    Carried,
    Cast,
    Coefficient,
    Const,
    Element,
    Expr,
    Gather,
    Histogram,
    Inside,
    Kernel,
    Loop,
    Position,
    Read,
    Reduce,
    RunningSum,
    Select,
    Stage,
    State,
    Tap,
    Unary,
    Values,
    Weight,
)

Note = Callable[[str], str]

# So many of the numbers of a window are shown, and of its places, unless all are asked for.
_SHOWN = 9


def kernel_text(kernel: Kernel, note: Note | None = None, *, full: bool = False) -> str:
    """A kernel, an assignment a line; `note` adds what is known of a name."""
    return "\n".join(_Printer(note, full).kernel(kernel))


@dataclass(frozen=True, slots=True)
class _Printer:
    note: Note | None
    full: bool

    def kernel(self, kernel: Kernel) -> list[str]:
        arguments = [f"{name}: {dtype}" for name, dtype in kernel.fields]
        arguments += [
            f"{name}: {dtype}{list(shape)}" for name, dtype, shape in kernel.coefficients
        ]
        arguments += [f"{name}: {dtype.value}" for name, dtype in kernel.scalars]
        head = ["1 axis" if kernel.ndim == 1 else f"{kernel.ndim} axes"]
        head += [f"{kernel.rows} rows at once"] if kernel.rows > 1 else []
        head += [f"every {_numbers(kernel.every)}"] if kernel.every else []
        lines = [f"kernel ({', '.join(arguments)}), {', '.join(head)}"]
        placed = kernel.fields[len(kernel.fields) - len(kernel.positions) :]
        for (name, _), position in zip(placed, kernel.positions, strict=True):
            lines += self.position(name, position)
        given = kernel.scalars[len(kernel.scalars) - len(kernel.lengths) :]
        for (name, _), length in zip(given, kernel.lengths, strict=True):
            lines.append(f"  {name} is the length along axis {length.axis}")
        for stage in kernel.stages:
            lines.append(f"  {', '.join(stage.names)}: {self.kind(stage)}")
            lines += self.body(stage.body, "    ")
            lines.append(f"    keep {self.atoms(stage.values)}")
        lines += self.body(kernel.body, "  ")
        lines.append(f"  return {self.atoms(kernel.outputs)}")
        return lines

    def position(self, name: str, position: Position) -> list[str]:
        lines = [f"  {name} is the {position.words}"]
        if not self.full:
            return lines
        lines[0] += f", among {position.among}, {position.low} .. {position.high}"
        if position.lines is not None:
            lines[0] += f", kept as {', '.join(map(str, position.lines.dtypes))}"
            lines += [f"    {line}" for line in self.kernel(position.lines.kernel)]
        return lines

    def kind(self, stage: Stage) -> str:
        match stage:
            case Values():
                return "values kept in rows"
            case RunningSum():
                return f"a sum over {stage.rows} rows that runs down them"
            case Histogram():
                what = f"over {_size(stage.shape)} elements"
                if stage.runs:
                    what = f"over {_places(stage.runs, self.full)} of {_size(stage.shape)}"
                lanes = f", {stage.lanes} lanes apart" if stage.lanes > 1 else ""
                return f"the elements from rank {stage.rank} on {what}{lanes}"
            case State():
                loose = ", of any value beyond the ends" if stage.unbounded else ""
                return f"a state kept as {', '.join(map(str, stage.storage))}{loose}"
            case _:
                assert_never(stage)

    def body(self, body: Iterable[Assign], before: str) -> list[str]:
        lines = []
        for assign in body:
            told = self.note(assign.name) if self.note else assign.value.dtype.value
            text = f"{assign.name} = {self.expression(assign.value)}"
            lines.append(f"{before}{text:<46} {told}".rstrip())
        return lines

    def atom(self, atom: Atom) -> str:
        """A name, or the number itself."""
        if isinstance(atom, Const):
            return f"{atom.text}:{atom.dtype.value}" if self.full else atom.text
        return atom.name

    def atoms(self, atoms: Iterable[Atom]) -> str:
        return ", ".join(map(self.atom, atoms))

    def expression(self, expr: Expr) -> str:
        """One operation."""
        match expr:
            case Read():
                return f"{expr.field}[{_numbers(expr.offset)}]"
            case Unary():
                arg = self.atom(expr.arg)
                return f"{expr.op}{arg}" if expr.op in ("-", "~") else f"{expr.op} {arg}"
            case Binary():
                loose = " loosely" if self.full and expr.loose else ""
                return f"{self.atom(expr.left)} {expr.op} {self.atom(expr.right)}{loose}"
            case Select():
                then, other = self.atom(expr.then), self.atom(expr.other)
                return f"{then} if {self.atom(expr.test)} else {other}"
            case Cast():
                return f"{expr.storage or expr.dtype.value}({self.atom(expr.arg)})"
            case Call():
                return f"{expr.function}({self.atoms(expr.args)})"
            case Element():
                return f"{expr.array}<{_numbers(expr.index)}>"
            case Tap():
                lanes = f" {expr.lanes} lanes apart" if expr.lanes > 1 else ""
                return f"{expr.field}[{_origin(expr)}]{lanes}{self.picked(expr)}"
            case Weight():
                shown = expr.texts if self.full else expr.texts[:_SHOWN]
                return (
                    f"weights({', '.join(shown)}{', ...' if len(expr.texts) > len(shown) else ''})"
                )
            case Coefficient():
                return f"{expr.array}<window>{self.picked(expr)}"
            case Reduce():
                inner = "; ".join(map(self.inner, expr.body))
                kind: str = expr.kind
                if expr.kind in RANKED or expr.quantile:
                    kind += f" {expr.quantile!r}" if self.full else f" {expr.quantile:g}"
                return f"{kind} of {self.atom(expr.result)} over {_size(expr.shape)} {{{inner}}}"
            case Gather():
                steps = zip(expr.origin, expr.index, strict=True)
                place = ", ".join(f"{o} + {self.atom(i)}" for o, i in steps)
                ends = f"{_numbers(expr.low)} .. {_numbers(expr.high)}"
                where = f" at {expr.place}" if self.full else ""
                return f"{expr.field}[{place}] if {self.atom(expr.active)}, within {ends}{where}"
            case Inside():
                where = f" at {expr.place}" if self.full else ""
                active = self.atom(expr.active)
                return f"{self.atom(expr.index)} if {active}, of {expr.length}{where}"
            case Loop():
                carried = ", ".join(
                    f"{ref.name}{f': {ref.dtype.value}' * self.full} = {self.atom(atom)}"
                    for ref, atom in expr.carried
                )
                most = f" at most {expr.most}" if expr.most else ""
                inner = "; ".join(map(self.inner, expr.body))
                turns = f"{expr.index.name}{most}"
                return f"loop {turns}, {carried} {{{inner}; next {self.atoms(expr.next)}}}"
            case Carried():
                return f"{expr.loop.name}.{expr.number}"
            case _:
                assert_never(expr)

    def inner(self, assign: Assign) -> str:
        """An assignment inside of a window."""
        dtype = f": {assign.value.dtype.value}" if self.full else ""
        return f"{assign.name}{dtype} = {self.expression(assign.value)}"

    def picked(self, expr: Tap | Coefficient) -> str:
        """Which elements of the window are taken; nothing where all are."""
        return f" at {_places(expr.picked, self.full)}" if expr.picked else ""


def _places(places: tuple[tuple[int, ...], ...], full: bool) -> str:
    shown = places if full else places[:_SHOWN]
    text = " ".join(f"({_numbers(place)})" for place in shown)
    return text if len(places) == len(shown) else f"{text} ..."


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _size(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))


def _origin(tap: Tap) -> str:
    """The first offset; axes of the window with a plus, numbered where they are not in order."""
    if tap.axes == tuple(sorted(tap.axes)):
        return ", ".join(f"{o}+" if a in tap.axes else str(o) for a, o in enumerate(tap.origin))
    numbered = {a: f"+{k}" for k, a in enumerate(tap.axes)}
    return ", ".join(f"{o}{numbered.get(a, '')}" for a, o in enumerate(tap.origin))
