"""Control: loops, and the ways out of them.

    while v > 1:             loop c = v, k = 0 while going
        v = v / 2      ->        u0 = c / 2;  u1 = k + 1;  u2 = u0 > 1
        k += 1                   next u2, u0, u1

A loop over a constant range is written out, unless it is long and may end before its time; any
other carries from turn to turn what its body assigns.  What types that has is found by reading it
again, until a turn leaves them as they were.  Where a turn or a loop has ended is a truth,
so that what comes after is read as a branch.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from . import errors, ir
from .buffers import Buffer, written_names
from .dtypes import DType, promote
from .expressions import Expressions
from .frame import Undefined
from .ir import Const, Ref
from .values import Body, NotUnderstood, Steps, Value, is_number

# A loop over a constant range that may end before its time is written out if it has no more turns
# than this, and any if it has no more than that.
_SHORT, _LONG = 8, 500

# How often the body of a loop is read, at most, to find out the types of what it carries.
_READ = 8


@dataclass(frozen=True, slots=True)
class _Type:
    """The type of what is carried; an integer is `signed` for good once it was so in a turn."""

    dtype: DType
    weak: bool
    signed: bool = False

    def joined(self, first: Value, after: Value) -> _Type:
        """The type of a value that begins as one and then is another."""
        own, new = self.dtype, after.dtype
        weak = self.weak and after.weak
        if own is new:
            return _Type(own, weak, self.signed)
        if {own, new} == {DType.INT, DType.UINT}:
            literal = isinstance(first.atom, Const) and not first.atom.text.startswith("-")
            if own is DType.INT and literal and not self.signed:
                return _Type(new, weak)
            return _Type(DType.INT, weak, True)
        return _Type(promote(own, new, self.weak, after.weak), weak, self.signed)

    @property
    def zero(self) -> Value:
        """A number of the type."""
        text = {DType.BOOL: "False", DType.INT: "0", DType.UINT: "0"}.get(self.dtype, "0.0")
        return Value(Const(self.dtype, "0j" if self.dtype.is_complex else text), self.weak)


@dataclass(slots=True)
class _Turns:
    """How a loop goes on: if there is a first turn, how a turn begins, if there is another.

    It has no more than `most` turns if that is not 0.
    """

    node: ast.For | ast.While
    first: Any
    begin: Callable[[Any], None]
    again: Callable[[Any], Any]
    most: int = 0
    # Whether nothing but a way out of it ends it; known once it is read.
    endless: bool = False


class Control(Expressions):
    """A frame that understands loops."""

    @abstractmethod
    def split(
        self, test: Any, then: Callable[[], None], other: Callable[[], None], *, rest: bool = False
    ) -> None:
        """Follow two paths; if the first is the `rest` of a turn, the other has left it."""

    @abstractmethod
    def has_returned(self, done: Any, result: Any) -> None:
        """Remember that the function has returned where it had not before."""

    @abstractmethod
    def statement(self, node: ast.stmt) -> None:
        """Follow one statement."""

    def block(self, statements: list[ast.stmt]) -> None:
        for place, statement in enumerate(statements, 1):
            if self.done is True or self.left is True:
                return
            before, rest = self.done, statements[place:]
            if isinstance(statement, ast.If) and _leaves(statement.body) != _leaves(
                statement.orelse
            ):
                self.statement(_with_rest(statement, rest))
                return
            self.statement(statement)
            if not rest or self.done is True or self.left is True:
                continue
            if self.left is not False:
                goes_on = self.ops.unary("not", self.left)
                self.split(goes_on, partial(self.block, rest), _nothing, rest=True)
                return
            if self.done is not before:
                with self.ops.under(self.done, False):
                    self.block(rest)
                return

    def loop(self, node: ast.For | ast.While) -> None:
        """Follow a loop, and what it does at its end."""
        outside = self.left, self.broken
        self.left = self.broken = False
        if isinstance(node, ast.While):
            self._while(node)
        else:
            self._for(node)
        broken = self.broken
        self.left, self.broken = outside
        if node.orelse and broken is not True and self.done is not True:
            self._where(self.ops.unary("not", broken), partial(self.block, node.orelse))

    def _where(self, test: Any, then: Callable[[], None], *, rest: bool = False) -> None:
        """Follow a path where a truth holds."""
        if test is True:
            then()
        elif test is not False:
            self.split(test, then, _nothing, rest=rest)

    # Kinds of loops.

    def _while(self, node: ast.While) -> None:
        def again(_: Any) -> Any:
            return self.truth(node.test)

        self._rolled(_Turns(node, self.truth(node.test), _nothing, again))

    def _for(self, node: ast.For) -> None:
        steps = self.eval(node.iter)
        if isinstance(steps, Steps):
            self._counted(node, steps)
            return
        if isinstance(steps, range):
            count = len(steps)
            few = count <= (_SHORT if _ends_early(node.body) else _LONG)
            if not few and self._tried(node, steps):
                return
        items, before, size = self.items(node.iter), self.state(), self.ops.body.size
        self.ops.written_out += 1
        try:
            self._written_out(node, items)
        except NotUnderstood:
            # Too long, if anything: then the turns must not know their number.
            if not isinstance(steps, range) or self.ops.written_out > 1:
                raise
            self.ops.body.cut(size)
            self.restore(before)
            if not self._tried(node, steps):
                raise
        finally:
            self.ops.written_out -= 1

    def _tried(self, node: ast.For, steps: range) -> bool:
        """Try a loop over a constant range as a loop: its turns may need to know their number."""
        before, size = self.state(), self.ops.body.size
        try:
            self._counted(node, Steps(steps.start, steps.stop, steps.step), len(steps))
        except (NotUnderstood, errors.StencilError):
            self.ops.body.cut(size)
            self.restore(before)
            return False
        return True

    def state(self) -> tuple[Any, ...]:
        """What a path changes."""
        return dict(self.names), self.done, self.result, self.left, self.broken

    def restore(self, state: tuple[Any, ...]) -> None:
        """Begin again from what it was."""
        names, self.done, self.result, self.left, self.broken = state
        self.names = dict(names)

    def _written_out(self, node: ast.For, items: Sequence[Any]) -> None:
        """Follow the turns of a loop one by one."""
        for place, item in enumerate(items, 1):
            self.assign(node.target, item)
            self.block(node.body)
            self.left = False
            rest = items[place:]
            if self.broken is True or self.done is True or not rest:
                return
            going = partial(self._written_out, node, rest)
            if self.broken is not False:
                self._where(self.ops.unary("not", self.broken), going, rest=True)
                self.left = False
                return
            if self.done is not False:
                with self.ops.under(self.done, False):
                    going()
                return

    def _counted(self, node: ast.For, steps: Steps, most: int = 0) -> None:
        """A loop over a range."""
        ops, start, stop, step = self.ops, steps.start, steps.stop, steps.step
        self.at(node.iter)
        count = stop
        if step != 1 or not isinstance(start, int) or start:
            count = ops.binary("-", stop, start) if step > 0 else ops.binary("-", start, stop)
        if abs(step) > 1:
            count = ops.binary("//", ops.binary("+", count, abs(step) - 1), abs(step))

        def begin(turn: Any) -> None:
            self.at(node.target)
            value = turn if step == 1 else ops.binary("*", turn, step)
            first = isinstance(start, int) and start == 0
            self.assign(node.target, value if first else ops.binary("+", value, start))

        def again(turn: Any) -> Any:
            self.at(node.iter)
            return ops.binary("<", ops.binary("+", turn, 1), count)

        self._rolled(_Turns(node, ops.truth(ops.binary(">", count, 0)), begin, again, most))

    # A loop that carries values.

    def _rolled(self, turns: _Turns) -> None:
        start = self.ops.logical("&", self.ops.active(), turns.first)
        if start is False:
            return
        loop = _Loop(self, turns)
        if loop.read():
            loop.leave(start)
        else:
            self.restore(loop.outside)
            self._where(turns.first, partial(self._only_turn, turns))

    def turn(self, turns: _Turns, index: Any) -> Any:
        """Follow a turn; gives the truth that there is another."""
        turns.begin(index)
        self.block(turns.node.body)
        self.left = False
        if self.done is True or self.broken is True:
            return False
        ended = self.ops.logical("|", self.done, self.broken)
        with self.ops.under(ended, False):
            again = turns.again(index)
        turns.endless = again is True
        return self.ops.logical("&", self.ops.unary("not", ended), again)

    def _only_turn(self, turns: _Turns) -> None:
        turns.begin(0)
        self.block(turns.node.body)
        self.left = False


class _Loop:
    """One loop that carries values, while it is read."""

    def __init__(self, frame: Control, turns: _Turns) -> None:
        self.frame, self.turns, self.ops = frame, turns, frame.ops
        self.span = frame.at(turns.node)
        self.outside = frame.state()
        self.before = dict(frame.names)
        self.stored = _stored(turns.node)
        # Of each name that holds numbers what these are before the first turn, and their types.
        self.first = {
            name: [self.ops.lift(value) for value in _numbers(self.before[name])]
            for name in sorted(self.stored)
            if _is_numeric(self.before.get(name))
        }
        self.types = {
            name: [_Type(one.dtype, one.weak) for one in values]
            for name, values in self.first.items()
        }
        self.level = self.ops.body.depth + 1
        self.index = Ref(DType.INT, f"n{self.level}_0")
        # What it carries: the name in a turn, the value before the first and that after one.
        self.refs: list[Ref] = []
        self.initial: list[Value] = []
        self.after: list[Value] = []

    def read(self) -> bool:
        """Read turns until the types are known; gives whether there may be more than one turn."""
        if self.ops.unsigned:
            # A literal takes the sign of what it meets first.
            self._read_turn(literal=True)
            self.types = self._joined()
        for _ in range(_READ):
            self._read_turn()
            if self.again is False:
                return False
            joined = self._joined()
            if joined == self.types:
                return True
            self.types = joined
        raise NotUnderstood("a loop that changes the types of its values", self.span)

    def _joined(self) -> dict[str, list[_Type]]:
        """The types of what names hold before and after the turn that was read."""
        joined: dict[str, list[_Type]] = {}
        for name, kinds in self.types.items():
            triples = zip(kinds, self.first[name], self._now(name), strict=True)
            joined[name] = [kind.joined(one, after) for kind, one, after in triples]
        return joined

    def _read_turn(self, *, literal: bool = False) -> None:
        frame, ops = self.frame, self.ops
        self.refs = []
        frame.restore(self.outside)
        frame.done, frame.result = False, None
        for name, kinds in () if literal else self.types.items():
            heads = [Value(self._ref(kind.dtype), kind.weak) for kind in kinds]
            frame.names[name] = _rebuilt(self.before[name], iter(heads))
        begins = frozenset(ref.name for ref in (*self.refs, self.index))
        self.body = Body(f"u{self.level}_", self.span, ops.body.limit, ops.body, begins)
        with ops.turn(self.body):
            self.again = frame.turn(self.turns, Value(self.index, True))

    def _ref(self, dtype: DType) -> Ref:
        """A name for one more value that is carried."""
        self.refs.append(Ref(dtype, f"c{self.level}_{len(self.refs)}"))
        return self.refs[-1]

    def _now(self, name: str) -> list[Value]:
        """The numbers that a name holds at the end of a turn."""
        value = self.frame.names.get(name)
        numbers = list(_numbers(value)) if _is_numeric(value) else []
        if len(numbers) != len(self.first[name]):
            raise NotUnderstood("a name that is one thing or another", self.span)
        return [self.ops.lift(one) for one in numbers]

    def _carry(self, value: Any) -> list[int]:
        """Carry numbers that only the last turn tells; gives which they are."""
        numbers = []
        for one in _numbers(value):
            after = self.ops.lift(one)
            kind = _Type(after.dtype, after.weak)
            numbers.append(len(self.refs))
            self._ref(kind.dtype)
            self.initial.append(kind.zero)
            self.after.append(after)
        return numbers

    def leave(self, start: Any) -> None:
        """Carry the values, and go on with those after the last turn."""
        frame = self.frame
        places: dict[str, tuple[Any, list[int]]] = {}
        for name, first in self.first.items():
            numbers = list(range(len(self.initial), len(self.initial) + len(first)))
            places[name] = self.before[name], numbers
            self.initial += first
            self.after += self._now(name)
        for name in sorted(self.stored - places.keys()):
            new, old = frame.names.get(name), self.before.get(name)
            if old is not None and not isinstance(old, Undefined):
                if not _same(old, new):
                    raise NotUnderstood("a name that is one thing or another", self.span)
            elif self.turns.first is True and _is_numeric(new):
                places[name] = new, self._carry(new)
        broken, done, result = frame.broken, frame.done, frame.result
        if done is not False and not _is_numeric(result):
            raise NotUnderstood("a loop that returns no number", self.span)
        truths = [self._carry(one) if isinstance(one, Value) else [] for one in (broken, done)]
        given = self._carry(result) if done is not False else []
        whole = self._emit(start)

        def ends(numbers: list[int]) -> Iterator[Value]:
            for number in numbers:
                weak = self.initial[number].weak and self.after[number].weak
                one = ir.Carried(self.refs[number].dtype, whole, number + 1)
                yield self.ops.emit(one, weak)

        frame.restore(self.outside)
        for name in sorted(self.stored):
            if name in places:
                shape, numbers = places[name]
                frame.names[name] = _rebuilt(shape, ends(numbers))
            elif name not in self.before:
                frame.names[name] = Undefined(name)
        frame.broken = next(ends(truths[0]), broken)
        if done is not False:
            over = True if self.turns.endless and broken is False else next(ends(truths[1]))
            frame.has_returned(over, _rebuilt(result, ends(given)))

    def _emit(self, start: Any) -> Ref:
        """The loop, whose first value is whether it goes on."""
        ops = self.ops
        with ops.turn(self.body):
            after = [ops.lift(self.again).atom] + [
                ops.cast(value, ref.dtype)
                for ref, value in zip(self.refs, self.after, strict=True)
            ]
        initial = [ops.lift(start).atom] + [
            ops.cast(value, ref.dtype) for ref, value in zip(self.refs, self.initial, strict=True)
        ]
        going = Ref(DType.BOOL, f"c{self.level}_{len(self.refs)}")
        carried = tuple(zip([going, *self.refs], initial, strict=True))
        body = self.body.assignments(tuple(after))
        return ops.body.emit(ir.Loop(carried, body, tuple(after), self.index, self.turns.most))


def _nothing(*_: Any) -> None:
    """Do nothing."""


def _leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements always leave the turn of a loop."""
    match statements:
        case [*_, ast.Break() | ast.Continue()]:
            return True
        case [*_, ast.If(body=body, orelse=orelse)]:
            return _leaves(body) and _leaves(orelse)
        case _:
            return False


