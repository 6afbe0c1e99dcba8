"""What the text of the general path calls: a field seen from a point, and exact numbers.

`near` turns an offset into a place in a block and sees to it that the place is in the block:
a read outside the neighborhood is written down in `outside` and reported after the run.
"""

from __future__ import annotations

import operator
from typing import Any

import numba
import numpy as np
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import (
    intrinsic,
    make_attribute_wrapper,
    models,
    overload,
    overload_attribute,
    register_jitable,
    register_model,
)
from numba.np.arrayobj import load_item, make_array, populate_array

from ..threads import LEFT, STOP
from . import cache as disk
from .compilers import WrappingCompiler
from .general.reads import EACH, REACH, SITE
from .interpreted import interpreted
from .support import (
    floor_divide_float32,
    floor_divide_float64,
    integer_divide,
    integer_modulo,
    integer_power,
    remainder,
    remainder_float32,
    round_to_half,
    saturate_wide,
    shift_left,
    shift_right,
)

NOT_WHOLE = "ninepoint: this offset is no integer"
NOT_HELD = "ninepoint: this number has no integer type: "


def njit(*, cache=False, **options):
    """Numba's decorator; what is cached lies beside the text, and is checked when it is loaded."""

    def decorated(function):
        dispatcher = numba.njit(pipeline_class=WrappingCompiler, **options)(function)
        if cache and not interpreted():
            dispatcher._cache = disk.kept(function)
        return dispatcher

    return decorated


class Neighbours(types.Type):
    """Numba's type of a field seen from one point.

    Its `shape` is that of the whole array along the axes of the kernel, if that asks for it;
    `index` and `among` are the positions in that and among the results, so far as it asks.
    """

    def __init__(self, array: Any, ndim: int, shape: int, index: int, among: int) -> None:
        self.array = array
        self.place = types.UniTuple(types.int64, ndim)
        self.shape, self.index, self.among = (
            types.BaseTuple.from_types((types.int64,) * count) for count in (shape, index, among)
        )
        super().__init__(name=f"field({array}, {shape}, {index}, {among})")


@register_model(Neighbours)
class _NeighboursModel(models.StructModel):
    def __init__(self, manager, kind):
        members = [
            ("array", kind.array),
            ("place", kind.place),
            ("outside", types.Array(types.int64, 1, "A")),
            ("shape", kind.shape),
            ("index", kind.index),
            ("among", kind.among),
        ]
        super().__init__(manager, kind, members)


make_attribute_wrapper(Neighbours, "array", "array")
make_attribute_wrapper(Neighbours, "place", "place")
make_attribute_wrapper(Neighbours, "outside", "outside")
make_attribute_wrapper(Neighbours, "shape", "shape")
make_attribute_wrapper(Neighbours, "index", "index")
make_attribute_wrapper(Neighbours, "among", "among")


@overload(len)
def _field_length(field):
    return (lambda field: field.shape[0]) if isinstance(field, Neighbours) else None


@overload(np.shape)
def _field_shape(a):
    return (lambda a: a.shape) if isinstance(a, Neighbours) else None


@overload(np.ndim)
@overload_attribute(Neighbours, "ndim")
def _field_ndim(a):
    return (lambda a: len(a.shape)) if isinstance(a, Neighbours) else None


@overload(np.size)
@overload_attribute(Neighbours, "size")
def _field_size(a):
    if not isinstance(a, Neighbours):
        return None

    def size(a):
        points = 1
        for length in a.shape:
            points *= length
        return points

    return size


@intrinsic
def look(typingctx, array, place, outside, shape, index, among):
    """A field seen from `place`; the arrays must be `unowned`, since none is counted here."""
    result = Neighbours(array, place.count, len(shape), len(index), len(among))

    def codegen(context, builder, signature, args):
        view = cgutils.create_struct_proxy(signature.return_type)(context, builder)
        view.array, view.place, view.outside, view.shape, view.index, view.among = args
        return view._getvalue()

    return result(array, place, outside, shape, index, among), codegen


