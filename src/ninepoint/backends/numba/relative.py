"""What kernels of the general path call: a field seen from a point.

`near` turns an offset into a place in a block and sees to it that the place is in the block:
a read outside the neighborhood is written down in `outside` and reported after the run.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.extending import (
    intrinsic,
    make_attribute_wrapper,
    models,
    overload,
    register_jitable,
    register_model,
)
from numba.np.arrayobj import make_array
from numba.np.numpy_support import as_dtype

from ..threads import STOP
from .users import by_type

NOT_WHOLE = "ninepoint: an offset is no integer, and no window of all elements between two"


class Seen(types.Type):
    """Numba's type of a field seen from the point that is computed, of a kernel that looks so far.

    Its values have the block of the field, the point's place there, and where notes are written.
    """

    def __init__(self, array: Any, box: Any) -> None:
        self.array, self.box = array, box
        super().__init__(f"field({array}, {box.lo}, {box.hi})")


_PARTS = ("array", "place", "outside")


@register_model(Seen)
def _model(manager, kind):
    place, outside = types.UniTuple(types.int64, kind.array.ndim), types.Array(types.int64, 1, "A")
    parts = zip(_PARTS, (kind.array, place, outside), strict=True)
    return models.StructModel(manager, kind, list(parts))


for _part in _PARTS:
    make_attribute_wrapper(Seen, _part, _part)


def seen_within(box: Any) -> Any:
    """What makes fields seen from a point, of a kernel that looks so far."""

    @intrinsic
    def seen(typingctx, array, place, outside):
        kind = Seen(array, box)

        def codegen(context, builder, signature, args):
            made = cgutils.create_struct_proxy(kind)(context, builder)
            made.place = args[1]
            for name, given, value in ("array", array, args[0]), ("outside", outside, args[2]):
                view = make_array(given)(context, builder, value)
                # Without an owner, so that no point has to count references.
                view.meminfo = view.parent = cgutils.get_null_value(view.meminfo.type)
                setattr(made, name, view._getvalue())
            return made._getvalue()

        return kind(array, place, outside), codegen

    return seen


@overload(operator.getitem)
def _read(field, index):
    """The neighbour at an offset, or a window of neighbours."""
    if not isinstance(field, Seen):
        return None
    several = isinstance(index, types.BaseTuple)
    kinds, (low, high) = list(index) if several else [index], field.box.ends
    if len(kinds) != len(low):
        raise TypingError(f"ninepoint: a field needs {len(low)} offsets in each of its reads")
    places = ["field.place[0]"]
    for axis, kind in enumerate(kinds):
        offset = f"index[{axis}]" if several else "index"
        place, ends = f"field.place[{axis + 1}]", f"{low[axis]}, {high[axis]}"
        near = f"near({place}, {offset}{{}}, {ends}, field.outside, {axis})"
        if isinstance(kind, types.Integer):
            places.append(near.format(""))
        elif isinstance(kind, types.SliceType) and not kind.has_step:
            places.append(f"{near.format('.start')} : {near.format('.stop - 1')} + 1")
        else:
            raise TypingError(NOT_WHOLE)
    names = dict(globals())
    exec(f"def read(field, index): return wide(field.array[{', '.join(places)}])", names)
    return names["read"]


@register_jitable
def near(place, offset, low, high, outside, axis):
    """Where the neighbour at `offset` lies in a block whose first offset is `low`."""
    step = np.int64(offset)
    if low <= step <= high:
        return place + step - low
    if outside[0] == 0:
        outside[0], outside[2] = axis + 1, step
    # At once: a loop that looks for something out there would never end.
    raise IndexError("outside its neighborhood")


@register_jitable
def go_on(outside):
    """See whether the run was told to stop; anew at each point, for a result may lie there."""
    if outside[STOP]:
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


# Results that integers may not hold: the nearest number that they hold, or the lowest bits.


def _fitted(saturates):
    @by_type()
    def fitted(value, out):
        """A number as the elements of an array hold it; NaN is 0."""
        given, storage = as_dtype(value), as_dtype(out.dtype)
        if storage.kind not in "iu" or given.kind not in ("iuf" if saturates else "f"):
            return lambda value, out: value
        held = own = np.iinfo(storage if saturates else np.int64)
        if given.kind != "f":
            own = np.iinfo(np.uint64 if given == np.uint64 else np.int64)
        kind, rounds = own.dtype.type, given.kind == "f" and saturates
        low, high = kind(max(own.min, held.min)), kind(min(own.max, held.max))
        nearest = np.rint if rounds else operator.pos

        def fit(value, out):
            if value != value:
                return kind(0)
            whole = nearest(value)
            if whole <= low:
                return low
            return high if whole >= high else kind(whole)

        return fit

    return fitted


saturate, wrap = _fitted(True), _fitted(False)


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


# Masks are asked for before what Numba's own indices take, whoever used Numba before.
_context = cpu_target.typing_context
_context.refresh()
_getitem = _context._lookup_global(operator.getitem)
_getitem.templates = tuple(
    sorted(_getitem.templates, key=lambda one: getattr(one, "_overload_func", None) is not _masked)
)


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
