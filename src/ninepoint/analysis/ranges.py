"""Ranges: the least and the greatest value of every operation.

    x of uint8:   t0 = read x -1         0 .. 255
                  t1 = read x +1         0 .. 255
                  t2 = t1 - t0        -255 .. 255
                  t3 = abs t2            0 .. 255

The bound holds for every possible input.  Integers that may leave 64 bits are bounded by what
64 bits hold, for there they wrap.  Floats are bounded too, with their rounding, so that
`round(...)` of a weighted mean of bytes is known to be a byte; `nan` says whether the value may
be no number at all.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ..base.frozen import frozen
from ..language.functions import BOUNDS, PYTHON, UNARY
from ..language.ir import (
    COMPARISONS,
    GREATEST,
    LEAST,
    MIRRORED,
    Atom,
    Binary,
    Body,
    Call,
    Carried,
    Cast,
    Const,
    DType,
    Element,
    Expr,
    Gather,
    Inside,
    Kernel,
    Loop,
    Named,
    Read,
    Reduce,
    Ref,
    Select,
    State,
    Unary,
    Weight,
    at_each,
    atoms,
    made_as,
    named,
    operands,
    zero_product,
)


@frozen
class Interval:
    """All values from `low` to `high`; integers are Python's, of any size.

    It `wraps` where 64 bits might not hold what the operation gives, which is then another number.
    """

    low: float
    high: float
    nan: bool = False
    wraps: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest value."""
        return self.low, self.high

    @property
    def largest(self) -> float:
        """The greatest absolute value."""
        return max(abs(self.low), abs(self.high))

    def within(self, other: Interval) -> bool:
        """Whether another range holds all values."""
        return other.low <= self.low and self.high <= other.high

    def __or__(self, other: Interval) -> Interval:
        return Interval(
            min(self.low, other.low), max(self.high, other.high), self.nan or other.nan
        )


# The ranges of what has a name.
Known: TypeAlias = Mapping[str, Interval]

TRUTH = Interval(0, 1)
ANY = Interval(-math.inf, math.inf, True)

# Rounding of one operation, with room: 2 units in the last place of either float type.
_SLACK = {DType.F32: 2.0**-22, DType.F64: 2.0**-51}


@functools.cache
def of_storage(storage: np.dtype) -> Interval:
    """Every value that an array of `storage` can hold."""
    if storage.kind == "b":
        return TRUTH
    if storage.kind in "iu":
        info = np.iinfo(storage)
        return Interval(int(info.min), int(info.max))
    return ANY


@functools.cache
def of_type(dtype: DType) -> Interval:
    """Every value of a type."""
    return of_storage(dtype.numpy)


def ranges(kernel: Kernel) -> dict[str, Interval]:
    """Bound every assignment, every scalar, and the elements of every array and stage."""
    known = {name: of_type(dtype) for name, dtype in kernel.scalars}
    known |= {name: of_storage(dtype) for name, dtype in kernel.fields}
    known |= {name: of_storage(dtype) for name, dtype, _ in kernel.coefficients}
    types = dict(kernel.fields)
    for name, _ in kernel.placed:
        if types[name].kind in "iu":
            known[name] = Interval(LEAST, GREATEST)
    for stage in kernel.stages:
        known = _bounded(stage.body, known)
        for k, (name, value) in enumerate(zip(stage.names, stage.values, strict=True)):
            known[name] = interval(value, known)
            if isinstance(stage, State):
                # What the border's rule puts there as well.
                zero = Interval(0, 0)
                known[name] |= of_storage(stage.storage[k]) if stage.unbounded else zero
    return _bounded(kernel.body, known)


def _bounded(body: Body, known: Known) -> dict[str, Interval]:
    """What is known, and the ranges of what a body assigns."""
    values, found = named(body), dict(known)
    for name, value in values.items():
        found[name] = bound(value, found, values)
    return found


def interval(atom: Atom, known: Known) -> Interval:
    """The range of an operand."""
    if isinstance(atom, Ref):
        return known[atom.name]
    value = atom.value
    if atom.dtype.is_complex or value != value:
        return ANY
    return Interval(int(value), int(value)) if atom.dtype.is_integer else Interval(value, value)


