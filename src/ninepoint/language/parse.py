"""Read a kernel: follow its text once, with names for the numbers that are not yet known.

    def edge(x):                        t0 = read x +1
        d = x[1] - x[-1]        ->      t1 = read x -1
        return d if d > 0 else 0        t2 = t0 - t1;  t3 = t2 > 0;  t4 = t3 ? t2 : 0

Constants fold, helper functions are read in place, and both sides of a branch become a selection;
loops are those of `control`.  A path that has returned is remembered as a truth
(`done`), so a `return` may stand anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from . import errors, ir
from .box import Neighborhood
from .buffers import made, stored, written_names
from .control import Control
from .dtypes import DType, value_type
from .expressions import BINARY
from .frame import Axes, Undefined, refuse_node
from .ir import Kernel
from .kinds import Length
from .parameters import indices
from .source import Function
from .values import (
    UNROLLED_LIMIT,
    Closure,
    Coefficients,
    Field,
    NotUnderstood,
    Operations,
    Value,
    constant,
    length_label,
    scalar_label,
    words,
)

Argument: TypeAlias = Field | Coefficients | Value


def read(
    function: Function,
    arguments: Mapping[str, Argument],
    neighborhood: Neighborhood | None = None,
    factors: ir.Offset = (),
) -> Kernel:
    """Make the kernel of `function` for arguments of given types.

    With `factors` its outputs are those of all points around an element, one phase after the
    other: those of the point 0, then those of the point 1 along the last axis, and so on.

    Raises
    ------
    StencilError
        If the text holds a mistake.
    NotUnderstood
        If the text holds something that only the general path can run.
    """
    # What is written out at such length is no shorter on the general path.
    written = sum(isinstance(node, ast.expr) for node in ast.walk(function.definition))
    operations = Operations(function.place, max(UNROLLED_LIMIT, written))
    operations.unsigned = any(_is_unsigned(argument) for argument in arguments.values())
    fields = [n for n, argument in arguments.items() if isinstance(argument, Field)]
    pointwise = [a for a in arguments.values() if isinstance(a, Field) and a.pointwise]
    ndim = Axes(neighborhood, indices(function, fields), bool(pointwise), factors)
    names = {n: _labelled(n, argument) for n, argument in arguments.items()}
    found: list[list[Value]] = []
    for phase in np.ndindex(*factors):
        ndim.phase = phase
        frame = _Statements(function, dict(names), operations, ndim)
        for field in pointwise:
            here = (0,) * (ndim.count or 1)
            dtype = value_type(field.storage)
            frame.names[field.name] = operations.emit(ir.Read(dtype, field.label, here))
        found.append(_results(frame, operations))
        if len(found[0]) != len(found[-1]):
            raise errors.return_mismatch(frame.returned, len(found[0]), len(found[-1]))
    if ndim.count is None:
        raise errors.no_field(function.place, function.name)
    alike = [operations.alike(same) for same in zip(*found, strict=True)]
    outputs = [one for together in zip(*alike, strict=True) for one in together]
    measured = sorted(ndim.measured)
    body = operations.body.assignments(tuple(outputs))
    read = {assign.value.field for assign in body if isinstance(assign.value, ir.Read)}
    positions = {k: v for k, v in sorted(operations.positions.items()) if k in read}
    return Kernel(
        ndim=ndim.count,
        fields=(
            *((a.label, a.storage) for a in names.values() if isinstance(a, Field)),
            *((label, np.dtype("int64")) for label in positions),
        ),
        scalars=(
            *(
                (a.atom.name, a.dtype)
                for a in names.values()
                if isinstance(a, Value) and isinstance(a.atom, ir.Ref)
            ),
            *((length_label(axis), DType.INT) for axis in measured),
        ),
        coefficients=tuple(
            (a.label, a.storage, a.shape) for a in names.values() if isinstance(a, Coefficients)
        ),
        body=body,
        outputs=tuple(outputs),
        lengths=tuple(map(Length, measured)),
        positions=tuple(positions.values()),
    )


def _results(frame: _Statements, operations: Operations) -> list[Value]:
    """The numbers that a function gives."""
    result = frame.run()
    values = []
    for value in result if isinstance(result, tuple) else (result,):
        if isinstance(value, Value | bool | int | float | complex | np.number):
            lifted = operations.lift(value)
            if lifted.shape is None:
                values.append(lifted)
                continue
        raise errors.not_a_number(frame.returned, words(value))
    return values


def _is_unsigned(argument: Argument) -> bool:
    return (
        argument.dtype is DType.UINT
        if isinstance(argument, Value)
        else argument.storage == np.uint64
    )


def _labelled(name: str, argument: Argument) -> Argument:
    """The argument as the kernel knows it."""
    if isinstance(argument, Value):
        return replace(argument, atom=ir.Ref(argument.dtype, scalar_label(name)))
    return argument


class _Statements(Control):
    """A frame that follows statements; a path that has returned is remembered as a truth."""

    def run(self) -> Any:
        """The value that the function returns."""
        definition = self.function.definition
        if isinstance(definition, ast.Lambda):
            self._return(definition.body, self.eval(definition.body))
        else:
            self.block(definition.body)
        if self.done is not True:
            raise errors.no_return(self.function.place, self.function.name)
        return self.result

    def statement(self, node: ast.stmt) -> None:
        span = self.at(node)
        match node:
            case ast.Return(value=value):
                if value is None:
                    raise errors.no_return(span, self.function.name)
                self._return(value, self.eval(value))
            case ast.Assign(targets=targets, value=value):
                known = self.eval(value)
                if isinstance(known, np.ndarray) and len(targets) == 1:
                    known = self.owned(targets[0], known, value)
                for target in targets:
                    self.assign(target, known)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.assign(target, self.eval(value))
            case ast.AugAssign(target=target, op=op, value=value):
                if isinstance(target, ast.Name):
                    left = self.name(target)
                elif isinstance(target, ast.Subscript) and self.buffer(target.value):
                    left = self.subscript(target)
                else:
                    self.assign(target, None)
                    return
                right = self.eval(value)
                self.at(node)
                self.assign(target, self.binary(BINARY.get(type(op), "@"), left, right))
            case ast.If(test=test, body=body, orelse=orelse):
                self.branch(self.truth(test), body, orelse)
            case ast.For() | ast.While():
                self.loop(node)
            case ast.Break():
                self.left = self.broken = True
            case ast.Continue():
                self.left = True
            case ast.FunctionDef(name=name):
                self.names[name] = Closure(node, self.names)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return
            case ast.Expr(value=value):
                if any(isinstance(part, ast.Call) for part in ast.walk(value)):
                    raise NotUnderstood("a call whose result is not used", span)
                self.eval(value)
            case _:
                refuse_node(node, span)

    def _return(self, node: ast.expr, value: Any) -> None:
        self.returned = self.at(node)
        if len(self.active) == 1:
            self._checked_result(value)
        self.has_returned(True, value)

    def has_returned(self, done: Any, result: Any) -> None:
        if self.done is False:
            self.done, self.result = done, result
            return
        first, second = self.result, result
        self._check_counts(first, second)
        self.result = self.ops.select(self.done, first, second)
        self.done = self.ops.logical("|", self.done, done)

    def _checked_result(self, value: Any) -> None:
        """Raise for what can never be the value of a point; helpers may return more."""
        for item in value if isinstance(value, tuple) else (value,):
            if item is None or isinstance(item, str | tuple | Field):
                raise errors.not_a_number(self.returned, words(item))
        if isinstance(value, tuple) and not value:
            raise errors.not_a_number(self.returned, words(value))

    def branch(self, test: Any, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        if isinstance(test, bool):
            self.block(body if test else orelse)
            return
        self.split(test, partial(self.block, body), partial(self.block, orelse))

    def split(
        self, test: Any, then: Callable[[], None], other: Callable[[], None], *, rest: bool = False
    ) -> None:
        before = self.state()
        if rest:
            self.left = self.broken = False
        with self.ops.assuming(test, True):
            then()
        names, done, result, left, broken = self.state()
        self.restore(before)
        if rest:
            self.left = True
        with self.ops.assuming(test, False):
            other()
        self.left = self._either(test, left, self.left)
        self.broken = self._either(test, broken, self.broken)
        # A side that has always returned leaves no names behind.
        if done is not True and self.done is not True:
            self.names = self._joined(test, names, self.names)
        elif done is not True:
            self.names = names
        first, second = done, self.done
        if first is False and second is False:
            return
        self.done = self._either(test, first, second)
        if first is False or second is False:
            self.result = self.result if first is False else result
            return
        self._check_counts(result, self.result)
        self.result = self.merge(test, result, self.result)

    def _check_counts(self, one: Any, other: Any) -> None:
        """Raise where two ways to return give another number of values."""
        counts = [len(v) if isinstance(v, tuple) else 1 for v in (one, other)]
        if counts[0] != counts[1]:
            raise errors.return_mismatch(self.returned, counts[0], counts[1])

    def _either(self, test: Any, then: Any, other: Any) -> Any:
        """One truth where a test holds, and the other where it does not."""
        if then is other or (isinstance(then, bool) and isinstance(other, bool) and then == other):
            return then
        return self.ops.logical(
            "|",
            self.ops.logical("&", test, then),
            self.ops.logical("&", self.ops.unary("not", test), other),
        )

    def _joined(self, test: Any, then: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        joined: dict[str, Any] = {}
        for name in [*then, *(n for n in other if n not in then)]:
            a, b = then.get(name, Undefined(name)), other.get(name, Undefined(name))
            if a is b:
                joined[name] = a
            elif isinstance(a, Undefined) or isinstance(b, Undefined):
                joined[name] = Undefined(name)
            else:
                joined[name] = self.merge(test, a, b)
        return joined

    def owned(self, target: ast.expr, array: np.ndarray, value: ast.expr) -> Any:
        """A new array that only its name stands for, as a buffer if that is written to."""
        names = written_names(self.function.definition)
        if isinstance(target, ast.Name) and target.id in names and isinstance(value, ast.Call):
            maker = self.function.constants.get(ast.unparse(value.func))
            return made(self.ops, array, maker, self)
        return array

    def assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                if isinstance(value, np.ndarray):
                    value = tuple(constant(v) for v in value)
                stars = any(isinstance(t, ast.Starred) for t in targets)
                if isinstance(value, Value):
                    if value.shape is None:
                        raise errors.bad_operand(self.at(target), "Unpacking", words(value))
                    if value.shape[0] != len(targets) and not stars:
                        raise errors.unpacking(self.at(target), value.shape[0], len(targets))
                if not isinstance(value, tuple):
                    raise NotUnderstood("unpacking something that is no tuple", self.at(target))
                targets, value = _gathered(targets, value)
                if len(value) != len(targets):
                    raise errors.unpacking(self.at(target), len(value), len(targets))
                for item, one in zip(targets, value, strict=True):
                    self.assign(item, one)
            case ast.Subscript(value=base):
                if (buffer := self.buffer(base)) is not None and isinstance(base, ast.Name):
                    where = self.place(buffer, target)
                    self.names[base.id] = stored(self.ops, buffer, where, value, self.at(target))
                    return
                span = self.at(target)
                held = self.eval(base)
                if isinstance(held, Field | Coefficients):
                    raise errors.assigned_field(span, held.name)
                if isinstance(base, ast.Name) and base.id not in self.names:
                    raise errors.assigned_constant(span, base.id)
                raise NotUnderstood("a buffer that is written to", span)
            case _:
                raise NotUnderstood("an assignment to an attribute", self.at(target))


def _gathered(
    targets: list[ast.expr], values: tuple[Any, ...]
) -> tuple[list[ast.expr], tuple[Any, ...]]:
    """The targets of an unpacking without a star, which takes what the others leave."""
    for place, target in enumerate(targets):
        if isinstance(target, ast.Starred):
            after = len(targets) - place - 1
            if len(values) < place + after:
                return targets, values
            end = len(values) - after
            taken = (*values[:place], values[place:end], *values[end:])
            return [*targets[:place], target.value, *targets[place + 1 :]], taken
    return targets, values