@intrinsic
def unowned(typingctx, array):
    """The same array without its owner, so that no point has to count references."""

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        source = make_array(kind)(context, builder, args[0])
        view = make_array(kind)(context, builder)
        populate_array(
            view,
            data=source.data,
            shape=source.shape,
            strides=source.strides,
            itemsize=source.itemsize,
            meminfo=None,
            parent=None,
        )
        return view._getvalue()

    return array(array), codegen


@intrinsic
def peek(typingctx, array, index):
    """The element of a field at places that `near` has found: nothing is left to check."""

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        view = make_array(kind)(context, builder, args[0])
        pointer = cgutils.get_item_pointer(
            context, builder, kind, view, cgutils.unpack_tuple(builder, args[1]), wraparound=False
        )
        return load_item(context, builder, kind, pointer)

    return array.dtype(array, index), codegen


def near(place, offset, low, high, outside, site):
    """Where the neighbour at `offset` lies in a block whose first offset is `low`."""
    raise NotImplementedError


@overload(near)
def _near(place, offset, low, high, outside, site):
    if not isinstance(offset, types.Integer):
        raise TypingError(NOT_WHOLE)

    def find(place, offset, low, high, outside, site):
        step = np.int64(offset)
        if low <= step <= high:
            return place + step - low
        if outside[0] == 0:
            outside[0] = (site + 1) * SITE + min(max(step, -REACH), REACH)
        # At once: a loop that looks for something out there would never end.
        raise IndexError("outside its neighborhood")

    return find


@intrinsic
def halted(typingctx, outside):
    """Whether the run was told to stop; read anew each time, from what other threads write."""

    def codegen(context, builder, signature, args):
        view = make_array(signature.args[0])(context, builder, args[0])
        flag = cgutils.gep(builder, view.data, STOP)
        value = builder.load_atomic(flag, ordering="monotonic", align=8)
        return builder.icmp_signed("!=", value, value.type(0))

    return types.boolean(outside), codegen


@register_jitable
def go_on(outside):
    """See whether the run was told to stop; else, after how many turns of a loop to look again.

    The text counts these down by itself: LLVM leaves a call in the loop otherwise, which took
    twice as long for the points of a Mandelbrot set.  And it looks now and then only, so that
    LLVM writes out short loops, and forgets to count.
    """
    if halted(outside):  # type: ignore[call-arg]
        raise RuntimeError("stopped")
    if outside[LEFT] > 0:
        outside[LEFT] -= 1
        if outside[LEFT] == 0:
            raise RuntimeError("stopped")
    return EACH


# Elements and windows: integers of less than 64 bits become int64, and are exact.


def _narrow(kind: Any) -> bool:
    return isinstance(kind, types.Integer) and getattr(kind, "bitwidth", 64) < 64


def wide(value):
    """An element as the kernel computes with it."""
    raise NotImplementedError


@overload(wide)
def _wide(value):
    if isinstance(value, types.Array) and _narrow(value.dtype):
        return lambda value: value.astype(np.int64)
    if _narrow(value):
        return lambda value: np.int64(value)
    return lambda value: value


def window(view):
    """A small array of the elements of `view`, as the kernel computes with them."""
    raise NotImplementedError


@overload(window)
def _window(view):
    if _narrow(view.dtype):
        return lambda view: view.astype(np.int64)
    return lambda view: view.copy()


# Operators whose rule is not Numba's: exact, and without traps at the edges.


def _scalar(kind):
    return isinstance(kind, types.Number | types.Boolean)


def _element(kind):
    return kind.dtype if isinstance(kind, types.Array) else kind


def _whole(kind):
    return isinstance(kind, types.Integer | types.Boolean)


def _modular(kind):
    return _element(types.unliteral(kind)) == types.uint64


@register_jitable
def _as_given(value):
    return value


def _taken_as(word):
    """A number, and an array, as integers of 64 bits."""
    number = register_jitable(lambda value: word(value))
    array = register_jitable(lambda value: value.astype(word))
    return lambda kind: array if isinstance(kind, types.Array) else number


_WORDS = {np.uint64: _taken_as(np.uint64), np.int64: _taken_as(np.int64)}


def _conversions(name, a, b):
    """How two operands are made ready: beside a uint64 integers are taken modulo 2**64."""
    whole = _whole(_element(a)) and _whole(_element(b))
    if not whole or not (_modular(a) or _modular(b)):
        return _as_given, _as_given
    bits = name in ("and_", "or_", "xor")
    word = np.int64 if name == "sub" else np.uint64 if bits else _word(a, b)
    return tuple(_as_given if _element(k) == word else _WORDS[word](k) for k in (a, b))


