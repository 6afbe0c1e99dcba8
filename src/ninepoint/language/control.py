"""Control: the statements of a function that is read, and loops that carry values.

    if v > 0: return v       ->      done where v > 0
    return 0                         v > 0 ? v : 0

A path that has returned is remembered as a truth (`done`), so a `return` may stand anywhere; where
a turn of a loop, or the loop, has ended is one as well (`left`, `broken`), so that what comes
after is read as a branch.  A loop over a constant range is written out, unless it is long and may
end before its time; any other carries values.

    while v > 1:             loop c = v, k = 0 while going
        v = v / 2      ->        u0 = c / 2;  u1 = k + 1;  u2 = u0 > 1
        k += 1                   next u2, u0, u1

The types of what the body of a loop assigns are found by reading the body again, until a turn
leaves them as they were.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, NoReturn

import numpy as np

from ..base.frozen import frozen
from . import statistics
from .definitions import ArrayFunction, Definition, Function, own_nodes, stored_names
from .dtypes import promote
from .errors import StencilError, here, mistake
from .ir import Atoms, Carried, Coefficients, Const, DType, Field, Loop, Ref
from .operations import active, cast, lift, logical, select, truth, unary, under
from .values import (
    LONGEST,
    Body,
    Buffer,
    Choice,
    Closure,
    NotUnderstood,
    Steps,
    Value,
    constant,
    emit,
    is_number,
    is_single,
    reading,
    several,
    words,
)

# A loop over a constant range that may end before its time is written out if it has no more turns
# than this, and any if it has no more than that.
_SHORT, _LONG = 8, 500

# Stands for a local that has no value on some path.
UNDEFINED: Any = object()


@dataclass(eq=False)
class Frame(ABC):
    """One function being read, with the names it knows.

    `done` is the truth that the function has returned, `result` what it then gave; `left` that
    the turn of the innermost loop has ended before its time, `broken` that the loop has.
    """

    function: Function
    names: dict[str, Any]
    active: tuple[Function, ...] = ()
    # Whether this package has the text, or has called it: the user knows the call alone.
    hidden: bool = False
    done: Any = False
    result: Any = None
    left: Any = False
    broken: Any = False

    def __post_init__(self) -> None:
        self.active = (*self.active, self.function)
        self.hidden |= self.function.file == statistics.__file__

    def begin(self, names: Mapping[str, Any]) -> None:
        """Begin a path with these names, on which nothing has ended."""
        self.names = dict(names)
        self.done = self.left = self.broken = False

    def at(self, node: ast.AST) -> None:
        """Let mistakes point to a part of the text from here on."""
        if not self.hidden:
            here.place = self.function, node

    def ended(self, loop: bool = False) -> Any:
        """The truth that the function has ended, or the loop, or else the turn of that."""
        return logical("|", self.done, self.broken if loop else self.left)

    @abstractmethod
    def eval(self, node: ast.expr) -> Any:
        """What an expression is."""

    @abstractmethod
    def bound(self, targets: list[ast.expr], node: ast.expr) -> Any:
        """What an expression is that is given to these names."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Any) -> None:
        """Give names to a value."""

    def holds(self, node: ast.expr, value: Any) -> Any:
        """The truth of what an expression is; raises, as NumPy does, if it has several."""
        window = isinstance(value, Value) and value.shape
        if window or isinstance(value, Field | Coefficients | np.ndarray):
            self.at(node)
            raise mistake("bad-operand", "The truth", words(value))
        return truth(value)

    def truth(self, node: ast.expr) -> Any:
        return self.holds(node, self.eval(node))

    def items(self, iterable: ast.expr) -> tuple[Any, ...]:
        """What a loop goes through."""
        value = self.eval(iterable)
        known = isinstance(value, range | tuple)
        if known and len(value) <= LONGEST:
            return tuple(value)
        if isinstance(value, np.ndarray) and value.ndim:
            return tuple(map(constant, value))
        self.at(iterable)
        if isinstance(value, Field) or is_number(value):
            raise mistake("bad-operand", "A loop", words(value))
        raise NotUnderstood("a very long loop" if known else "a loop whose range is not constant")

    def closure(self, node: ast.FunctionDef | ast.Lambda) -> Closure:
        """A function that is defined inside the kernel."""
        given = node.args
        # Defaults are those of the last parameters, and of all that are given by name.
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        texts = [*given.defaults, *given.kw_defaults]
        pairs = zip(reversed(parameters), reversed(texts), strict=False)
        defaults = {one.arg: self.eval(text) for one, text in pairs if text is not None}
        return Closure(node, self.function, self.names, defaults)

    def merge(self, test: Any, then: Any, other: Any) -> Any:
        if then is other:
            return then
        if then is UNDEFINED or other is UNDEFINED:
            return UNDEFINED
        if isinstance(then, Buffer) and then == other:
            return replace(then, items=select(test, then.items, other.items))
        options = isinstance(then, str | Choice) and isinstance(other, str | Choice)
        if options and any(isinstance(v, ArrayFunction) for v in self.function.constants.values()):
            return Choice(test, then, other)
        for one in (then, other):
            if not is_number(one) and not isinstance(one, Value | tuple | np.ndarray):
                raise NotUnderstood("a name that is one thing or another")
        one, two = (len(v) if isinstance(v, tuple) else None for v in (then, other))
        if one != two:
            raise mistake("choice-mismatch", words(then), words(other))
        return select(test, then, other)

    def run(self, definition: Definition) -> Any:
        if isinstance(definition, ast.Lambda):
            self._return(definition.body)
            return self.result
        self.block(definition.body)
        if self.done is not True:
            self.at(definition)
            raise mistake("no-return", definition.name)
        return self.result

    def statement(self, node: ast.stmt) -> None:
        self.at(node)
        match node:
            case ast.Return(value=value):
                if value is None:
                    raise mistake("no-return", self.function.name)
                self._return(value)
            case ast.Assign(targets=targets, value=value):
                known = self.bound(targets, value)
                for target in targets:
                    self.assign(target, known)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.assign(target, self.eval(value))
            case ast.AugAssign(target=target, op=op, value=value):
                both = ast.copy_location(ast.BinOp(target, op, value), node)
                self.assign(target, self.eval(both))
            case ast.If(test=test, body=body, orelse=orelse):
                then, other = partial(self.block, body), partial(self.block, orelse)
                self.split(self.truth(test), then, other)
            case ast.For(orelse=orelse) | ast.While(orelse=orelse):
                if isinstance(node, ast.For):
                    self._for(node)
                else:
                    CarriedLoop(
                        self,
                        node,
                        lambda _: self.truth(node.test),
                        lambda _: self.block(node.body),
                    ).follow()
                # What it does at its end, unless it has ended before.
                ended = self.ended(loop=True)
                self.left = self.broken = False
                if orelse:
                    self.split(ended, other=partial(self.block, orelse))
            case ast.Break():
                self.left = self.broken = True
            case ast.Continue():
                self.left = True
            case ast.FunctionDef(name=name):
                self.names[name] = self.closure(node)
            case ast.Pass():
                return
            case ast.Expr(value=value):
                if any(isinstance(part, ast.Call) for part in ast.walk(value)):
                    raise NotUnderstood("a call whose result is not used")
                self.eval(value)
            case _:
                refuse_node(node)

    def _return(self, node: ast.expr) -> None:
        value = self.eval(node)
        self.at(node)
        self.returned = here.span
        for item in several(value) or (value,):
            # Helpers may return more.
            if len(self.active) == 1 and not is_single(item):
                raise mistake("not-a-number", words(item))
        self.done, self.result = True, value

    def split(
        self,
        test: Any,
        then: Callable[[], None] = lambda: None,
        other: Callable[[], None] = lambda: None,
    ) -> None:
        """Follow one path where a truth holds and another where it does not."""
        if isinstance(test, bool):
            return then() if test else other()
        before = dict(self.names)
        with under(test, True):
            then()
        names, result, ended = self.names, self.result, (self.done, self.left, self.broken)
        # Where it holds that something has ended, that has.
        done, left, broken = (one is test or one for one in ended)
        self.begin(before)
        with under(test, False):
            other()
        self.left = _either(test, left, self.left)
        self.broken = _either(test, broken, self.broken)
        # A side that has always returned leaves no names behind.
        if done is not True and self.done is not True:
            self.names = {
                name: self.merge(test, names.get(name, UNDEFINED), self.names.get(name, UNDEFINED))
                for name in names | self.names
            }
        elif done is not True:
            self.names = names
        second, self.done = self.done, _either(test, done, self.done)
        if second is False:
            self.result = result
        elif done is not False:
            counts = [len(several(one)) for one in (self.result, result)]
            if counts[0] != counts[1]:
                raise mistake("return-mismatch", self.returned, *counts)
            self.result = self.merge(test, result, self.result)

    # Blocks, and loops over what is known.

    def block(self, statements: list[ast.stmt]) -> None:
        for place, one in enumerate(statements):
            if isinstance(one, ast.If) and leaves(one.body) != leaves(one.orelse):
                # One side leaves the turn: what comes after is read in the other, so that a name
                # that this alone gives a value has it there.
                body, orelse = [*one.body], [*one.orelse]
                (orelse if leaves(body) else body).extend(statements[place + 1 :])
                branch = ast.copy_location(ast.If(one.test, body, orelse), one)
                statements = [*statements[:place], branch]
                break
        self._follow(self.statement, statements)

    def _follow(
        self, step: Callable[[Any], None], items: Sequence[Any], turns: bool = False
    ) -> None:
        """Follow statements, or the turns of a loop, until these or the function have ended."""
        for place, item in enumerate(items, 1):
            step(item)
            if turns:
                # What ended a turn has not ended the next.
                self.left = False
            rest, ended = items[place:], self.ended(turns)
            if not rest or ended is True:
                return
            if ended is not False:
                self.split(ended, other=partial(self._follow, step, rest, turns))
                return

    def _for(self, node: ast.For) -> None:
        steps, few = self.eval(node.iter), False
        counted = partial(self._counted, node, steps)
        if isinstance(steps, Steps):
            counted()
            return
        if isinstance(steps, range):
            # Tried, for its turns may need to know their number.
            few = len(steps) <= (_SHORT if ends_early(node) else _LONG)
            if not few and self._tried(counted) is None:
                return

        def turn(item: Any) -> None:
            self.assign(node.target, item)
            self.block(node.body)

        turns = partial(self._follow, turn, self.items(node.iter), True)
        reading.written_out += 1
        error = self._tried(turns)
        reading.written_out -= 1
        if isinstance(error, NotUnderstood) and few and not reading.written_out:
            # Too long, if anything: then the turns must not know their number.
            error = self._tried(counted) and error
        if error is not None:
            raise error

    def _tried(self, follow: Callable[[], None]) -> Exception | None:
        """Follow a path; what it cannot be read for, if it is, and all is as it was."""
        before, size = dict(self.names), len(reading.body.values)
        try:
            follow()
        except (NotUnderstood, StencilError) as error:
            names, values = reading.body.names, reading.body.values
            for name in list(values)[size:]:
                del names[values.pop(name)]
            self.begin(before)
            return error
        return None

    def _counted(self, node: ast.For, steps: Steps | range) -> None:
        """A loop over a range."""
        most = len(steps) if isinstance(steps, range) else 0
        start, step = steps.start, steps.step
        self.at(node.iter)
        low, count = (start, steps.stop) if step > 0 else (steps.stop, start)
        if not isinstance(low, int) or low:
            count = count - low
        if abs(step) > 1:
            count = (count + (abs(step) - 1)) // abs(step)

        def turn(number: Any) -> None:
            self.at(node.target)
            value = number if step == 1 else number * step
            if not isinstance(start, int) or start:
                value = value + start
            self.assign(node.target, value)
            self.block(node.body)

        CarriedLoop(self, node, lambda number: count > number, turn, most).follow()


