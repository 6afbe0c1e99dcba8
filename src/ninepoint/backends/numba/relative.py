"""What kernels of the general path call: a field seen from a point.

`near` turns an offset into a place in a block and sees to it that the place is in the block:
a read outside the neighborhood is written down in `outside` and reported after the run.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload, register_jitable
from numba.np.arrayobj import make_array, populate_array

from ..outside import REACH, SITE
from ..threads import STOP
from .users import by_type

NOT_WHOLE = "ninepoint: this offset is no integer"


class Neighbours(NamedTuple):
    """A field seen from the point that is computed.

    Its `shape` is that of the whole array along the axes of the kernel, if that asks for it;
    `index` and `among` are the positions in that and among the results, so far as it asks.
    """

    array: Any
    place: Any
    outside: Any
    shape: Any
    index: Any
    among: Any


def seen(array: Any, *counts: int) -> Any:
    """Numba's type of such a field, from how many axes, lengths and positions there are."""
    place, *told = (types.BaseTuple.from_types((types.int64,) * count) for count in counts)
    return types.NamedTuple((array, place, types.Array(types.int64, 1, "A"), *told), Neighbours)


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


@by_type()
def near(place, offset, low, high, outside, site):
    """Where the neighbour at `offset` lies in a block whose first offset is `low`."""
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
    """See whether the run was told to stop."""
    if halted(outside):  # type: ignore[call-arg]
        raise RuntimeError("stopped")


# Elements and windows: integers of less than 64 bits become int64, and are exact.


@by_type()
def wide(value):
    """An element, or a window of its own, as the kernel computes with it."""
    kind = value.dtype if isinstance(value, types.Array) else value
    narrow = isinstance(kind, types.Integer) and getattr(kind, "bitwidth", 64) < 64
    if isinstance(value, types.Array):
        return (lambda value: value.astype(np.int64)) if narrow else lambda value: value.copy()
    return (lambda value: np.int64(value)) if narrow else lambda value: value


# What Numba has for arrays only.


@overload(operator.getitem)
def _masked(array, mask):
    if not isinstance(array, types.Array) or not isinstance(mask, types.Array):
        return None
    if not isinstance(mask.dtype, types.Boolean) or not 1 < array.ndim == mask.ndim:
        return None

    def masked(array, mask):
        if array.shape != mask.shape:
            raise IndexError("a mask needs the shape of its window")
        return array.flatten()[mask.flatten()]

    return masked


def _ask_first() -> None:
    """Have masks asked for before what Numba's own indices take, whoever used Numba before."""
    context = cpu_target.typing_context
    context.refresh()
    known = context._lookup_global(operator.getitem)
    known.templates = tuple(
        sorted(
            known.templates, key=lambda one: getattr(one, "_overload_func", None) is not _masked
        )
    )


_ask_first()


@by_type()
def chosen(test, then, other):
    """`np.where` of numbers, of which Numba would make an array without axes."""
    if isinstance(test, types.Array):
        return lambda test, then, other: np.where(test, then, other)
    return lambda test, then, other: then if test else other


@register_jitable
def clipped(value, low, high):
    """`np.clip(value, low, high)`."""
    return np.minimum(np.maximum(value, low), high)


# Sorting, for which Numba makes a list first: nine numbers took it 400 ns, and take this 20.

SMALL = 64


@register_jitable
def _before(a, b):
    """Whether a number stands before another; NaN is the last, as in NumPy."""
    return a < b or (b != b and a == a)


@register_jitable
def ordered(a):
    """`np.sort(a)`."""
    if a.size > SMALL or a.ndim > 1:
        return np.sort(a)
    found = a.copy()
    for k in range(1, a.size):
        value, at = found[k], k
        while at > 0 and _before(value, found[at - 1]):
            found[at] = found[at - 1]
            at -= 1
        found[at] = value
    return found


@register_jitable
def in_order(window, name, cut=0.0):
    """The elements of a window as `language.statistics` asks for them."""
    return ordered(window.ravel())


@register_jitable
def middle(a):
    """`np.median(a)`, which is NaN if a number is."""
    found = ordered(a.ravel())
    half = found.size // 2
    if found.size == 0 or found[-1] != found[-1]:
        return np.nan
    return (found[half] + found[found.size - 1 - half]) / 2


# Reductions along an axis of a window, where Numba knows those of the whole array only.


@by_type(prefer_literal=True)
def along(name, a, axis):
    """What `name` reduces lines to."""
    if not isinstance(a, types.Array) or a.ndim > 2:
        raise TypingError("it reduces along an axis of an array of two axes at most")
    reduce_line = getattr(np, name.literal_value)
    if a.ndim == 1:
        return lambda name, a, axis: reduce_line(a)

    def reduce_lines(name, a, axis):
        lines = a.T if axis % 2 == 0 else a
        return np.array([reduce_line(lines[k]) for k in range(lines.shape[0])])

    return reduce_lines