def _word(a, b):
    """The type of what is computed of two integers: int64 where one of them may be negative."""
    modular = _modular(a) or _modular(b)
    return np.uint64 if modular and not (_signed(a) or _signed(b)) else np.int64


def _signed(kind):
    """Whether an integer may be negative: it is no uint64, and not written as it is."""
    whole = isinstance(_element(types.unliteral(kind)), types.Integer)
    return whole and not _modular(kind) and not _natural(kind)


@register_jitable
def _size(value):
    return np.uint64(value) if value >= 0 else np.uint64(0) - np.uint64(value)


@register_jitable
def _mixed_divide(a, b):
    """a // b of a uint64 and an integer, as an int64; 0 where b is 0."""
    top, bottom = _size(a), _size(b)
    if bottom == np.uint64(0):
        return np.int64(0)
    quotient = top // bottom
    if a >= 0 and b >= 0:
        return np.int64(quotient)
    down = np.uint64(1) if quotient * bottom != top else np.uint64(0)
    return np.int64(np.uint64(0) - (quotient + down))


@register_jitable
def _mixed_modulo(a, b):
    """a % b of a uint64 and an integer, modulo 2**64; 0 where b is 0."""
    top, bottom = _size(a), _size(b)
    if bottom == np.uint64(0):
        return np.uint64(0)
    rest = top % bottom
    if rest == np.uint64(0) or (a >= 0 and b >= 0):
        return rest
    return bottom - rest if a < 0 else rest - bottom


@register_jitable
def _mixed_less(a, b):
    """a < b of a uint64 and an integer; Numba would compare floats."""
    return a < 0 or (b > 0 and np.uint64(a) < np.uint64(b))


@register_jitable
def _mixed_same(a, b):
    return a >= 0 and b >= 0 and np.uint64(a) == np.uint64(b)


_ORDERS = {
    "lt": register_jitable(lambda a, b: _mixed_less(a, b)),
    "le": register_jitable(lambda a, b: not _mixed_less(b, a)),
    "gt": register_jitable(lambda a, b: _mixed_less(b, a)),
    "ge": register_jitable(lambda a, b: not _mixed_less(a, b)),
    "eq": register_jitable(lambda a, b: _mixed_same(a, b)),
    "ne": register_jitable(lambda a, b: not _mixed_same(a, b)),
}
_INTEGER_RULES = {"floordiv": integer_divide, "mod": integer_modulo}


def _mixed_rule(name, b):
    """The rule beside an integer that may be negative; a remainder is of the type of b."""
    if name == "mod":
        word = _word(b, b)
        return register_jitable(lambda a, b: word(_mixed_modulo(a, b)))
    return _mixed_divide if name == "floordiv" else _ORDERS.get(name)


_SHIFTS = {"lshift": shift_left, "rshift": shift_right}
_SINGLE_RULES = {"floordiv": floor_divide_float32, "mod": remainder_float32}
_FLOAT_RULES = {"floordiv": floor_divide_float64, "mod": remainder}


def _power(a, b):
    """The rule for a power of integers: an integer where the exponent cannot be negative."""
    if not (_modular(b) or isinstance(b, types.Boolean)):
        return lambda a, b: np.float64(a) ** np.float64(b)
    word = _word(a, b)
    return lambda a, b: word(integer_power(a, np.uint64(b)))


def _shift(rule, a):
    """The rule for a shift, of the type of what is shifted."""
    if _modular(a):
        return lambda a, b: rule(a, np.uint64(b))
    return lambda a, b: rule(np.int64(a), np.int64(b))