def _either(test: Any, then: Any, other: Any) -> Any:
    """One truth where a test holds, and the other where it does not."""
    if then is other:
        return then
    if then is True:
        return logical("|", test, other)
    return logical("|", logical("&", test, then), logical("&", unary("not", test), other))


# How often the body of a loop is read, at most, to find out the types of what it carries.
_READ = 8


@frozen
class _Type:
    """The type of a value that is carried.

    An integer that was `signed` in one turn, beside one of uint64, is so in all later ones.
    """

    dtype: DType
    weak: bool
    signed: bool = False

    def joined(self, first: Value, after: Value) -> _Type:
        """The type of a value that begins as one and then is another."""
        own, new = self.dtype, after.dtype
        weak = self.weak and after.weak
        if {own, new} != {DType.INT, DType.UINT}:
            kind = own if own is new else promote(own, new, self.weak, after.weak)
            return _Type(kind, weak, self.signed)
        literal = isinstance(first.atom, Const) and not first.atom.text.startswith("-")
        if own is DType.INT and literal and not self.signed:
            return _Type(new, weak)
        return _Type(DType.INT, weak, True)


@dataclass(eq=False)
class CarriedLoop:
    """One loop that carries values, while it is read.

    It has a `turn` of some number where the `test` of that is true.  There are no more than `most`
    turns, if that is not 0.
    """

    frame: Frame
    node: ast.For | ast.While
    test: Callable[[Any], Any]
    turn: Callable[[Any], None]
    most: int = 0

    def __post_init__(self) -> None:
        frame = self.frame
        self.first = self.test(0)
        frame.at(self.node)
        self.before = frame.names
        self.stored = stored_names(self.node)
        # The names that hold numbers, with what these are before the first turn, and their types.
        self.held = {
            n: self.before[n] for n in sorted(self.stored) if _is_numeric(self.before.get(n))
        }
        self.initial = [lift(one) for one in _numbers(self.held)]
        self.types = [_Type(one.dtype, one.weak) for one in self.initial]
        self.level = reading.body.depth + 1
        self.index = Ref(DType.INT, f"n{self.level}_0")

    def follow(self) -> None:
        """Go on with what is after the last turn."""
        start = logical("&", active(), self.first)
        if start is False:
            return
        if self._read():
            self._leave(start)
        else:
            self.frame.begin(self.before)
            self.frame.split(self.first, partial(self.turn, 0))

    def _read(self) -> bool:
        """Read turns until the types are known; gives whether there may be more than one turn."""
        # A literal takes the sign of what it meets first.
        for literal in [True] * reading.unsigned + [False] * _READ:
            self._read_turn(literal)
            self.frame.at(self.node)
            if self.going is False and not literal:
                return False
            # What the names hold at the end of the turn.
            now = {name: self.frame.names.get(name) for name in self.held}
            if not _is_numeric(now) or _layout(now) != _layout(self.held):
                raise NotUnderstood("a name that is one thing or another")
            self.now = [lift(one) for one in _numbers(now)]
            triples = zip(self.types, self.initial, self.now, strict=True)
            joined = [kind.joined(one, after) for kind, one, after in triples]
            if joined == self.types and not literal:
                return True
            self.types = joined
        raise NotUnderstood("a loop that changes the types of its values")

    def _read_turn(self, literal: bool) -> None:
        frame, index = self.frame, Value(self.index, True)
        frame.begin(self.before)
        refs = self._refs([] if literal else self.types)
        if not literal:
            heads = (Value(r, kind.weak) for r, kind in zip(refs, self.types, strict=True))
            frame.names |= _rebuilt(self.held, heads)
        begins = frozenset(ref.name for ref in (*refs, self.index))
        outer = reading.body
        self.body = Body(f"u{self.level}_", here.span, outer.limit, self.level, outer, begins)
        # What is computed in a turn is so only if the turn is.
        with reading.changed(body=self.body, path=()):
            self.turn(index)
            ended = frame.ended(loop=True)
            # The truth that there is another.
            self.going: Any = False
            if ended is not True:
                with under(ended, False):
                    again = self.test(index + 1)
                # Whether nothing but a way out of it ends it.
                self.endless = again is True
                self.going = logical("&", unary("not", ended), again)

    def _refs(self, carried: Sequence[Any]) -> list[Ref]:
        """The names in a turn of values that are carried."""
        return [Ref(one.dtype, f"c{self.level}_{n}") for n, one in enumerate(carried)]

    def _leave(self, start: Any) -> None:
        """Carry the values, and go on with those after the last turn."""
        frame = self.frame
        more: dict[str, Any] = {}
        for name in sorted(self.stored - self.held.keys()):
            new, old = frame.names.get(name), self.before.get(name)
            if old is not None and old is not UNDEFINED:
                alike = isinstance(old, Value) and isinstance(new, Value) and old.atom == new.atom
                if old is not new and not alike:
                    raise NotUnderstood("a name that is one thing or another")
            elif self.first is True and _is_numeric(new):
                more[name] = new
        broken, done, result = frame.broken, frame.done, frame.result
        if done is not False and not _is_numeric(result):
            raise NotUnderstood("a loop that returns no number")
        # What only the last turn tells: any number of the type will do before the first.
        last = (
            more,
            broken if isinstance(broken, Value) else (),
            () if done is False else (done, result),
        )
        told = [*map(lift, _numbers(last))]
        first = [replace(one, atom=cast(lift(0), one.dtype).atom) for one in told]
        again = lift(self.going)
        *refs, goes_on = self._refs([*self.types, *told, again])
        found = self._carried(
            [goes_on, *refs],
            [lift(start), *self.initial, *first],
            [again, *self.now, *told],
        )
        held, (others, left, returned) = _rebuilt((self.held, last), found)
        frame.begin(self.before)
        frame.names |= held | others
        frame.broken = left or broken
        if returned:
            frame.done, frame.result = returned
            if self.endless and broken is False:
                frame.done = True

    def _carried(
        self, refs: list[Ref], before: list[Value], after: list[Value]
    ) -> Iterator[Value]:
        """The values after the last turn; the first that is carried is whether there is a turn."""

        def given(values: list[Value]) -> Atoms:
            return tuple(cast(v, ref.dtype).atom for v, ref in zip(values, refs, strict=True))

        with reading.changed(body=self.body, path=()):
            ends = given(after)
        carried = tuple(zip(refs, given(before), strict=True))
        body = self.body.assignments(ends, own=True)
        loop = reading.body.emit(Loop(carried, body, ends, self.index, self.most))
        for number in range(1, len(refs)):
            weak = before[number].weak and after[number].weak
            yield emit(Carried(refs[number].dtype, loop, number), weak)


def leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements always leave the turn of a loop."""
    match statements:
        case [*_, ast.Break() | ast.Continue()]:
            return True
        case [*_, ast.If(body=body, orelse=orelse)]:
            return leaves(body) and leaves(orelse)
        case _:
            return False


def ends_early(loop: ast.For) -> bool:
    """Whether a loop may end before its time: by a return, or a break that is of no other loop."""
    nodes = own_nodes(loop, ast.For, ast.While)
    return any(isinstance(one, ast.Return) for one in own_nodes(loop)) or any(
        isinstance(one, ast.Break) for one in nodes
    )


def _is_numeric(value: Any) -> bool:
    """Whether a value is a number, or a tuple of such."""
    return all(map(is_single, _numbers(value)))


def _numbers(value: Any) -> Iterator[Any]:
    """The numbers of a value."""
    match value:
        case Buffer(items=items):
            yield from items
        case dict():
            yield from _numbers((*value.values(),))
        case tuple():
            for one in value:
                yield from _numbers(one)
        case _:
            yield value


def _layout(value: Any) -> Any:
    """The value without its numbers."""
    return _rebuilt(value, repeat(None))


def _rebuilt(value: Any, numbers: Iterator[Any]) -> Any:
    """The value with other numbers."""
    match value:
        case tuple():
            return tuple(_rebuilt(one, numbers) for one in value)
        case dict():
            return {name: _rebuilt(one, numbers) for name, one in value.items()}
        case Buffer(items=items):
            return replace(value, items=_rebuilt(items, numbers))
    return next(numbers)


# What neither tier runs.
_REFUSED = frozenset(
    "Raise Assert Try TryStar With Import ImportFrom ClassDef Global Nonlocal Delete Match Dict "
    "DictComp Set SetComp Yield YieldFrom AsyncFunctionDef JoinedStr".split()
)


def refuse(function: Function) -> None:
    """Raise for a construct that no tier can run."""
    for node in ast.walk(function.definition):
        if (name := type(node).__name__) in _REFUSED:
            raise mistake("unsupported", function.span(node), f"'{name.lower()}'")


def refuse_node(node: ast.AST) -> NoReturn:
    """Raise for a construct that is not analysed."""
    name = type(node).__name__
    if name in _REFUSED:
        raise mistake("unsupported", f"'{name.lower()}'")
    raise NotUnderstood(f"'{name.lower()}'")
