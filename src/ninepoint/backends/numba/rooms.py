"""Rooms: small arrays of one point that lie on the stack, for as long as the point is computed.

    w = x[-1:2, -1:2]        ->     w = held("- 3 3", x.array, place)  a copy, in a room
    v = np.zeros(8)          ->     v = cleared("8", np.float64)
    np.sort(w.ravel())[4]    ->     ordered(w.ravel())[4]             sorted into a room
    w[w > 0].sum()           ->     taken(w, mask_gt(w, 0)).sum()     both in rooms

To ask the heap for an array takes 25 ns, and a 3 x 3 mean takes 0.3 ns a point (Zen 4).  LLVM
makes a room once for all points, so each place of the text has one room, whose content the next
turn of a loop overwrites: `general.fleeting` says where that is no matter.
"""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, register_jitable
from numba.np.arrayobj import load_item, make_array, populate_array, store_item

# What is larger is made on the heap.  Numba's own sort takes 400 ns for nine numbers, as it makes
# a list first, and one by insertion takes 20 ns; that of 64 takes as long as Numba's.
ELEMENTS = 64

# Copies of so many elements are no loop.
_WRITTEN_OUT = 32


def _widened(dtype):
    """The type of an element once its integers are exact."""
    narrow = isinstance(dtype, types.Integer) and getattr(dtype, "bitwidth", 64) < 64
    return types.int64 if narrow else dtype