def _operation(name):
    plain = getattr(operator, name)

    def operation(a, b):
        raise NotImplementedError

    operation.__name__ = operation.__qualname__ = f"op_{name.strip('_')}"

    @overload(operation, prefer_literal=True)
    def typed(a, b):
        if any(isinstance(k, types.Literal) for k in (a, b)) and not (_modular(a) or _modular(b)):
            # Which number is written there matters beside a uint64 only.
            return None
        first, second = _conversions(name, a, b)
        if _scalar(a) and _scalar(b):
            if _whole(a) and _whole(b):
                if name == "pow":
                    return _power(a, b)
                if name in _SHIFTS:
                    return _shift(_SHIFTS[name], a)
                mixed = (_modular(a) and _signed(b)) or (_modular(b) and _signed(a))
                rule = _mixed_rule(name, b) if mixed else _INTEGER_RULES.get(name)
                if rule is not None and mixed:
                    return lambda a, b: rule(a, b)
                if rule is not None:
                    return lambda a, b: rule(_wider(first(a)), _wider(second(b)))
            elif isinstance(a, types.Complex) or isinstance(b, types.Complex):
                return lambda a, b: plain(a, b)
            elif name in _FLOAT_RULES:
                single = a == types.float32 and b == types.float32
                rule = (_SINGLE_RULES if single else _FLOAT_RULES)[name]
                return lambda a, b: rule(a, b)
        return lambda a, b: plain(first(a), second(b))

    return operation


def _wider(value):
    raise NotImplementedError


@overload(_wider)
def _wider_typed(value):
    if _modular(value):
        return lambda value: value
    return lambda value: np.int64(value)


op_add, op_sub, op_mul = _operation("add"), _operation("sub"), _operation("mul")
op_floordiv, op_mod, op_pow = _operation("floordiv"), _operation("mod"), _operation("pow")
op_lshift, op_rshift = _operation("lshift"), _operation("rshift")
op_and, op_or, op_xor = _operation("and_"), _operation("or_"), _operation("xor")
op_lt, op_le, op_gt = _operation("lt"), _operation("le"), _operation("gt")
op_ge, op_eq, op_ne = _operation("ge"), _operation("eq"), _operation("ne")


def op_neg(a):
    """`-a`, which of a uint64 is an int64."""
    raise NotImplementedError


@overload(op_neg)
def _op_neg(a):
    if _modular(a):
        integer = _WORDS[np.int64](a)
        return lambda a: -integer(a)
    return lambda a: -a


# Conversions.


def _as(title, word):
    """Integers as `word`, modulo 2**64; other values as they are."""

    def taken(value):
        raise NotImplementedError

    taken.__name__ = taken.__qualname__ = title

    @overload(taken)
    def typed(value):
        kind = _element(value)
        return _WORDS[word](value) if isinstance(kind, types.Integer) else _as_given

    return taken


op_word, op_integer = _as("op_word", np.uint64), _as("op_integer", np.int64)


def whole(value):
    """`int(value)`, saturating at 64 bits; NaN is 0."""
    raise NotImplementedError


@overload(whole)
def _whole_typed(value):
    if isinstance(value, types.Float):
        return lambda value: saturate_wide(value, np.int64(-(2**63)), np.int64(2**63 - 1))
    return lambda value: np.int64(value)


def _rounding(title, function):
    """`function` of floats as an integer; integers as they are."""

    def taken(value):
        raise NotImplementedError

    taken.__name__ = taken.__qualname__ = title

    @overload(taken)
    def typed(value):
        if isinstance(value, types.Float):
            return lambda value: whole(function(value))
        return _as_given if _modular(value) else lambda value: np.int64(value)

    return taken


floored, ceiled = _rounding("floored", np.floor), _rounding("ceiled", np.ceil)
truncated = _rounding("truncated", np.trunc)


def _extremes(name, better, plain):
    """The lesser or the greater of two numbers, Python's and NumPy's, exact beside uint64."""

    def python(a, b):
        raise NotImplementedError

    def numpy(a, b):
        raise NotImplementedError

    def whole_rule(a, b):
        if _modular(a) != _modular(b) and not isinstance(b if _modular(a) else a, types.Boolean):
            kind = (
                np.int64
                if better == "min" and not _natural(b if _modular(a) else a)
                else np.uint64
            )
            if better == "min":
                return lambda a, b: kind(a) if _mixed_less(a, b) else kind(b)
            return lambda a, b: kind(b) if _mixed_less(a, b) else kind(a)
        kind = np.uint64 if _modular(a) or _modular(b) else np.int64
        return lambda a, b: plain(kind(a), kind(b))

    def typed_python(a, b):
        if _whole(a) and _whole(b):
            return whole_rule(a, b)
        if better == "min":
            return lambda a, b: b if b < a else a
        return lambda a, b: b if b > a else a

    def typed_numpy(a, b):
        if _whole(a) and _whole(b):
            return whole_rule(a, b)
        extreme = np.minimum if better == "min" else np.maximum
        return lambda a, b: extreme(a, b)

    for function, typed, title in (
        (python, typed_python, name),
        (numpy, typed_numpy, f"np_{name}"),
    ):
        function.__name__ = function.__qualname__ = title
        overload(function, prefer_literal=True)(typed)
    return python, numpy