def bound(expr: Expr, known: Known, values: Named, position: int = 0) -> Interval:
    """Bound one operation, from the bounds of what it refers to.

    `position` is the place in the window, in C order, for what stands inside one.
    """
    if expr.dtype.is_complex:
        return ANY
    match expr:
        case Read(field=name) | Gather(field=name) | Element(array=name):
            return known[name]
        case Weight():
            return interval(Const(expr.dtype, expr.texts[position]), known)
        case Unary() | Cast() | Call() | Reduce() if expr.dtype is DType.BOOL:
            return TRUTH
        case Unary():
            return _unary(expr, interval(expr.arg, known))
        case Binary():
            return _binary(expr, interval(expr.left, known), interval(expr.right, known))
        case Select():
            then = refined(expr.then, expr.test, True, known, values)
            other = refined(expr.other, expr.test, False, known, values)
            return then | other if then and other else then or other or ANY
        case Cast():
            return _cast(expr, interval(expr.arg, known))
        case Call():
            return _call(expr, interval(expr.args[0], known))
        case Reduce():
            return _reduce(expr, known)
        case Inside():
            return Interval(expr.low, expr.high)
        case Loop() | Carried():
            return of_type(expr.dtype)


def turn_ranges(loop: Loop, known: Known) -> dict[str, Interval]:
    """Bound what a loop carries and computes, in all of its turns.

    A number that grows by a constant in each turn, or falls, lies between what it begins with and
    where it ends the loop.  Of all else that is carried nothing is known.
    """
    values = named(loop.body)
    # The number of the turn is one of these, if what it is after a turn has a name.
    more = Binary(DType.INT, "+", loop.index, Const(DType.INT, "1"))
    beside = [Ref(DType.INT, name) for name, value in values.items() if value == more]
    begins = [(loop.index, Const(DType.INT, "0")) for _ in beside] + list(loop.carried)
    head = {ref.name: of_type(ref.dtype) for ref, _ in loop.carried}
    head[loop.index.name] = Interval(0, (loop.most or 2**63 - 1) - 1)
    found = _bounded(loop.body, {**known, **head})
    for (ref, begin), after in zip(begins, (*beside, *loop.next), strict=True):
        first, step = interval(begin, known), _step(ref, made_as(after, values))
        last = refined(after, loop.next[0], True, found, values) or first
        whole = first | last
        if step > 0 and whole.high + step < 2**63:
            head[ref.name] = Interval(first.low, min(whole.high, head[ref.name].high))
        elif step < 0 and whole.low + step >= -(2**63):
            head[ref.name] = Interval(whole.low, first.high)
    return _bounded(loop.body, {**known, **head})


def _step(ref: Ref, after: Expr | None) -> int:
    """By how much a number that is carried grows in a turn; 0 where that is not known."""
    match after:
        case Binary(op="+" | "-" as op, left=left, right=Const(DType.INT) as by) if left == ref:
            return int(by.text) if op == "+" else -int(by.text)
        case _:
            return 0


def _settled(result: Interval, dtype: DType) -> Interval:
    """A computed bound as its type holds it."""
    if dtype.is_float:
        if any(map(math.isnan, result.ends)):
            return ANY
        slack = _SLACK[dtype]
        low, high = result.low - abs(result.low) * slack, result.high + abs(result.high) * slack
        return Interval(low, high, result.nan)
    word = of_type(dtype)
    return result if result.within(word) else replace(word, wraps=True)


def _unary(expr: Unary, arg: Interval) -> Interval:
    if expr.op not in _TURNING:
        return ANY
    turns = {0} if arg.low < 0 < arg.high else set[int]()
    found = [_TURNING[expr.op](end) for end in turns.union(arg.ends)]
    return _settled(Interval(min(found), max(found), arg.nan), expr.dtype)


# Operations that turn at 0 at most.
_TURNING: dict[str, Callable[[Any], Any]] = {**UNARY, "abs": abs}


