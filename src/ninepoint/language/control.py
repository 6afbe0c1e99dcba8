"""Control: which parts of a function have ended, and loops that carry values from turn to turn.

    while v > 1:             loop c = v, k = 0 while going
        v = v / 2      ->        u0 = c / 2;  u1 = k + 1;  u2 = u0 > 1
        k += 1                   next u2, u0, u1

The types of what the body of a loop assigns are found by reading the body again, until a turn
leaves them as they were.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.frozen import frozen
from .definitions import Function, stored_names
from .dtypes import promote
from .errors import Span, here
from .ir import Atoms, Carried, Const, DType, Loop, Ref
from .operations import active, cast, lift, logical, truth, unary, under
from .values import Body, Buffer, NotUnderstood, Value, emit, is_single, reading

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
        self.hidden |= self.function.own
        self.returned = self.span(self.function.definition)

    def begin(self, names: Mapping[str, Any]) -> None:
        """Begin a path with these names, on which nothing has ended."""
        self.names = dict(names)
        self.done = self.left = self.broken = False

    def at(self, node: ast.AST) -> None:
        """Let mistakes point to a part of the text from here on."""
        if not self.hidden:
            here.place = self.function, node

    def span(self, node: ast.AST) -> Span:
        """Where mistakes in a part of the text point to."""
        return here.span if self.hidden else self.function.span(node)

    def ended(self, loop: bool = False) -> Any:
        """The truth that the function has ended, or the loop, or else the turn of that."""
        return logical("|", self.done, self.broken if loop else self.left)

    @abstractmethod
    def block(self, statements: list[ast.stmt]) -> None:
        """Follow statements until the function has returned."""

    @abstractmethod
    def split(self, test: Any, then: Callable[[], None]) -> None:
        """Follow a path where a truth holds."""


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

    It has a turn of some number where the `test` of that is true, and `begin` is called with the
    number where the turn begins.  There are no more than `most` turns, if that is not 0.
    """

    frame: Frame
    node: ast.For | ast.While
    test: Callable[[Any], Any]
    begin: Callable[[Any], None] = lambda _: None
    most: int = 0
    # Whether nothing but a way out of it ends it; known once it is read.
    endless: bool = False

    def __post_init__(self) -> None:
        frame = self.frame
        self.first = truth(self.test(0))
        frame.at(self.node)
        self.span = here.span
        self.before = dict(frame.names)
        head = self.node.target if isinstance(self.node, ast.For) else self.node.test
        self.stored = sorted(stored_names([*self.node.body, head]))
        # The names that hold numbers, what these are before the first turn, and their types.
        self.names = [name for name in self.stored if _is_numeric(self.before.get(name))]
        self.held = tuple(self.before[name] for name in self.names)
        self.initial = [lift(one) for one in _numbers(self.held)]
        self.types = [_Type(one.dtype, one.weak) for one in self.initial]
        self.level = reading.body.depth + 1
        self.index = Ref(DType.INT, f"n{self.level}_0")
        # What it carries, by the names in a turn.
        self.refs: list[Ref] = []

    def follow(self) -> None:
        """Go on with what is after the last turn."""
        start = logical("&", active(), self.first)
        if start is False:
            return
        if self._read():
            self._leave(start)
        else:
            self.frame.begin(self.before)
            self.frame.split(self.first, self.once)

    def once(self, index: Any = 0) -> None:
        """Follow a turn of this number."""
        self.begin(index)
        self.frame.block(self.node.body)
        self.frame.left = False

    def _turn(self) -> Any:
        """Follow a turn; gives the truth that there is another."""
        frame, index = self.frame, Value(self.index, True)
        self.once(index)
        ended = frame.ended(loop=True)
        if ended is True:
            return False
        with under(ended, False):
            again = truth(self.test(index + 1))
        self.endless = again is True
        return logical("&", unary("not", ended), again)

    def _read(self) -> bool:
        """Read turns until the types are known; gives whether there may be more than one turn."""
        if reading.unsigned:
            # A literal takes the sign of what it meets first.
            self._read_turn(literal=True)
            self.types = self._joined()
        for _ in range(_READ):
            self._read_turn()
            if self.going is False:
                return False
            joined = self._joined()
            if joined == self.types:
                return True
            self.types = joined
        raise NotUnderstood("a loop that changes the types of its values", self.span)

    def _joined(self) -> list[_Type]:
        """The types of what names hold before and after the turn that was read."""
        triples = zip(self.types, self.initial, self._now(), strict=True)
        return [kind.joined(one, after) for kind, one, after in triples]

    def _read_turn(self, *, literal: bool = False) -> None:
        frame = self.frame
        self.refs = []
        frame.begin(self.before)
        if not literal:
            heads = [Value(self._ref(kind.dtype), kind.weak) for kind in self.types]
            frame.names |= zip(self.names, _rebuilt(self.held, iter(heads)), strict=True)
        begins = frozenset(ref.name for ref in (*self.refs, self.index))
        outer = reading.body
        self.body = Body(f"u{self.level}_", self.span, outer.limit, self.level, outer, begins)
        # What is computed in a turn is so only if the turn is.
        with reading.changed(body=self.body, path=()):
            self.going = self._turn()

    def _ref(self, dtype: DType) -> Ref:
        """A name for one more value that is carried."""
        self.refs.append(Ref(dtype, f"c{self.level}_{len(self.refs)}"))
        return self.refs[-1]

    def _now(self) -> list[Value]:
        """The numbers that the names hold at the end of a turn."""
        now = [self.frame.names.get(name) for name in self.names]
        for before, after in zip(self.held, now, strict=True):
            if not _is_numeric(after) or len([*_numbers(after)]) != len([*_numbers(before)]):
                raise NotUnderstood("a name that is one thing or another", self.span)
        return [lift(one) for one in _numbers(tuple(now))]

    def _leave(self, start: Any) -> None:
        """Carry the values, and go on with those after the last turn."""
        frame = self.frame
        more: list[str] = []
        for name in sorted({*self.stored} - {*self.names}):
            new, old = frame.names.get(name), self.before.get(name)
            if old is not None and old is not UNDEFINED:
                alike = isinstance(old, Value) and isinstance(new, Value) and old.atom == new.atom
                if old is not new and not alike:
                    raise NotUnderstood("a name that is one thing or another", self.span)
            elif self.first is True and _is_numeric(new):
                more.append(name)
        broken, done, result = frame.broken, frame.done, frame.result
        if done is not False and not _is_numeric(result):
            raise NotUnderstood("a loop that returns no number", self.span)
        # What only the last turn tells: any number of the type will do before the first.
        last = (
            tuple(frame.names[name] for name in more),
            broken if isinstance(broken, Value) else (),
            () if done is False else (done, result),
        )
        told = [*map(lift, _numbers(last))]
        first = [replace(one, atom=cast(lift(0), one.dtype).atom) for one in told]
        before, after = [*self.initial, *first], [*self._now(), *told]
        for one in told:
            self._ref(one.dtype)
        loop = self._emit(start, before, after)
        found = (
            emit(Carried(ref.dtype, loop, number), one.weak and other.weak)
            for number, (ref, one, other) in enumerate(
                zip(self.refs, before, after, strict=True), 1
            )
        )
        held, (others, left, returned) = _rebuilt((self.held, last), found)
        frame.begin(self.before)
        frame.names |= {n: UNDEFINED for n in self.stored if n not in self.before}
        frame.names |= zip([*self.names, *more], [*held, *others], strict=True)
        frame.broken = left or broken
        if returned:
            frame.done, frame.result = returned
            if self.endless and broken is False:
                frame.done = True

    def _emit(self, start: Any, before: list[Value], after: list[Value]) -> Ref:
        """The loop, whose first value is whether it goes on."""

        def given(goes_on: Any, values: list[Value]) -> Atoms:
            pairs = zip(values, self.refs, strict=True)
            return lift(goes_on).atom, *(cast(value, ref.dtype).atom for value, ref in pairs)

        with reading.changed(body=self.body, path=()):
            ends = given(self.going, after)
        going = Ref(DType.BOOL, f"c{self.level}_{len(self.refs)}")
        carried = tuple(zip([going, *self.refs], given(start, before), strict=True))
        body = self.body.assignments(ends)
        return reading.body.emit(Loop(carried, body, ends, self.index, self.most))


def leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements always leave the turn of a loop."""
    match statements:
        case [*_, ast.Break() | ast.Continue()]:
            return True
        case [*_, ast.If(body=body, orelse=orelse)]:
            return leaves(body) and leaves(orelse)
        case _:
            return False


def with_rest(branch: ast.If, rest: list[ast.stmt]) -> ast.If:
    """A branch, one side of which leaves the turn, with what comes after in the other side."""
    first = leaves(branch.body)
    body = branch.body if first else [*branch.body, *rest]
    orelse = [*branch.orelse, *rest] if first else branch.orelse
    return ast.copy_location(ast.If(branch.test, body, orelse), branch)


def ends_early(nodes: Iterable[ast.AST], broken: bool = True) -> bool:
    """Whether a loop may end before its time: by a return, or as it is `broken`."""
    for node in nodes:
        if isinstance(node, ast.Return) or (broken and isinstance(node, ast.Break)):
            return True
        # What breaks a loop inside ends that loop only.
        inside = broken and not isinstance(node, ast.For | ast.While)
        function = isinstance(node, ast.FunctionDef | ast.Lambda)
        if not function and ends_early(ast.iter_child_nodes(node), inside):
            return True
    return False


def _is_numeric(value: Any) -> bool:
    """Whether a value is a number, or a tuple of such."""
    return all(map(is_single, _numbers(value)))


def _numbers(value: Any) -> Iterator[Any]:
    """The numbers of a value."""
    match value:
        case Buffer(items=items):
            yield from items
        case tuple():
            for one in value:
                yield from _numbers(one)
        case _:
            yield value


def _rebuilt(value: Any, numbers: Iterator[Value]) -> Any:
    """The value with other numbers."""
    match value:
        case tuple():
            return tuple(_rebuilt(one, numbers) for one in value)
        case Buffer(items=items):
            return replace(value, items=_rebuilt(items, numbers))
    return next(numbers)
