"""Read a kernel: follow its text once, with names for the numbers that are not yet known.

    def edge(x):                        t0 = read x +1
        d = x[1] - x[-1]        ->      t1 = read x -1
        return d if d > 0 else 0        t2 = t0 - t1;  t3 = t2 > 0;  t4 = t3 ? t2 : 0

What is known is computed while the text is read, the rest becomes operations.  Helper functions
are read in place, and both sides of a branch become a selection.

    2 * K + x[0]          ->     t0 = read x 0;  t1 = 6 + t0      where K is 3
    mean3(x)              ->     the text of `mean3`, with x
    np.sqrt(t0)           ->     Call(sqrt, t0)
    math.sqrt(2.0)        ->     1.4142135623730951
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .calls import Given, attribute, stage
from .control import UNDEFINED, Frame, refuse_node
from .definitions import (
    ArrayFunction,
    Function,
    SelfReference,
    Unusable,
    dotted,
    indices,
    target_names,
)
from .errors import here, mistake
from .functions import SYMBOLS
from .ir import (
    COMPARISONS,
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
    names_of,
    operands,
)
from .operations import binary, folded, in_one_type, lift, logical, select, truth, unary, under
from .signature import signature
from .subscripts import made, stored, subscript, which
from .values import (
    LONGEST,
    UNROLLED_LIMIT,
    Body,
    Buffer,
    Closure,
    Met,
    NotUnderstood,
    Value,
    constant,
    emit,
    is_known,
    is_number,
    reading,
    several,
    words,
)


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
    reading.unsigned = any(one.dtype is DType.UINT for one in arguments.values())
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
        frame = Expressions(function, names)
        found.append([*map(lift, several(frame.run(function.definition)))])
        if len(found[0]) != len(found[-1]):
            raise mistake("return-mismatch", frame.returned, len(found[-1]), len(found[0]))
    if reading.count is None:
        raise mistake("no-field", function.place, function.name)
    together = [in_one_type(same) for same in zip(*found, strict=True)]
    outputs = tuple(one for phases in zip(*together, strict=True) for one in phases)
    return _kernel(arguments, outputs, reading.count)


def _kernel(arguments: Mapping[str, Argument], outputs: tuple[Atom, ...], ndim: int) -> Kernel:
    """What was read, as far as the outputs need it."""
    body = reading.body.assignments(outputs)
    used = {*names_of(outputs), *(name for one in body for name in operands(one.value))}
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
            return emit(Read(argument.dtype, argument.label, point))
        case _:
            return argument


class Expressions(Frame):
    """A frame that understands every expression."""

    # Names, and what they may stand for.

    def name(self, name: str) -> Any:
        value = self.names.get(name, UNDEFINED)
        if value is UNDEFINED:
            raise mistake("maybe-undefined", name)
        if isinstance(value, Buffer):
            raise NotUnderstood("a buffer as a whole")
        return value

    def outside(self, node: ast.expr) -> Any:
        """What was captured from outside under a name, as `np.pi`; `UNDEFINED` for another."""
        name = dotted(node)
        captured = {} if name.partition(".")[0] in self.names else self.function.constants
        return captured.get(name, UNDEFINED)

    def buffer(self, node: ast.expr) -> Buffer | None:
        """The buffer that a name stands for, if it does."""
        found = self.names.get(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(found, Buffer):
            return None
        if found.owner is not self:
            self.at(node)
            raise NotUnderstood("a buffer of another function")
        return found

    def check_numbers(self, operation: str, *values: Any) -> None:
        """Raise unless every value can take part in arithmetic."""
        for value in values:
            if not isinstance(value, Value | np.ndarray | Coefficients) and not is_number(value):
                raise mistake("bad-operand", operation, words(value))

    # Expressions.

    def eval(self, node: ast.expr) -> Any:
        """What an expression is; then mistakes point to where they did before."""
        before = here.place
        self.at(node)
        value = self._value(node)
        here.place = before
        return value

    def _value(self, node: ast.expr) -> Any:
        captured = self.outside(node)
        if captured is not UNDEFINED:
            captured = constant(captured)
            if isinstance(captured, Unusable):
                raise mistake("bad-constant", dotted(node), captured.words)
            if isinstance(captured, ArrayFunction):
                raise mistake("ufunc-stage" if reading.pointwise else "stage-use", dotted(node))
            return captured
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.name(name)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self.spread(elements)
            case ast.UnaryOp(op=op, operand=operand):
                symbol, value = SYMBOLS[type(op)], self.eval(operand)
                if symbol == "not":
                    value = self.holds(node, value)
                else:
                    self.check_numbers(f"'{symbol}'", value)
                return unary(symbol, value)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(SYMBOLS.get(type(op), "@"), self.eval(left), self.eval(right))
            case ast.BoolOp(op=op, values=values):
                return self.bool_op(op, values)
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                holds = self.truth(test)
                if isinstance(holds, bool):
                    return self.eval(body if holds else orelse)
                with under(holds, True):
                    then = self.eval(body)
                with under(holds, False):
                    other = self.eval(orelse)
                return self.merge(holds, then, other)
            case ast.Subscript():
                base = self.buffer(node.value) or self.eval(node.value)
                return subscript(base, self.eval(node.slice), node)
            case ast.Attribute():
                return attribute(self.eval(node.value), node.attr)
            case ast.Call():
                return self.call(node)
            case ast.Lambda():
                return self.closure(node)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
                saved = dict(self.names)
                found = [self.eval(element) for _ in self.turns(node.generators)]
                self.names = saved
                return tuple(found)
            case ast.NamedExpr(target=target, value=value):
                known = self.eval(value)
                self.assign(target, known)
                return known
            case ast.Slice():
                return slice(*(p and self.eval(p) for p in (node.lower, node.upper, node.step)))
            case _:
                refuse_node(node)

    def binary(self, op: str, left: Any, right: Any) -> Any:
        if op == "@":
            raise NotUnderstood("a matrix product")
        texts = isinstance(left, str | tuple) and isinstance(right, str | tuple)
        if texts and op in ("+", *COMPARISONS):
            if op != "+" and not is_known((left, right)):
                raise NotUnderstood("a comparison of tuples")
            return folded(op, left, right)
        if isinstance(left, tuple) and isinstance(right, int) and op == "*":
            if len(left) * right > LONGEST:
                raise mistake("bad-operand", "'*'", f"{words(left)} and {right}")
            return left * right
        self.check_numbers(f"'{op}'", left, right)
        return binary(op, left, right)

    def bool_op(self, op: ast.boolop, nodes: list[ast.expr]) -> Any:
        value, both = self.eval(nodes[0]), isinstance(op, ast.And)
        for before, node in itertools.pairwise(nodes):
            holds = self.holds(before, value)
            if isinstance(holds, bool):
                if holds is not both:
                    return value
                value = self.eval(node)
                continue
            with under(holds, both):
                other = self.eval(node)
            self.at(node)
            self.check_numbers("'and'" if both else "'or'", other)
            if holds is value and truth(other) is other and isinstance(other, Value):
                value = logical("&" if both else "|", holds, other)
            else:
                then, value = (other, value) if both else (value, other)
                value = select(holds, then, value)
        return value

    def compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            match op:
                case ast.Is() | ast.IsNot():
                    # A number is never None; two numbers may or may not be one object.
                    if isinstance(left, Value) and isinstance(right, Value):
                        raise NotUnderstood("'is' between numbers")
                    one: Any = left is right
                case ast.In() | ast.NotIn():
                    if not isinstance(right, tuple | range):
                        raise NotUnderstood("'in' something that is no tuple")
                    one = False
                    for item in right:
                        one = logical("|", one, binary("==", left, item))
                case _:
                    one = self.binary(SYMBOLS[type(op)], left, right)
            if isinstance(op, ast.IsNot | ast.NotIn):
                one = unary("not", one)
            if len(node.ops) > 1:
                one = self.holds(node, one)
            result = logical("&", result, one)
            left = right
        return result

    def turns(self, loops: Sequence[ast.comprehension]) -> Iterator[None]:
        """Go through the loops of a comprehension, each inside those before it."""
        if not loops:
            yield
            return
        first, *inner = loops
        for item in self.items(first.iter):
            self.assign(first.target, item)
            tests = [self.truth(test) for test in first.ifs]
            if not all(isinstance(test, bool) for test in tests):
                self.at(first.ifs[-1])
                raise NotUnderstood("a condition that is not constant")
            if all(tests):
                yield from self.turns(inner)

    # Calls.

    def call(self, node: ast.Call, names: Sequence[str] = ()) -> Any:
        """What a call gives; of a stencil fields, for which `names` wait."""
        found = self.outside(node.func)
        if not isinstance(found, ArrayFunction):
            return self.invoke(self.eval(node.func), self.given(node))
        callee, given = found.definition, self.given(node)
        if callee.pointwise and not any(isinstance(one, Field) for one in given.all):
            return self.invoke(callee.function, given)
        if reading.pointwise:
            raise mistake("ufunc-stage", given.name)
        if self.function is not self.active[0]:
            raise mistake("stage-use", given.name)
        return stage(callee, given.args, given.named, names)

    def given(self, node: ast.Call) -> Given:
        """The arguments of a call."""
        args, named = self.spread(node.args), {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise NotUnderstood("'**' in a call")
            named[keyword.arg] = self.eval(keyword.value)
        return Given(ast.unparse(node.func), args, named)

    def spread(self, nodes: Sequence[ast.expr]) -> tuple[Any, ...]:
        """The values of expressions, in place of a starred one those that it holds."""
        parts = (
            self.items(one.value) if isinstance(one, ast.Starred) else (self.eval(one),)
            for one in nodes
        )
        return tuple(itertools.chain.from_iterable(parts))

    def invoke(self, function: Any, given: Given) -> Any:
        """What a function gives; one with a text is read in place."""
        if isinstance(function, SelfReference) or any(f is function for f in self.active):
            raise mistake("recursion", function.name)
        match function:
            case Function(definition=definition, defaults=defaults):
                seen, names = function, dict[str, Any]()
            case Closure(definition, seen, names, defaults):
                if extra := definition.args.vararg or definition.args.kwarg:
                    self.at(extra)
                    raise mistake("parameter-kind", extra.arg)
                if len(self.active) > 50:
                    raise mistake("recursion", given.name)
            case _:
                return given.to(function)
        names = names | given.bound(signature(definition, defaults))
        return type(self)(seen, names, self.active, self.hidden).run(definition)

    # Names that are given.

    def bound(self, targets: list[ast.expr], node: ast.expr) -> Any:
        """What an expression is that is given to these names.

        A new array that one name alone stands for is a buffer if that is written to.
        """
        if not isinstance(node, ast.Call):
            return self.eval(node)
        self.at(node)
        value = self.call(node, target_names(targets[0]))
        match targets:
            case [ast.Name(id=name)] if isinstance(value, np.ndarray):
                nodes = ast.walk(self.function.definition)
                parts = [one for one in nodes if isinstance(one, ast.Subscript)]
                if any(isinstance(p.ctx, ast.Store) and dotted(p.value) == name for p in parts):
                    return made(value, self.outside(node.func), self)
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
            case ast.Subscript(value=ast.Name(id=name) as base) if buffer := self.buffer(base):
                index = self.eval(target.slice)
                self.at(target)
                self.names[name] = stored(buffer, which(buffer, index, name), value)
            case ast.Subscript(value=base):
                held = self.eval(base)
                self.at(target)
                if isinstance(held, Field | Coefficients):
                    raise mistake("assigned-field", held.name)
                if isinstance(base, ast.Name) and base.id not in self.names:
                    raise mistake("assigned-constant", base.id)
                raise NotUnderstood("a buffer that is written to")
            case _:
                self.at(target)
                raise NotUnderstood("an assignment to an attribute")