def _binary(expr: Binary, a: Interval, b: Interval) -> Interval:
    if expr.op in COMPARISONS:
        return TRUTH
    match expr.op:
        case "&" | "|" | "^":
            result = _bits(expr.op, a, b)
        case "%" if expr.dtype.is_integer and a.low >= 0 and a.high < b.low:
            result = a
        case "%" if expr.dtype.is_integer:
            low, high = min(0, b.low + 1), max(0, b.high - 1)
            result = Interval(low, min(high, a.high) if a.low >= 0 and b.low >= 0 else high)
        case "**" | "<<" if not (expr.dtype.is_integer and b.within(Interval(0, 64))):
            return of_type(expr.dtype)
        case "minimum" | "maximum":
            return _between(expr, a, b)
        case "//" | "%" if expr.dtype.is_float:
            return ANY
        case "/" if b.low <= 0 <= b.high or a.nan or b.nan or math.isinf(a.largest):
            return ANY
        case _:
            result = _between(expr, a, b)
    return _settled(result, expr.dtype)


def nearest_multiple(value: int, step: int) -> int:
    """The multiple of `step` that is nearest to a whole number, the even one of two."""
    whole, rest = divmod(value, step)
    return (whole + (2 * rest > step or (2 * rest == step and whole % 2 == 1))) * step


# Operations that rise or fall between some numbers on their right, on their left between 0 and
# others: what they give, where that is not what Python's operators do.
_BETWEEN: dict[str, Callable[[Any, Any], Any]] = PYTHON | {
    "/": lambda x, y: float(x) / float(y),
    "//": lambda x, d: x // d if d else 0,
    ">>": lambda x, n: x >> min(n % 2**64, 64),
    "round": nearest_multiple,
    "minimum": min,
    "maximum": max,
}
_TURNS: dict[str, tuple[int, ...]] = {"//": (-1, 0, 1), ">>": (0,)}


def _between(expr: Binary, a: Interval, b: Interval) -> Interval:
    """An operation at the ends of both ranges, and wherever it turns between them."""
    left, right = set(a.ends), set(b.ends)
    if expr.dtype.is_integer:
        low, high = b.ends
        if expr.op == ">>":
            # A negative count leaves what no other does, and types stay those of all counts.
            high = max(high, 0)
        # Powers of a negative number change their sign with each step.
        turns = (low, high, high - 1, *_TURNS.get(expr.op, ()))
        left |= {0} if a.low < 0 < a.high else set()
        right = {n for n in turns if low <= n <= high}
    found, product = [_BETWEEN[expr.op](x, y) for x in left for y in right], expr.op == "*"
    nan = a.nan or b.nan
    if expr.dtype.is_float:
        if any(map(math.isnan, found)):
            return ANY
        nan |= product and math.inf in (a.largest, b.largest)
    # A square is not negative.
    least = 0 if product and expr.left == expr.right else -math.inf
    return Interval(max(min(found), least), max(found), nan)


def _bits(op: str, a: Interval, b: Interval) -> Interval:
    bits = max(int(end).bit_length() for end in (*a.ends, *b.ends))
    natural = [one.high for one in (a, b) if one.low >= 0]
    if op == "&" and natural:
        return Interval(0, min(natural))
    return Interval(0 if len(natural) == 2 else -(2**bits), 2**bits - 1)


def _cast(expr: Cast, arg: Interval) -> Interval:
    if not expr.dtype.is_integer:
        # Every integer up to 2**24 or 2**53 is exact; the slack covers the others.
        found = _settled(Interval(float(arg.low), float(arg.high), arg.nan), expr.dtype)
        # What has a storage is rounded to 16 bits.
        return ANY if expr.storage else found
    target = of_storage(np.dtype(expr.storage or expr.dtype.numpy))
    if isinstance(arg.low, int) and isinstance(arg.high, int):
        return arg if arg.within(target) else target
    low, high = (math.trunc(min(max(end, target.low), target.high)) for end in arg.ends)
    return Interval(min(low, 0), max(high, 0)) if arg.nan else Interval(low, high)


