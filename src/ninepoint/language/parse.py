"""Read a kernel: follow its text once, with names for the numbers that are not yet known.

    def edge(x):                        t0 = read x +1
        d = x[1] - x[-1]        ->      t1 = read x -1
        return d if d > 0 else 0        t2 = t0 - t1;  t3 = t2 > 0;  t4 = t3 ? t2 : 0

Constants fold, helper functions are read in place, and both sides of a branch become a selection.

    if v > 0: return v       ->      done where v > 0
    return 0                         v > 0 ? v : 0

A path that has returned is remembered as a truth (`done`), so a `return` may stand anywhere; where
a turn of a loop, or the loop, has ended is one as well (`left`, `broken`), so that what comes
after is read as a branch.  A loop over a constant range is written out, unless it is long and may
end before its time; any other carries values, see `control`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .control import UNDEFINED, CarriedLoop, ends_early, leaves, with_rest
from .definitions import ArrayFunction, Definition, Function, dotted, target_names
from .dtypes import value_type
from .errors import StencilError, here, mistake
from .expressions import Expressions, refuse_node
from .ir import (
    Argument,
    Atom,
    Coefficients,
    DType,
    Field,
    Kernel,
    Neighborhood,
    Offset,
    Read,
    Ref,
    Scalar,
    operands,
)
from .operations import alike, lift, logical, unary, under
from .parameters import indices
from .subscripts import made, stored, which
from .values import (
    UNROLLED_LIMIT,
    Body,
    Met,
    NotUnderstood,
    Steps,
    Value,
    constant,
    emit,
    is_single,
    reading,
    several,
    words,
)

# A loop over a constant range that may end before its time is written out if it has no more turns
# than this, and any if it has no more than that.
_SHORT, _LONG = 8, 500


def read(
    function: Function,
    arguments: Mapping[str, Argument],
    neighborhood: Neighborhood | None = None,
    factors: Offset = (),
    *,
    calls: bool = False,
) -> Kernel:
    """Make the kernel of `function` for arguments of given types.

    With `factors` its outputs are those of all points around an element, one phase after the
    other: those of the point 0, then those of the point 1 along the last axis, and so on.

    What calls of stencils make is among the arguments, as far as the kernel reads it; while only
    `calls` are asked for, it need not be.

    Raises
    ------
    StencilError
        If the text holds a mistake.
    NotUnderstood
        If the text holds something that only the general path can run.
    """
    try:
        kernel = _read(function, arguments, neighborhood, factors)
        if calls or reading.stages.read <= arguments.keys():
            return kernel
        reason, place = "calls that depend on the types of fields", function.place
    except NotUnderstood as error:
        stencils = (one for one in function.constants.values() if isinstance(one, ArrayFunction))
        # A ufunc is a stage only where it is called on a field.
        if not reading.stages.calls and all(one.definition.pointwise for one in stencils):
            raise
        reason, place = error.reason, error.span
    raise mistake("stage-general", place, function.name, reason)


def _read(
    function: Function,
    arguments: Mapping[str, Argument],
    neighborhood: Neighborhood | None,
    factors: Offset,
) -> Kernel:
    storages = {n: one.storage for n, one in arguments.items() if isinstance(one, Field)}
    any_one = next(iter(storages.values()), np.dtype("int64"))
    here.place = function, function.definition
    reading.neighborhood, reading.factors = neighborhood, factors
    reading.count = None if neighborhood is None else len(neighborhood)
    reading.shown = indices(function, storages)
    reading.pointwise = any(isinstance(a, Field) and a.pointwise for a in arguments.values())
    reading.unsigned = any(
        one.dtype is DType.UINT if isinstance(one, Scalar) else one.storage == np.uint64
        for one in arguments.values()
    )
    reading.stages = Met({*function.parameters}, any_one, storages)
    # What is written out at such length is no shorter on the general path.
    written = sum(isinstance(node, ast.expr) for node in ast.walk(function.definition))
    limit = max(UNROLLED_LIMIT, written)
    reading.body, reading.windows = Body("t", here.span, limit), Body("w", here.span, limit)
    reading.written_out, reading.path, reading.positions = 0, (), {}
    point = (0,) * (reading.count or 1)
    found: list[list[Value]] = []
    for phase in np.ndindex(*factors):
        reading.phase = phase
        # A field that is missing is given to other stencils only.
        names = {
            name: _value(arguments.get(name, Field(name, any_one)), point)
            for name in function.parameters
        }
        frame = Statements(function, names)
        found.append([*map(lift, several(frame.run(function.definition)))])
        if len(found[0]) != len(found[-1]):
            raise mistake("return-mismatch", frame.returned, len(found[-1]), len(found[0]))
    if reading.count is None:
        raise mistake("no-field", function.place, function.name)
    together = [alike(same) for same in zip(*found, strict=True)]
    outputs = tuple(one for phases in zip(*together, strict=True) for one in phases)
    return _kernel(arguments, outputs, reading.count)


def _kernel(arguments: Mapping[str, Argument], outputs: tuple[Atom, ...], ndim: int) -> Kernel:
    """What was read, as far as the outputs need it."""
    body = reading.body.assignments(outputs)
    used = {name for one in body for name in operands(one.value)}
    used |= {one.name for one in outputs if isinstance(one, Ref)}
    lengths = {f"length{k}": k for k in range(ndim) if f"length{k}" in used}
    read = {assign.value.field for assign in body if isinstance(assign.value, Read)}
    positions = {k: v for k, v in sorted(reading.positions.items()) if k in read}
    kinds = arguments.values()
    fields = [(one.label, one.storage) for one in kinds if isinstance(one, Field)]
    scalars = [(one.label, one.dtype) for one in kinds if isinstance(one, Scalar)]
    small = [(a.label, a.storage, a.shape) for a in kinds if isinstance(a, Coefficients)]
    return Kernel(
        ndim,
        (*fields, *((label, np.dtype("int64")) for label in positions)),
        (*scalars, *((label, DType.INT) for label in lengths)),
        tuple(small),
        body,
        outputs,
        lengths=tuple(lengths.values()),
        positions=tuple(positions.values()),
    )


def _value(argument: Argument, point: Offset) -> Field | Coefficients | Value:
    """What stands for an argument while the text is read."""
    match argument:
        case Scalar():
            return Value(Ref(argument.dtype, argument.label), argument.weak)
        case Field(pointwise=True):
            return emit(Read(value_type(argument.storage), argument.label, point))
        case _:
            return argument


def _either(test: Any, then: Any, other: Any) -> Any:
    """One truth where a test holds, and the other where it does not."""
    if then is other:
        return then
    if then is True:
        return logical("|", test, other)
    return logical("|", logical("&", test, then), logical("&", unary("not", test), other))


class Statements(Expressions):
    """A frame that follows statements."""

    def run(self, definition: Definition) -> Any:
        if isinstance(definition, ast.Lambda):
            self._return(definition.body, self.eval(definition.body))
            return self.result
        self.block(definition.body)
        if self.done is not True:
            raise mistake("no-return", self.span(definition), definition.name)
        return self.result

    def statement(self, node: ast.stmt) -> None:
        self.at(node)
        match node:
            case ast.Return(value=value):
                if value is None:
                    raise mistake("no-return", self.function.name)
                self._return(value, self.eval(value))
            case ast.Assign(targets=targets, value=value):
                if isinstance(value, ast.Call):
                    self.at(value)
                    known = self.call(value, target_names(targets[0]))
                    known = self.owned(targets, known, self.outside(value.func))
                else:
                    known = self.eval(value)
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
            case ast.For() | ast.While():
                self.loop(node)
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

    def _return(self, node: ast.expr, value: Any) -> None:
        self.at(node)
        self.returned = here.span
        for item in several(value) or (value,):
            # Helpers may return more.
            if len(self.active) == 1 and not is_single(item):
                raise mistake("not-a-number", self.returned, words(item))
        self.done, self.result = True, value

    def split(
        self,
        test: Any,
        then: Callable[[], None] = lambda: None,
        other: Callable[[], None] = lambda: None,
        *,
        rest: bool = False,
    ) -> None:
        """Follow one path where a truth holds and another where it does not.

        The `rest` of a block, or of a loop, is the other: where the truth holds, that has ended.
        """
        if isinstance(test, bool):
            return then() if test else other()
        before = dict(self.names)
        with under(test, True):
            then()
        names, result, ended = self.names, self.result, (self.done, self.left, self.broken)
        done, left, broken = ((rest and one is test) or one for one in ended)
        self.begin(before)
        with under(test, False):
            other()
        self.left = _either(test, left, self.left)
        self.broken = _either(test, broken, self.broken)
        # A side that has always returned leaves no names behind.
        if done is not True and self.done is not True:
            sides = names, self.names
            self.names = {
                name: self.merge(test, *(side.get(name, UNDEFINED) for side in sides))
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

    def owned(self, targets: list[ast.expr], value: Any, maker: str) -> Any:
        """A new array that one name alone stands for, as a buffer if that is written to."""
        match targets:
            case [ast.Name(id=name)] if isinstance(value, np.ndarray):
                nodes = ast.walk(self.function.definition)
                parts = [node for node in nodes if isinstance(node, ast.Subscript)]
                if any(isinstance(p.ctx, ast.Store) and dotted(p.value) == name for p in parts):
                    return made(value, self.function.constants.get(maker), self)
        return value

    def assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                if isinstance(value, np.ndarray):
                    value = tuple(map(constant, value))
                stars = [n for n, one in enumerate(targets) if isinstance(one, ast.Starred)]
                self.at(target)
                if isinstance(value, Value):
                    if not value.shape:
                        raise mistake("bad-operand", "Unpacking", words(value))
                    if value.shape[0] != len(targets) and not stars:
                        raise mistake("unpacking", len(targets), value.shape[0])
                if not isinstance(value, tuple):
                    raise NotUnderstood("unpacking something that is no tuple")
                if stars and (more := len(value) - len(targets)) >= -1:
                    # It takes what the others leave.
                    begin, end = stars[0], stars[0] + more + 1
                    value = (*value[:begin], value[begin:end], *value[end:])
                if len(value) != len(targets):
                    raise mistake("unpacking", len(targets), len(value))
                for item, one in zip(targets, value, strict=True):
                    self.assign(item, one)
            case ast.Starred(value=several):
                self.assign(several, value)
            case ast.Subscript(value=base):
                if (buffer := self.buffer(base)) is not None and isinstance(base, ast.Name):
                    index = self.eval(target.slice)
                    self.at(target)
                    where = which(buffer, index, base.id)
                    self.names[base.id] = stored(buffer, where, value)
                    return
                held = self.eval(base)
                self.at(target)
                if isinstance(held, Field | Coefficients):
                    raise mistake("assigned-field", held.name)
                if isinstance(base, ast.Name) and base.id not in self.names:
                    raise mistake("assigned-constant", base.id)
                raise NotUnderstood("a buffer that is written to")
            case _:
                raise NotUnderstood("an assignment to an attribute", self.span(target))

    # Loops.

    def block(self, statements: list[ast.stmt]) -> None:
        steps: list[Callable[[], None]] = []
        for place, statement in enumerate(statements, 1):
            # Read so, a name that one side alone gives a value has it where that side goes on.
            if isinstance(statement, ast.If) and leaves(statement.body) != leaves(
                statement.orelse
            ):
                steps.append(partial(self.statement, with_rest(statement, statements[place:])))
                break
            steps.append(partial(self.statement, statement))
        self._follow(steps)

    def _follow(self, steps: Sequence[Callable[[], None]], *, turns: bool = False) -> None:
        """Follow statements, or the turns of a loop, until these or the function have ended."""
        for place, step in enumerate(steps, 1):
            step()
            rest, ended = steps[place:], self.ended(turns)
            if not rest or ended is True:
                return
            if ended is not False:
                self.split(ended, other=partial(self._follow, rest, turns=turns), rest=True)
                return

    def loop(self, node: ast.For | ast.While) -> None:
        """Follow a loop, and what it does at its end."""
        if isinstance(node, ast.While):
            CarriedLoop(self, node, lambda _: self.truth(node.test)).follow()
        else:
            self._for(node)
        ended = self.ended(loop=True)
        self.left = self.broken = False
        if node.orelse:
            self.split(ended, other=partial(self.block, node.orelse), rest=True)

    # Kinds of loops.

    def _for(self, node: ast.For) -> None:
        steps, counted = self.eval(node.iter), None
        if isinstance(steps, Steps):
            self._counted(node, steps)
            return
        if isinstance(steps, range):
            # Tried, for its turns may need to know their number.
            counted = partial(self._counted, node, steps, len(steps))
            few = len(steps) <= (_SHORT if ends_early(node.body) else _LONG)
            if not few and self._tried(counted) is None:
                return

        def turn(item: Any) -> None:
            self.assign(node.target, item)
            self.block(node.body)
            self.left = False

        turns = [partial(turn, item) for item in self.items(node.iter)]
        reading.written_out += 1
        error = self._tried(partial(self._follow, turns, turns=True))
        reading.written_out -= 1
        if isinstance(error, NotUnderstood) and counted and not reading.written_out:
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
            reading.body.cut(size)
            self.begin(before)
            return error
        return None

    def _counted(self, node: ast.For, steps: Steps | range, most: int = 0) -> None:
        """A loop over a range."""
        start, step = steps.start, steps.step
        self.at(node.iter)
        low, count = (start, steps.stop) if step > 0 else (steps.stop, start)
        if not isinstance(low, int) or low:
            count = count - low
        if abs(step) > 1:
            count = (count + (abs(step) - 1)) // abs(step)

        def begin(turn: Any) -> None:
            self.at(node.target)
            value = turn if step == 1 else turn * step
            first = isinstance(start, int) and start == 0
            self.assign(node.target, value if first else value + start)

        CarriedLoop(self, node, lambda turn: count > turn, begin, most).follow()