def _made(context, builder, kind, shape):
    """An array of this shape and type, whose elements nobody has written yet."""
    count = math.prod(shape)
    data_type = context.get_data_type(kind.dtype)
    size = context.get_abi_sizeof(data_type)
    data = cgutils.alloca_once(builder, ir.ArrayType(data_type, count))
    data.align = 32
    strides = [size * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    view = make_array(kind)(context, builder)
    populate_array(
        view,
        data=builder.bitcast(data, data_type.as_pointer()),
        shape=[context.get_constant(types.intp, n) for n in shape],
        strides=[context.get_constant(types.intp, n) for n in strides],
        itemsize=context.get_constant(types.intp, size),
        meminfo=None,
        parent=None,
    )
    return view._getvalue()


def _lengths(shape):
    return [int(n) for n in shape.literal_value.split()]


@register_jitable
def _zeros(room):
    for place in np.ndindex(room.shape):
        room[place] = 0
    return room


@intrinsic(prefer_literal=True)
def held(typingctx, shape, array, corner):
    """The elements of a window from a corner on, as the kernel computes with them.

    An axis of length "1" of a window is one, an axis that is "-" has one element and is none.
    """
    texts = shape.literal_value.split()
    axes = [axis for axis, text in enumerate(texts) if text != "-"]
    lengths = [int(texts[axis]) for axis in axes]
    kind = types.Array(_widened(array.dtype), len(axes), "C")

    def codegen(context, builder, signature, args):
        given = signature.args[1]
        made = _made(context, builder, kind, lengths)
        room = make_array(kind)(context, builder, made)
        source = make_array(given)(context, builder, args[1])
        first = cgutils.unpack_tuple(builder, args[2])

        def copy(places):
            index = list(first)
            for axis, place in zip(axes, places, strict=True):
                index[axis] = builder.add(index[axis], place)
            value = load_item(context, builder, given, _pointer(given, source, index))
            wide = context.cast(builder, value, given.dtype, kind.dtype)
            store_item(context, builder, kind, wide, _pointer(kind, room, places))

        def _pointer(kind, view, index):
            return cgutils.get_item_pointer(context, builder, kind, view, index, wraparound=False)

        if math.prod(lengths) <= _WRITTEN_OUT:
            for places in itertools.product(*map(range, lengths)):
                copy([context.get_constant(types.intp, place) for place in places])
        else:
            ends = [context.get_constant(types.intp, n) for n in lengths]
            with cgutils.loop_nest(builder, ends, ends[0].type) as places:
                copy(places)
        return made

    return kind(shape, array, corner), codegen


def _room(dtype, shape):
    return types.Array(dtype.dtype, len(_lengths(shape)), "C")


@intrinsic(prefer_literal=True)
def unwritten(typingctx, shape, dtype):
    """`np.empty(shape, dtype)`."""
    kind = _room(dtype, shape)
    lengths = _lengths(shape)

    def codegen(context, builder, signature, args):
        return _made(context, builder, kind, lengths)

    return kind(shape, dtype), codegen


@intrinsic(prefer_literal=True)
def cleared(typingctx, shape, dtype):
    """`np.zeros(shape, dtype)`."""
    kind = _room(dtype, shape)
    lengths = _lengths(shape)

    def codegen(context, builder, signature, args):
        room = _made(context, builder, kind, lengths)
        return context.compile_internal(builder, _zeros, kind(kind), [room])

    return kind(shape, dtype), codegen


# Sorted arrays.


@register_jitable
def _before(a, b):
    """Whether a number stands before another; NaN is the last, as in NumPy."""
    return a < b or (b != b and a == a)


@register_jitable
def insert(found, count, value):
    """Put a number among the first `count`, which are sorted."""
    at = count
    while at > 0 and _before(value, found[at - 1]):
        found[at] = found[at - 1]
        at -= 1
    found[at] = value


def _sorted_into(a, room):
    if a.size > room.size:
        return np.sort(a)
    for k in range(a.size):
        insert(room, k, a[k])
    return room[: a.size]


@intrinsic
def _ordered(typingctx, a):
    kind = types.Array(a.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        room = _made(context, builder, kind, [ELEMENTS])
        given = kind(signature.args[0], kind)
        return context.compile_internal(builder, _sorted_into, given, [args[0], room])

    return kind(a), codegen


def _line(kind):
    """Whether a type is that of a sequence of real numbers."""
    real = types.Integer | types.Float
    return isinstance(kind, types.Array) and kind.ndim == 1 and isinstance(kind.dtype, real)


def ordered(a):
    """`np.sort(a)`."""
    raise NotImplementedError


@overload(ordered, inline="always")
def _ordered_typed(a):
    return (lambda a: _ordered(a)) if _line(a) else (lambda a: np.sort(a))  # type: ignore[call-arg]


def order(a):
    """`a.sort()`."""
    raise NotImplementedError


@overload(order)
def _order(a):
    if not _line(a):
        return lambda a: a.sort()

    def sort(a):
        if a.size > ELEMENTS:
            a.sort()
            return
        for k in range(1, a.size):
            insert(a, k, a[k])

    return sort


def middle(a):
    """`np.median(a)`."""
    raise NotImplementedError


def known_middle(a):
    """`np.nanmedian(a)`."""
    raise NotImplementedError


@intrinsic(prefer_literal=True)
def _like(typingctx, a):
    """A room for elements of this array; only for as long as the function runs that asks."""
    kind = types.Array(a.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        return _made(context, builder, kind, [ELEMENTS])

    return kind(a), codegen


def _middles(function, plain, known):
    @overload(function)
    def typed(a):
        real = types.Integer | types.Float
        if not isinstance(a, types.Array) or not isinstance(a.dtype, real):
            return lambda a: plain(a)

        def find(a):
            if a.size > ELEMENTS:
                return plain(a)
            found: Any = _like(a)  # type: ignore[call-arg]
            count = 0
            for value in a.flat:
                if value == value:
                    insert(found, count, value)
                    count += 1
                elif not known:
                    return np.nan
            if count == 0:
                return np.nan
            half = count // 2
            if count % 2 == 1:
                return found[half] * 1.0
            return (found[half - 1] + found[half]) / 2

        return find


_middles(middle, np.median, False)
_middles(known_middle, np.nanmedian, True)


# Elements that a mask chooses.


def _taken_into(array, mask, room):
    if array.shape != mask.shape:
        raise IndexError("a mask needs the shape of its window")
    if array.size > room.size:
        return array.ravel()[mask.ravel()]
    values, wanted = array.ravel(), mask.ravel()
    count = 0
    for k in range(values.size):
        # Written whether it is wanted or not: what follows takes its place.
        room[count] = values[k]
        count += wanted[k]
    return room[:count]


@intrinsic
def _taken(typingctx, array, mask):
    kind = types.Array(array.dtype, 1, "C")

    def codegen(context, builder, signature, args):
        room = _made(context, builder, kind, [ELEMENTS])
        given = kind(*signature.args, kind)
        return context.compile_internal(builder, _taken_into, given, [*args, room])

    return kind(array, mask), codegen


def masked(array, mask):
    """The elements of an array where a mask of its shape says so."""
    raise NotImplementedError


def _masks(array, mask):
    """Whether one masks the other; with several axes, which Numba has not."""
    arrays = isinstance(array, types.Array) and isinstance(mask, types.Array)
    if not arrays or not isinstance(mask.dtype, types.Boolean):
        return False, False
    if array.ndim > 1 and mask.ndim != array.ndim:
        raise TypingError("a mask needs as many axes as its window")
    return mask.ndim == array.ndim, array.ndim > 1


@overload(masked)
def _masked(array, mask):
    if not _masks(array, mask)[1]:
        return lambda array, mask: array[mask]

    def chosen(array, mask):
        if array.shape != mask.shape:
            raise IndexError("a mask needs the shape of its window")
        return array.copy().ravel()[mask.copy().ravel()]

    return chosen


def taken(array, mask):
    """The elements of an array where a mask of its shape says so, in a room."""
    raise NotImplementedError


@overload(taken, inline="always")
def _taken_typed(array, mask):
    if _masks(array, mask)[0] and array.layout == mask.layout == "C":
        return lambda array, mask: _taken(array, mask)  # type: ignore[call-arg]
    return lambda array, mask: masked(array, mask)


def _comparison(name):
    """A comparison of an array with a number, in a room."""
    plain = getattr(operator, name)

    @register_jitable
    def into(a, b, room):
        if a.size > room.size:
            return plain(a, b)
        values = a.ravel()
        for k in range(values.size):
            room[k] = plain(values[k], b)
        return room[: a.size].reshape(a.shape)

    @intrinsic
    def compared(typingctx, a, b):
        line = types.Array(types.boolean, 1, "C")
        kind = line.copy(ndim=a.ndim)

        def codegen(context, builder, signature, args):
            room = _made(context, builder, line, [ELEMENTS])
            given = kind(*signature.args, line)
            return context.compile_internal(builder, into, given, [*args, room])

        return kind(a, b), codegen

    def comparison(a, b):
        raise NotImplementedError

    comparison.__name__ = comparison.__qualname__ = f"mask_{name}"

    @overload(comparison, inline="always")
    def typed(a, b):
        array = isinstance(a, types.Array) and a.layout == "C" and a.dtype != types.uint64
        if array and isinstance(b, types.Number):
            return lambda a, b: compared(a, b)  # type: ignore[call-arg]
        return lambda a, b: plain(a, b)

    return comparison


mask_lt, mask_le, mask_gt = _comparison("lt"), _comparison("le"), _comparison("gt")
mask_ge, mask_eq, mask_ne = _comparison("ge"), _comparison("eq"), _comparison("ne")
