"""Arrangements: arrays as a prepared call needs them, and its results as they were asked for.

    fields of fewer axes, axes in another order, strides or bytes that cannot be read
        -> one shape, core axes last, rows whose elements lie side by side

To a program that looks at no neighbour all axes are alike: they become as few as can be.  For
others a stack that lies innermost stays there (see `lanes`).

What is to be done with each array is settled once; a call then does just that.

Merging: to what looks at no neighbour all axes are alike, so that many of them are one.

    shape (4, 5, 6), strides (240, 48, 8)     ->     shape (120,), strides (8,)
    shape (4, 5, 6), strides (8, 32, 160)     ->     the same, its axes taken in another order
    shape (4, 5, 6) beside (5, 6)             ->     shapes (4, 30) and (4, 30), strides (0, 8)

Axes are put in the order of memory, and those that lie in memory as one would are made one, in
all arrays alike.  Nothing is copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..backends.compiled import Bound
from ..base import limits
from .accepted import copied, listed, write
from .borders import Array, Border
from .lanes import Lanes, Turned, arranged
from .layout import Shape
from .numpy import whole_shape
from .strided import is_movable, is_readable, memory_order, mergeable, merged_axes


def looks_at_points(code: Bound) -> bool:
    """Whether each result depends on the elements at its own point alone, along one axis."""
    return (
        code.ndim == 1
        and not code.every
        and not any(box.lo[0] or box.hi[0] for box in code.reaches)
    )


def rows_of(program: Bound) -> list[int]:
    """The fields of which one element of each row is read, wherever the others lie."""
    given = len(program.field_dtypes) - len(program.along)
    return [given + k for k, axis in enumerate(program.along) if axis < program.ndim - 1]


def merging(arrays: Sequence[Array]) -> Turned | None:
    """Find how arrays of one shape, of one axis at least, become arrays of as few as can be."""
    shape = arrays[0].shape
    if len(shape) == 1 or not math.prod(shape):
        return None
    order = memory_order(shape, [array.strides for array in arrays])
    turned = [array.transpose(order) for array in arrays]
    lengths, _ = merged_axes(turned[0].shape, [array.strides for array in turned])
    rest, merged = list(turned[0].shape), list[Shape]()
    for n in lengths or [1]:
        own = [rest.pop(0)]
        while math.prod(own) < n:
            own.append(rest.pop(0))
        merged.append(tuple(own[1:]))
    merged[-1] += tuple(rest)
    if not any(merged) and order == tuple(range(len(shape))):
        return None
    return Turned(order, tuple(merged))


View: TypeAlias = Callable[[Array], Array]


class Arrangement:
    """How the arrays of calls like one are given to a program.

    Their axes are to be in this `order`, in which the core axes come last.  Without `lanes` a
    stack stays outside, and becomes one axis.
    """

    def __init__(
        self,
        program: Bound,
        fields: Sequence[Array],
        order: tuple[int, ...],
        out: Any,
        *,
        lanes: bool = True,
    ) -> None:
        self.program, self._stacked = program, not lanes
        shape = whole_shape(fields)
        outs = listed(out)
        # How axes are put in another order; nothing if all stay as they are.
        self._how: Turned | None = None
        whole = [np.broadcast_to(field, shape) for field in fields]
        if looks_at_points(program) and not program.positions:
            self._how = merging([*whole, *outs])
        else:
            self._how, self.program = arranged(program, order, whole, outs, lanes=lanes)
        # Larger arrays are copied block by block.
        self._small = math.prod(shape) <= limits.current.block_elements
        self._moves = self.program.takes_commands and not self.program.takes_elements
        rows = rows_of(program)
        self._views = [
            self._view(field, shape, dtype, k in rows)
            for k, (field, dtype) in enumerate(zip(fields, program.field_dtypes, strict=True))
        ]
        outs = [self._turned(one) for one in outs]
        self._apart = self._small and not all(map(is_readable, outs, program.out_dtypes))
        self._apart |= not all(map(self._is_stack, outs))
        self.plain = (
            self._how is None and not self._apart and all(view is None for view in self._views)
        )

    def border(self, border: Border) -> Border:
        """Give the border of the program."""
        return self._how.border(border) if isinstance(self._how, Lanes) else border

    def fields(self, fields: Sequence[Array]) -> list[Array]:
        """Give the fields as the program reads them."""
        return [
            field if view is None else view(field)
            for field, view in zip(fields, self._views, strict=True)
        ]

    def out(self, out: Any) -> Any:
        """Give the `out` of the program; None where it makes its own results."""
        if out is None or self._apart:
            return None
        return out if self._how is None else tuple(map(self._how.of, listed(out)))

    @property
    def has_place(self) -> bool:
        """Whether results are made in the caller's own arrays, element by element."""
        return not isinstance(self._how, Lanes) and not self._apart

    def given(self, results: Sequence[Array], targets: Sequence[Array]) -> Sequence[Array]:
        """Give results as the caller has them: in his own arrays, if there are `targets`."""
        if targets and not self._apart:
            return targets
        if self._how is not None:
            results = list(map(self._how.back, results))
        for target, one in zip(targets, results, strict=False):
            write(target, one)
        return targets or results

    def _turned(self, array: Array) -> Array:
        return array if self._how is None else self._how.of(array)

    def _is_stack(self, array: Array) -> bool:
        """Whether the stack is one axis, if it is to be one."""
        return not self._stacked or mergeable(array, array.ndim - self.program.ndim)

    def _view(self, field: Array, shape: Shape, dtype: np.dtype, alike: bool) -> View | None:
        """Give what is done with a field, whose rows may be `alike`; None if nothing is."""
        views: list[View] = []
        if field.shape != shape:
            views.append(_spread(field, shape))
            field = views[0](field)
        if self._how is not None:
            views.append(self._how.of)
            field = self._how.of(field)
        # Commands take any strides, of one axis for the stack.
        few = field.ndim <= self.program.ndim + 1
        moves = self._moves and few and is_movable(field, dtype)
        unreadable = self._small and not alike and not moves and not is_readable(field, dtype)
        if unreadable or not self._is_stack(field):
            views.append(partial(copied, dtype=dtype))
        if len(views) > 1:
            return partial(_one_after_another, views)
        return views[0] if views else None


def _one_after_another(views: Sequence[View], array: Array) -> Array:
    for view in views:
        array = view(array)
    return array


def _spread(field: Array, shape: Shape) -> View:
    """Give what broadcasts arrays like `field`, in 0.3 us where NumPy's function takes 3 us."""
    if not field.flags.c_contiguous:
        return partial(np.broadcast_to, shape=shape)
    strides, dtype = np.broadcast_to(field, shape).strides, field.dtype
    return lambda array: np.ndarray(shape, dtype, array, 0, strides)


def are_writable(outs: Sequence[Array], fields: Sequence[Array]) -> bool:
    """Whether outputs can be written as they are, none of them sharing memory with another."""
    for k, out in enumerate(outs):
        if not out.flags.writeable:
            return False
        for other in (*fields, *outs[:k]):
            if may_overlap(out, other):
                return False
    return True


def may_overlap(one: Array, other: Array) -> bool:
    """Whether two arrays may share memory, judged by their bounds."""
    # Two arrays that own their memory share none: 0.1 us, where NumPy's function takes 0.4 us.
    if one is not other and one.flags.owndata and other.flags.owndata:
        return False
    return np.may_share_memory(one, other)