def _natural(kind):
    """Whether an integer of the text is not negative."""
    return isinstance(kind, types.IntegerLiteral) and kind.literal_value >= 0


least, np_least = _extremes("least", "min", min)
greatest, np_greatest = _extremes("greatest", "max", max)


@register_jitable
def clipped(value, low, high):
    """`np.clip(value, low, high)`, which Numba has for arrays only."""
    return np_least(np_greatest(value, low), high)


def chosen(test, then, other):
    """`np.where` of numbers, of which Numba would make an array without axes."""
    raise NotImplementedError


@overload(chosen, prefer_literal=True)
def _chosen(test, then, other):
    if not (_scalar(test) and _scalar(then) and _scalar(other)):
        return lambda test, then, other: np.where(test, then, other)
    truths = isinstance(then, types.Boolean) and isinstance(other, types.Boolean)
    if _whole(then) and _whole(other) and not truths:
        kind = _word(then, other)
        return lambda test, then, other: kind(then) if test else kind(other)
    return lambda test, then, other: then if test else other


@register_jitable
def divided(a, b):
    """`divmod(a, b)`."""
    return op_floordiv(a, b), op_mod(a, b)


def beside(digits, other):
    """A number that int64 does not hold, as the type of the number beside it has it."""
    raise NotImplementedError


@overload(beside, prefer_literal=True)
def _beside(digits, other):
    if not isinstance(digits, types.StringLiteral):
        return None
    value = int(digits.literal_value)
    kind = _element(types.unliteral(other))
    if isinstance(kind, types.Float | types.Complex):
        number = float(value)
        return lambda digits, other: number
    if 0 <= value < 2**64 and (kind == types.uint64 or isinstance(kind, types.Boolean)):
        word = np.uint64(value)
        return lambda digits, other: word
    raise TypingError(f"{NOT_HELD}{value};")


def natural_power(a, n):
    """`a ** n` for a constant n that is not negative."""
    raise NotImplementedError


@overload(natural_power, prefer_literal=True)
def _natural_power(a, n):
    if not _whole(a):
        return lambda a, n: a**n
    if _modular(a):
        return lambda a, n: integer_power(a, np.uint64(n))
    return lambda a, n: np.int64(integer_power(a, np.uint64(n)))


def rounded(value):
    """`round(value)`, to the even of two neighbours."""
    raise NotImplementedError


@overload(rounded)
def _rounded(value):
    if isinstance(value, types.Float):
        return lambda value: whole(np.rint(value))
    return lambda value: whole(value)


def rounded_to(value, digits):
    """`round(value, digits)`, to the even of two neighbours."""
    raise NotImplementedError


@overload(rounded_to)
def _rounded_to(value, digits):
    kind = types.unliteral(value)
    if _whole(kind):
        if _modular(kind):
            return lambda value, digits: _tens(value, digits)
        return lambda value, digits: np.int64(_tens(np.int64(value), digits))
    if not isinstance(kind, types.Float):
        return lambda value, digits: np.round(value, digits)
    real = np.float32 if kind == types.float32 else np.float64

    def nearest(value, digits):
        scale = real(10.0 ** abs(digits))
        if digits < 0:
            return np.rint(value / scale) * scale
        return np.rint(value * scale) / scale if digits > 0 else np.rint(value)

    return nearest