def _with_rest(branch: ast.If, rest: list[ast.stmt]) -> ast.If:
    """A branch, one side of which leaves the turn, with what comes after in the other side."""
    leaves = _leaves(branch.body)
    body = branch.body if leaves else [*branch.body, *rest]
    orelse = [*branch.orelse, *rest] if leaves else branch.orelse
    return ast.copy_location(ast.If(branch.test, body, orelse), branch)


def _ends_early(statements: Sequence[ast.stmt]) -> bool:
    """Whether a loop may end before its time."""
    for statement in statements:
        if isinstance(statement, ast.Break | ast.Return):
            return True
        parts = [getattr(statement, name, []) for name in ("body", "orelse")]
        if isinstance(statement, ast.For | ast.While):
            # What breaks it ends that loop only.
            if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
                return True
        elif not isinstance(statement, ast.FunctionDef) and any(map(_ends_early, parts)):
            return True
    return False


def _stored(loop: ast.For | ast.While) -> set[str]:
    """The names that a loop assigns."""
    pending: list[ast.AST] = [*loop.body]
    pending.append(loop.target if isinstance(loop, ast.For) else loop.test)
    found = {name for node in loop.body for name in written_names(node)}
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            inside = (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
            found |= {n.target.id for n in inside}
        elif not isinstance(node, ast.Lambda):
            pending += ast.iter_child_nodes(node)
    return found


def _is_numeric(value: Any) -> bool:
    """Whether a value is a number, or a tuple of such."""
    if isinstance(value, tuple):
        return all(map(_is_numeric, value))
    if isinstance(value, Buffer):
        return True
    return is_number(value) or (isinstance(value, Value) and value.shape is None)


def _numbers(value: Any) -> Iterator[Any]:
    """The numbers of a value."""
    if isinstance(value, Buffer):
        value = value.items
    for one in value if isinstance(value, tuple) else ():
        yield from _numbers(one)
    if not isinstance(value, tuple):
        yield value


def _rebuilt(value: Any, numbers: Iterator[Value]) -> Any:
    """The value with other numbers."""
    if isinstance(value, tuple):
        return tuple(_rebuilt(one, numbers) for one in value)
    if isinstance(value, Buffer):
        return replace(value, items=_rebuilt(value.items, numbers))
    return next(numbers)


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, Value) and one == other)