WHOLE: dict[str, Callable[[float], float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "rint": round,
}


def stepped(value: Interval, step: Callable[[float], float] = round) -> Interval:
    """The range of what is made whole numbers, by a step that is one of these."""
    low, high = (v if isinstance(v, int) or math.isinf(v) else float(step(v)) for v in value.ends)
    return Interval(low, high, value.nan)


def _call(expr: Call, arg: Interval) -> Interval:
    if not expr.dtype.is_float:
        return ANY
    if expr.function in WHOLE:
        return stepped(arg, WHOLE[expr.function])
    if expr.function == "sqrt" and arg.low >= 0:
        return _settled(Interval(math.sqrt(arg.low), math.sqrt(arg.high), arg.nan), expr.dtype)
    if bounds := BOUNDS.get(expr.function):
        turns = expr.function in ("sin", "cos")
        return Interval(*bounds, arg.nan or (turns and math.isinf(arg.largest)))
    return ANY


def refined(atom: Atom, test: Atom, holds: bool, known: Known, values: Named) -> Interval | None:
    """The range of `atom` where `test` is `holds`; None where that cannot be."""
    plain = interval(atom, known)
    match made_as(test, values):
        case Unary(op="not", arg=arg):
            return refined(atom, arg, not holds, known, values)
        case Binary(op="&" | "|" as op, left=left, right=right) if (op == "&") == holds:
            found = refined(atom, left, holds, known, values)
            if found is None or isinstance(atom, Const):
                return found
            return refined(atom, right, holds, {**known, atom.name: found}, values)
        case Binary(op=op, left=left, right=right) if op in COMPARISONS:
            # A comparison with NaN is false, so only what is known to be a number is refined.
            if plain.nan or interval(left, known).nan or interval(right, known).nan:
                return plain
        case _:
            return plain
    told, value = op if holds else _OPPOSITE[op], made_as(atom, values)
    for one, other, how in ((left, right, told), (right, left, MIRRORED[told])):
        if atom == one:
            return _narrowed(plain, how, interval(other, known))
    if isinstance(value, Unary) and value.op == "-":
        inner = refined(value.arg, test, holds, known, values)
        flipped = inner and Interval(-inner.high, -inner.low, inner.nan)
        return flipped if flipped is None or flipped.within(plain) else plain
    return plain


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def _narrowed(plain: Interval, op: str, other: Interval) -> Interval | None:
    step = 1 if isinstance(plain.low, int) and isinstance(other.low, int) else 0
    low, high = plain.low, plain.high
    if op in ("<", "<=", "=="):
        high = min(high, other.high - (step if op == "<" else 0))
    if op in (">", ">=", "=="):
        low = max(low, other.low + (step if op == ">" else 0))
    return Interval(low, high) if low <= high else None


def _reduce(expr: Reduce, known: Known) -> Interval:
    if expr.kind in ("argmin", "argmax"):
        return Interval(0, math.prod(expr.shape) - 1)
    items = window_ranges(expr, known)
    result = _reduced(expr, items)
    return replace(result, wraps=result.wraps or any(item.wraps for item in items))


def _reduced(expr: Reduce, items: Sequence[Interval]) -> Interval:
    count, whole = math.prod(expr.shape), functools.reduce(operator.or_, items)
    match expr.kind:
        case "min":
            return replace(whole, high=min(item.high for item in items))
        case "max":
            return replace(whole, low=max(item.low for item in items))
        case "quantile" | "nanquantile" | "nanrank":
            return _settled(whole, expr.dtype)
        case "sum" | "mean":
            each = count if len(items) == 1 else 1
            nan = whole.nan or (expr.dtype.is_float and math.isinf(whole.largest))
            least, most = (each * sum(ends) for ends in zip(*(i.ends for i in items), strict=True))
            if expr.kind == "mean" and count > 1:
                least, most = least / count, most / count
        case _:
            return of_type(expr.dtype)
    if expr.dtype.is_float and not math.isinf(max(-least, most)):
        slack = count * _SLACK[expr.dtype] * max(-least, most, whole.largest)
        # Terms of one sign round towards each other: zero stays a bound.
        least -= slack if least != 0 or whole.low < 0 else 0
        most += slack if most != 0 or whole.high > 0 else 0
    return _settled(Interval(least, most, nan), expr.dtype)


def window_ranges(expr: Reduce, known: Known) -> Sequence[Interval]:
    """The range of the window's elements: one for all, or one for each where weights differ."""
    used = set(operands(expr))
    for assign in expr.body:
        match assign.value:
            case Read(field=name) | Element(array=name):
                used.add(name)
    given = tuple((name, known[name]) for name in sorted(used & known.keys()))
    return _window_ranges(expr, given)


def window_range(expr: Reduce, known: Known) -> Interval:
    """The range of all elements of a window."""
    return functools.reduce(operator.or_, window_ranges(expr, known))


# Passes ask for the same window again and again, and it may have thousands of weights.
@functools.lru_cache(32)
def _window_ranges(expr: Reduce, given: tuple[tuple[str, Interval], ...]) -> tuple[Interval, ...]:
    known, values = dict(given), named(expr.body)

    def bounded(position: int) -> Interval:
        inner = known.copy()
        for name, value in values.items():
            zero = zero_product(value, values, position)
            inner[name] = interval(zero, known) if zero else bound(value, inner, values, position)
        wraps = any(inner[name].wraps for name in values)
        return replace(interval(expr.result, inner), wraps=wraps)

    items = at_each(expr, bounded)
    one = items[0] == ANY or all(item is items[0] for item in items)
    return tuple(items[:1] if one else items)


def words(value: Interval) -> str:
    """The range as one would say it."""
    if value.ends == ANY.ends:
        return "any float"
    low, high = (str(v) if isinstance(v, int) else f"{v:g}" for v in value.ends)
    return f"{low} to {high}"


def holds(storage: np.dtype, value: Interval) -> bool:
    """Whether an integer type can hold every value of a range."""
    return value.within(of_storage(storage))


def smallest_integer(value: Interval) -> np.dtype:
    """The narrowest integer type that holds a range; unsigned where nothing is negative.

    One of 64 bits where none holds it.
    """
    for bits in (8, 16, 32, 64):
        storage = np.dtype(f"{'u' * (value.low >= 0)}int{bits}")
        if holds(storage, value):
            return storage
    return np.dtype("int64" if value.high < 2**63 else "uint64")


# Machine types: the narrowest that hold what the ranges prove.
#
#     x of int8:   t2 = t0 + t1      -256 .. 254      int16
#                  t3 = t2 > 0                        bool
#
# Sums, differences and products are computed modulo the width of their result, so operands may be
# cut to it.  Other operations need a type that holds their operands as well.  A target without
# narrow registers asks for integers of at `least` so many bits: then all that fewer would hold are
# signed ones of as many.

_MODULAR = frozenset({"+", "-", "*", "<<", "**", "~"})


# Passes that count what kernels cost ask for it more often than for all else together.
@functools.lru_cache(maxsize=4096)
def machine_type(dtype: DType, value: Interval, least: int = 8) -> str:
    """The type in which a value is kept."""
    if dtype is DType.BOOL:
        return "bool"
    if dtype.is_integer:
        if least > 8 and holds(np.dtype(f"int{least}"), value):
            return f"int{least}"
        return str(smallest_integer(value))
    return str(dtype.value)


def working_type(name: str, expr: Expr, own: str, known: Known, least: int = 8) -> str:
    """The type in which an integer operation is done; `own` is that of its result, `name`."""
    if not isinstance(expr, Unary | Binary) or expr.op in _MODULAR:
        return own
    op, compares = expr.op, expr.op in COMPARISONS
    operands = atoms(expr)[: 1 if op == ">>" else None]
    if not operands[0].dtype.is_integer or (expr.dtype is DType.BOOL and not compares):
        return own
    spans = [interval(operand, known) for operand in operands]
    joined = functools.reduce(operator.or_, spans)
    if expr.dtype.is_integer and not compares:
        joined = joined | known[name]
        if op == "%" and spans[1].low <= -1 <= spans[1].high:
            # The quotient that a remainder is made from may be that of the least by -1.
            joined = joined | Interval(-spans[0].high, -spans[0].low)
    if joined.high >= 2**63 and all(operand.dtype is not DType.UINT for operand in operands):
        return "int64"
    return machine_type(DType.INT, joined, least)