@register_jitable
def _tens(value, digits):
    """The nearest multiple of a power of ten, the even of two, modulo 2**64."""
    size, step = _size(value), np.uint64(1)
    if digits < -19:
        return np.uint64(0)
    for _ in range(-digits):
        step = step * np.uint64(10)
    whole = size // step
    rest = size - whole * step
    half = step // np.uint64(2)
    if digits < 0 and (rest > half or (rest == half and whole & np.uint64(1) == np.uint64(1))):
        whole = whole + np.uint64(1)
    return whole * step if value >= 0 else np.uint64(0) - whole * step


def halved(value):
    """`np.float16(value)`, as a float32."""
    raise NotImplementedError


@overload(halved)
def _halved(value):
    if isinstance(value, types.Array):
        return lambda value: np.array([round_to_half(np.float64(v)) for v in value.flat]).reshape(
            value.shape
        )
    return lambda value: round_to_half(np.float64(value))


def cast(value, kind):
    """`kind(value)` for a NumPy integer type: integers wrap, floats saturate."""
    raise NotImplementedError


@overload(cast)
def _cast(value, kind):
    target = kind.instance_type
    narrow = getattr(np, target.name)
    low, high = _limits(narrow)
    if isinstance(value, types.Float):
        return lambda value, kind: wide(narrow(saturate_wide(value, low, high)))
    return lambda value, kind: wide(narrow(value))


def _limits(narrow):
    """The ends of an integer type, as the type that `saturate_wide` returns."""
    info = np.iinfo(narrow)
    carrier = np.uint64 if narrow is np.uint64 else np.int64
    return carrier(info.min), carrier(info.max)


def stored(value, out):
    """The value as `out` holds it, where it is known to fit."""
    raise NotImplementedError


@overload(stored)
def _stored(value, out):
    if isinstance(out.dtype, types.Boolean):
        return lambda value, out: value != 0
    if isinstance(out.dtype, types.Complex) or not _whole(value):
        return lambda value, out: value
    return lambda value, out: wide(value)


def saturated(value, out):
    """The nearest whole number, cut to what `out` holds; NaN is 0."""
    raise NotImplementedError


@overload(saturated)
def _saturated(value, out):
    if not isinstance(out.dtype, types.Integer):
        return lambda value, out: stored(value, out)
    low, high = _limits(getattr(np, out.dtype.name))
    if isinstance(value, types.Float):
        return lambda value, out: saturate_wide(np.rint(value), low, high)
    if _modular(value):
        top = np.uint64(high)
        return lambda value, out: min(value, top)
    if out.dtype == types.uint64:
        return lambda value, out: np.uint64(max(np.int64(value), np.int64(0)))
    return lambda value, out: min(max(np.int64(value), low), high)


def wrapped(value, out):
    """The lowest bits of the value, as many as `out` holds; NaN is 0."""
    raise NotImplementedError


@overload(wrapped)
def _wrapped(value, out):
    if not isinstance(out.dtype, types.Integer):
        return lambda value, out: stored(value, out)
    narrow = getattr(np, out.dtype.name)
    return lambda value, out: narrow(whole(value))


def span(a):
    """`np.ptp(a)`, where a bool counts as 0 or 1."""
    raise NotImplementedError


@overload(span)
def _span(a):
    if isinstance(a.dtype, types.Boolean):
        return lambda a: np.int64(np.any(a)) - np.int64(np.all(a))
    return lambda a: np.ptp(a)


# Reductions along an axis of a window, where Numba knows those of the whole array only.


def _along(name):
    reduce_line = getattr(np, name)

    def along(a, axis):
        raise NotImplementedError

    along.__name__ = along.__qualname__ = f"along_{name}"

    @overload(along)
    def typed(a, axis):
        if not isinstance(a, types.Array) or a.ndim > 2:
            raise TypingError(f"np.{name} along an axis of an array of two axes at most")
        if a.ndim == 1:
            return lambda a, axis: reduce_line(a)

        def reduce_lines(a, axis):
            if axis % 2 == 0:
                return np.array([reduce_line(a[:, k]) for k in range(a.shape[1])])
            return np.array([reduce_line(a[k]) for k in range(a.shape[0])])

        return reduce_lines

    return along


along_max, along_min, along_mean = _along("max"), _along("min"), _along("mean")
along_median, along_std, along_var = _along("median"), _along("std"), _along("var")
along_prod, along_any, along_all = _along("prod"), _along("any"), _along("all")
along_ptp = _along("ptp")
