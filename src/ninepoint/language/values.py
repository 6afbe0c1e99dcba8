"""The values a kernel's names have while it is read, and the operations on them.

    x[0] * 2 + 1     ->     t0 = read x +0;  t1 = t0 * 2;  t2 = t1 + 1

Constants are computed at once, as Python's; anything else becomes a `Value`: the name of an
assignment in a `Body`.  A value with a shape is a window, element by element, and is
assigned in the body of windows until a reduction makes a number of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from . import errors, ir, unsigned
from .dtypes import Coefficients, DType, Field, promote, value_type
from .errors import Span
from .ir import Atom, Const, Offset, Ref
from .operators import PYTHON, UNARY
from .positions import ELEMENT, Line
from .source import ArrayFunction, Function, SelfReference

Number: TypeAlias = bool | int | float | complex | np.floating[Any] | np.complexfloating[Any, Any]

# More assignments than this are not worth unrolling: the compiler would take many seconds.
# (Numba 0.68 on straight lines of additions: 1000 take 0.9 s, 4000 take 7 s.)
UNROLLED_LIMIT = 2500


class NotUnderstood(Exception):
    """The kernel holds something that is not analysed; the general path may run it."""

    def __init__(self, reason: str, span: Span) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(frozen=True, slots=True)
class Value:
    """A number known only at run time, or a window of such (then with a shape).

    A weak value is a Python float: it takes the type of the NumPy float it meets.
    """

    atom: Atom
    weak: bool = False
    shape: Offset | None = None

    @property
    def dtype(self) -> DType:
        """The type that it has."""
        return self.atom.dtype


@dataclass(frozen=True, slots=True)
class Index(Value):
    """Where the point is along an axis, as a number and as a line of the elements there."""

    line: Line = ELEMENT


def length_label(axis: int) -> str:
    """The name in the kernel of the whole array's length along an axis.

    It ends in a digit, as no name of the user's does there.
    """
    return f"length{axis}"


def position_label(axis: int, among: str) -> str:
    """The name in the kernel of the positions along an axis."""
    return f"{'index' if among == 'elements' else 'place'}{axis}"


@dataclass(frozen=True, slots=True)
class Steps:
    """What `range` gives where an end of it is known at run time only."""

    start: Any
    stop: Any
    step: int


@dataclass(frozen=True, slots=True)
class Closure:
    """A function defined inside the kernel, with the names it sees."""

    definition: ast.FunctionDef | ast.Lambda
    names: Mapping[str, Any]


@dataclass(eq=False, slots=True)
class Body:
    """Assignments in order; the same operation is assigned once.

    That of a loop, which `begins` with names of its own, stands in an `outer` one: there goes what
    is the same in all turns.
    """

    prefix: str
    span: Span
    limit: int
    outer: Body | None = None
    begins: frozenset[str] = frozenset()
    names: dict[ir.Expr, Ref] = field(default_factory=dict)
    values: dict[str, ir.Expr] = field(default_factory=dict)

    def emit(self, expr: ir.Expr) -> Ref:
        """The name of the assignment that holds `expr`."""
        if self.outer is not None and not isinstance(expr, ir.Noting):
            own = (a for a in ir.atoms(expr) if isinstance(a, Ref))
            if not any(a.name in self.values or a.name in self.begins for a in own):
                return self.outer.emit(expr)
        found = self.names.get(expr)
        if found is None:
            if len(self.names) >= self.limit:
                raise NotUnderstood(f"it unrolls to more than {self.limit} operations", self.span)
            found = Ref(expr.dtype, f"{self.prefix}{len(self.names)}")
            self.names[expr] = found
            self.values[found.name] = expr
        return found

    def assignments(self, wanted: tuple[Atom, ...]) -> tuple[ir.Assign, ...]:
        """The assignments that `wanted` need, in order."""
        return ir.needed((ir.Assign(n, e) for n, e in self.values.items()), wanted)

    @property
    def depth(self) -> int:
        """How many loops it stands in."""
        return 0 if self.outer is None else self.outer.depth + 1

    @property
    def size(self) -> int:
        """How many assignments there are so far."""
        return len(self.values)

    def cut(self, size: int) -> None:
        """Forget all assignments but the first."""
        for name in list(self.values)[size:]:
            del self.names[self.values.pop(name)]

    def reachable(self) -> dict[str, ir.Expr]:
        """All operations that may be used here, by their names."""
        return self.values if self.outer is None else self.outer.reachable() | self.values


def constant(value: Any) -> Any:
    """A frozen constant as the builder computes with it: NumPy integers become Python's.

    What applies a function of numbers to arrays is that function, where it is given numbers.
    """
    if isinstance(value, ArrayFunction) and value.definition.pointwise:
        return value.definition.function
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.bool):
        return bool(value)
    return value


def is_number(value: Any) -> bool:
    """Whether `value` is a number known while the kernel is read."""
    return isinstance(value, bool | int | float | complex | np.number | np.bool)


def is_large(value: Any) -> bool:
    """Whether a number of the text is an integer that int64 does not hold."""
    value = constant(value)
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def wrapped(value: int) -> int:
    """An integer as 64 bits hold it."""
    return (value + 2**63) % 2**64 - 2**63


class Operations:
    """Build the operations of a kernel; `span` is where errors point."""

    def __init__(self, span: Span, limit: int) -> None:
        self.span = span
        self.body = Body("t", span, limit)
        self.windows = Body("w", span, limit)
        # How many of the loops around what is read now are written out.
        self.written_out = 0
        # Whether numbers of uint64 take part.
        self.unsigned = False
        # What must be true, or false, for what is read now to be computed at all; since the
        # beginning of the innermost loop.
        self.path: tuple[tuple[Any, bool], ...] = ()
        # The fields that hold positions, by their names in the kernel.
        self.positions: dict[str, ir.Position] = {}

    # Making values.

    def lift(self, value: Any) -> Value:
        """A number, known or not, as a value; anything else is the user's mistake."""
        if isinstance(value, Value):
            return value
        value = constant(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._literal(value, ())
        if is_number(value):
            number = np.asarray(value)
            known = Const(value_type(number.dtype), repr(number.item()))
            return Value(known, not isinstance(value, np.number))
        if isinstance(value, np.ndarray | Coefficients):
            raise NotUnderstood("arithmetic of whole arrays", self.span)
        raise errors.not_a_number(self.span, words(value))

    def _literal(self, value: int, beside: Sequence[DType]) -> Value:
        """An integer of the text, beside values of known types.

        What int64 does not hold is a number of uint64 beside such, and a float beside floats.
        """
        if -(2**63) <= value < 2**63:
            return Value(Const(DType.INT, str(value)), True)
        if any(not dtype.is_integer for dtype in beside):
            try:
                return Value(Const(DType.F64, repr(float(value))), True)
            except OverflowError:
                raise errors.literal_range(self.span, value, floating=True) from None
        if 0 <= value < 2**64 and (not beside or DType.UINT in beside):
            return Value(Const(DType.UINT, str(value)), True)
        raise errors.literal_range(self.span, value)

    def emit(self, expr: ir.Expr, weak: bool = False, shape: Offset | None = None) -> Value:
        body = self.body if shape is None else self.windows
        return Value(body.emit(expr), weak, shape)

    def as_window(self, value: Any, shape: Offset) -> Value:
        """An array of a window's shape, as a value in the window."""
        if not isinstance(value, Coefficients | np.ndarray):
            return self.lift(value)
        if value.shape != shape:
            raise errors.window_shape(self.span, shape, value.shape)
        if isinstance(value, Coefficients):
            dtype = value_type(value.storage)
            return self.emit(ir.Coefficient(dtype, value.label), False, shape)
        texts = tuple(repr(item) for item in value.ravel().tolist())
        return self.emit(ir.Weight(value_type(value.dtype), texts), False, shape)

    def together(self, *values: Any) -> tuple[list[Value], Offset | None]:
        """Operands as values, with the shape of their common window, if any."""
        shapes = [v.shape for v in values if isinstance(v, Value) and v.shape is not None]
        for other in shapes:
            if other != shapes[0]:
                raise errors.window_shape(self.span, shapes[0], other)
        shape = shapes[0] if shapes else None
        known = [
            None if is_large(v) else self.lift(v) if shape is None else self.as_window(v, shape)
            for v in values
        ]
        beside = [v.dtype for v in known if v is not None and v.dtype is not DType.BOOL]
        return [
            self._literal(constant(value), beside) if one is None else one
            for value, one in zip(values, known, strict=True)
        ], shape

    def cast(self, value: Value, dtype: DType) -> Atom:
        """The value in another type."""
        atom = value.atom
        if atom.dtype is dtype:
            return atom
        if isinstance(atom, Const):
            known = _converted(atom.value, dtype)
            if known is not None:
                return Const(dtype, known)
        return self.emit(ir.Cast(dtype, atom), value.weak, value.shape).atom

    def truth(self, value: Any) -> Any:
        """`bool(value)`: a Python bool when it is known."""
        if is_number(value):
            return bool(value)
        if isinstance(value, tuple | str):
            return len(value) > 0
        if value is None:
            return False
        lifted = self.lift(value)
        return lifted if lifted.dtype is DType.BOOL else self.binary("!=", lifted, 0)

    def under(self, test: Any, holds: bool) -> AbstractContextManager[None]:
        """Read what is computed only if a truth is this."""
        return self._with(path=(*self.path, (test, holds)))

    def turn(self, body: Body) -> AbstractContextManager[None]:
        """Read a turn of a loop, which is computed only if the turn is."""
        return self._with(body=body, path=())

    @contextmanager
    def _with(self, **changes: Any) -> Iterator[None]:
        before = {name: getattr(self, name) for name in changes}
        vars(self).update(changes)
        try:
            yield
        finally:
            vars(self).update(before)

    def active(self) -> Any:
        """Whether what is read now is computed at all; within a loop, in a turn of it."""
        found: Any = True
        for test, holds in self.path:
            found = self.logical("&", found, test if holds else self.unary("not", test))
        return found

    # Operations.

    def binary(self, op: str, left: Any, right: Any) -> Any:
        """`left op right` for the operators of Python, or the lesser or greater, or NaN."""
        left, right = constant(left), constant(right)
        known = [is_number(one) or isinstance(one, np.ndarray) for one in (left, right)]
        if all(known) and op not in _EXTREMES:
            return self._known(op, left, right)
        line = _line(op, left, right)
        if isinstance(line, int):
            return line
        (a, b), _ = self.together(left, right)
        if line is not None:
            return Index(self.in_common(op, DType.INT, a, b).atom, True, None, line)
        self._check_operands(op, a.dtype, b.dtype)
        mixed = unsigned.mixed(self, a, b)
        if mixed and op in ir.COMPARISONS:
            return unsigned.compared(self, op, a, b)
        if mixed and op in ("//", "%"):
            return unsigned.divided(self, op, a, b)
        if mixed and op in _EXTREMES:
            return unsigned.extreme(self, op, a, b)
        if op in ("<<", ">>"):
            return self._shift(op, a, b)
        truths = a.dtype is b.dtype is DType.BOOL
        if truths and (op in ir.COMPARISONS or op in _BITWISE or op in _EXTREMES):
            return self.in_common(op, DType.BOOL, a, b)
        common = promote(a.dtype, b.dtype, a.weak, b.weak)
        if mixed and op not in _BITWISE:
            common = DType.INT
        match op:
            case "**":
                return self._power(a, b, common)
            case "/" if common.is_integer:
                common = DType.F64
            case "-" if common is DType.UINT:
                common = DType.INT
        return self.in_common(op, common, a, b)

    def _check_operands(self, op: str, left: DType, right: DType) -> None:
        """Raise where an operator has no meaning for values of these types."""
        if op in (*_BITWISE, "<<", ">>") and not (left.is_integer and right.is_integer):
            raise errors.bad_operand(self.span, f"'{op}'", "floats")
        name = f"np.{op}" if op in _EXTREMES else f"'{op}'"
        if op in _ORDERED and (left.is_complex or right.is_complex):
            raise errors.bad_operand(self.span, name, "complex numbers")

    def in_common(self, op: Any, common: DType, a: Value, b: Value) -> Value:
        """An operation on two values in their common type."""
        compares = op in ir.COMPARISONS
        dtype = DType.BOOL if compares else common
        expr = ir.Binary(dtype, op, self.cast(a, common), self.cast(b, common))
        return self.emit(expr, a.weak and b.weak and not compares, a.shape or b.shape)

    def _shift(self, op: Any, a: Value, b: Value) -> Value:
        """A shift has the type of what is shifted."""
        kinds = [DType.INT if v.dtype is DType.BOOL else v.dtype for v in (a, b)]
        left, right = (self.cast(v, kind) for v, kind in zip((a, b), kinds, strict=True))
        expr = ir.Binary(kinds[0], op, left, right)
        return self.emit(expr, a.weak and b.weak, a.shape or b.shape)

    def _power(self, a: Value, b: Value, common: DType) -> Value:
        exponent = b.atom.value if isinstance(b.atom, Const) else None
        if common.is_integer:
            natural = b.dtype is not DType.INT or (
                exponent is not None and int(exponent.real) >= 0
            )
            if not natural:
                return self.in_common("**", DType.F64, a, b)
            # The exponent keeps its sign; what the power is modulo 2**64 has none.
            word = DType.UINT if DType.UINT in (a.dtype, b.dtype) else common
            power = self.in_common("**", word, a, b)
            return replace(power, atom=self.cast(power, common))
        if exponent == 2 and not common.is_complex:
            base = replace(a, weak=a.weak and b.weak, shape=a.shape or b.shape)
            return self.in_common("*", common, base, base)
        return self.in_common("**", common, a, b)

    def _known(self, op: str, left: Any, right: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                return constant(PYTHON[op](left, right))
        except ZeroDivisionError:
            if op != "/" and isinstance(left, int) and isinstance(right, int):
                return 0
            kind: Any = np.complex128 if isinstance(left + right, complex) else np.float64
            with np.errstate(all="ignore"):
                return PYTHON[op](kind(left), kind(right)).item()
        except (TypeError, OverflowError, ValueError):
            raise errors.bad_operand(
                self.span, f"'{op}'", f"{words(left)} and {words(right)}"
            ) from None

    def unary(self, op: Any, arg: Any) -> Any:
        """`-`, `+`, `~` and `not`."""
        arg = constant(arg)
        if op == "not":
            truth = self.truth(arg)
            return not truth if isinstance(truth, bool) else self._not(truth)
        if is_number(arg) or isinstance(arg, np.ndarray):
            if op == "~" and isinstance(arg, bool):
                return not arg
            try:
                return UNARY[op](arg)
            except TypeError:
                raise errors.bad_operand(self.span, f"'{op}'", words(arg)) from None
        value = self.lift(arg)
        if op == "~" and value.dtype is DType.BOOL:
            return self._not(value)
        dtype = DType.INT if value.dtype is DType.BOOL else value.dtype
        if op == "~" and not dtype.is_integer:
            raise errors.bad_operand(self.span, "'~'", "floats")
        if op == "-" and dtype is DType.UINT:
            dtype = DType.INT
        plain = Value(self.cast(value, dtype), value.weak, value.shape)
        if op == "+":
            return plain
        return self.emit(ir.Unary(dtype, op, plain.atom), value.weak, value.shape)

    def _not(self, value: Value) -> Value:
        return self.emit(ir.Unary(DType.BOOL, "not", value.atom), False, value.shape)

    def select(self, test: Any, then: Any, other: Any) -> Any:
        """`then if test else other`, for numbers, windows and tuples of them."""
        truth = self.truth(test)
        if isinstance(truth, bool):
            return then if truth else other
        if then is other:
            return then
        if isinstance(then, tuple) and isinstance(other, tuple) and len(then) == len(other):
            return tuple(self.select(truth, a, b) for a, b in zip(then, other, strict=True))
        if is_number(then) and is_number(other) and type(then) is type(other) and then == other:
            return then
        (t, a, b), shape = self.together(truth, then, other)
        if a.atom == b.atom:
            return a
        one, two = self.alike((a, b))
        return self.emit(ir.Select(one.dtype, t.atom, one, two), a.weak and b.weak, shape)

    def alike(self, values: Sequence[Value]) -> list[Atom]:
        """Some values in the type that a choice between them has."""
        common = self.common(values)
        naturals = [value for value in values if value.dtype is DType.UINT]
        if naturals and any(unsigned.mixed(self, naturals[0], one) for one in values):
            for value in values:
                match value.atom:
                    case Const(dtype=DType.INT, text=text) as atom if text.startswith("-"):
                        raise errors.choice_sign(self.span, atom.value)
            common = DType.INT if common is DType.UINT else common
        return [self.cast(value, common) for value in values]

    @staticmethod
    def common(values: Sequence[Value]) -> DType:
        """The type of all, if they have one, or in which they would be added."""
        common, weak = values[0].dtype, values[0].weak
        for value in values[1:]:
            if value.dtype is not common:
                common = promote(common, value.dtype, weak, value.weak)
            weak = weak and value.weak
        return common

    def logical(self, op: str, left: Any, right: Any) -> Any:
        """`and` and `or` of two truths."""
        if isinstance(left, bool) and isinstance(right, bool):
            return (left and right) if op == "&" else (left or right)
        for known, unknown in ((left, right), (right, left)):
            if isinstance(known, bool):
                absorbs = known is (op == "|")
                return known if absorbs else unknown
        return self.binary(op, left, right)

    def call(self, function: str, dtype: DType, *args: Value, weak: bool = False) -> Value:
        """A scalar function, all of whose arguments are taken as `dtype`."""
        values, shape = self.together(*args)
        expr = ir.Call(dtype, function, tuple(self.cast(v, dtype) for v in values))
        return self.emit(expr, weak, shape)

    def to_integer(self, value: Any, storage: str = "") -> Any:
        """`int(value)`, or the cast to a narrower integer type."""
        if is_number(value) and not storage:
            return _saturated(value)
        lifted = self.lift(value)
        if lifted.dtype.is_complex:
            raise errors.bad_operand(self.span, "int()", "complex numbers")
        if not storage:
            return Value(self.cast(lifted, DType.INT), lifted.weak, lifted.shape)
        dtype = DType.UINT if storage == "uint64" else DType.INT
        return self.emit(ir.Cast(dtype, lifted.atom, storage), False, lifted.shape)


_BITWISE = ("&", "|", "^")
_EXTREMES = ("minimum", "maximum")

# What complex numbers have none of.
_ORDERED = ("<", "<=", ">", ">=", "//", "%", *_EXTREMES)


def _line(op: str, left: Any, right: Any) -> Line | int | None:
    """What an operation on a position and a number is, if that is known or a position again."""
    if isinstance(left, Index) and type(right) is int:
        return left.line.combined(op, right)
    if isinstance(right, Index) and type(left) is int:
        return right.line.combined(op, left, reflected=True)
    return None


def _saturated(value: Any) -> int:
    if isinstance(value, complex) or value != value:
        return 0
    if not -(2**63) <= value < 2**63:
        return 2**63 - 1 if value > 0 else -(2**63)
    return int(value)


def _converted(value: Any, dtype: DType) -> str | None:
    """The text of a known number in another type; None where it must be computed."""
    if dtype.is_integer:
        if isinstance(value, complex):
            return None
        if dtype is DType.BOOL:
            return str(bool(value))
        whole = value if isinstance(value, int) else _saturated(value)
        return str(whole % 2**64 if dtype is DType.UINT else wrapped(whole))
    if isinstance(value, complex) and not dtype.is_complex:
        return None
    with np.errstate(all="ignore"):
        return repr(dtype.numpy.type(value).item())


def words(value: Any) -> str:
    """What a value is, in words."""
    if isinstance(value, Value):
        return "a number" if value.shape is None else f"a window of shape {value.shape}"
    if isinstance(value, Field):
        return f"the field '{value.name}' itself"
    if isinstance(value, Coefficients | np.ndarray):
        return f"an array of shape {tuple(value.shape)}"
    if value is None:
        return "None"
    if isinstance(value, str):
        return "text"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}" if value else "an empty tuple"
    if is_number(value):
        return f"the number {value}"
    if callable(value) or isinstance(value, Function | SelfReference | Closure):
        return "a function"
    return f"a value of type '{type(value).__name__}'"
