"""Subscripts: reads of fields at offsets, and elements of what is known.

x[-1, 0]        ->     Read(x, (-1, 0))
d[-1, 0]        ->     what d is, with each read moved by (-1, 0)
x[-1:2, 0]      ->     Tap(x, from (-1, 0), along axis 0), a window of 3
w[mask]         ->     the elements of a window where a constant array says so
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from . import buffers, errors, ir
from .dtypes import DType, value_type
from .errors import Span
from .frame import Frame, settled
from .ir import Offset
from .kinds import Coefficients, Field
from .values import Index, NotUnderstood, Value, constant, words
from .windows import moved, on_position, picked, reads, varies, windowed


class Subscripts(Frame):
    """A frame that understands `x[...]`."""

    def subscript(self, node: ast.Subscript) -> Any:
        if (buffer := self.buffer(node.value)) is not None:
            return buffers.element(self.ops, buffer, self.place(buffer, node))
        base = self.eval(node.value)
        index = self.eval(node.slice)
        span = self.at(node)
        indices = index if isinstance(index, tuple) else (index,)
        text = ast.unparse(node.value)
        unknown = any(map(_varies, indices))
        if isinstance(base, Coefficients) or (isinstance(base, np.ndarray) and unknown):
            name = base.name if isinstance(base, Coefficients) else text
            where = buffers.place(self.ops, base, indices, name, span)
            return buffers.element(self.ops, base, where)
        match base:
            case Field():
                return self.read_field(base, indices, node)
            case np.ndarray():
                if len(indices) > base.ndim:
                    raise errors.index_count(span, text, len(indices), base.ndim)
                if any(not isinstance(i, int) for i in indices):
                    for one in indices:
                        if isinstance(one, float | str | np.floating):
                            raise errors.index_type(span, text, words(one))
                    try:
                        return settled(base[index])
                    except IndexError as error:
                        raise errors.window_index(span, text, str(error)) from error
                shape = base.shape[: len(indices)]
                return settled(
                    base[tuple(buffers.steps(self.ops, shape, indices, text, span, text))]
                )
            case tuple() | range():
                if isinstance(index, int) and not -len(base) <= index < len(base):
                    raise errors.index_outside(span, text, index, len(base))
                if isinstance(index, float | str | np.floating | tuple):
                    raise errors.index_type(span, text, words(index))
                if not isinstance(index, int | slice) or _varies(index):
                    raise NotUnderstood("a tuple at an index that varies", span)
                return base[index]
            case Value(shape=shape) if shape is not None:
                return picked(self.ops, base, index, span, text)
            case Value() if isinstance(node.value, ast.Name) and varies(self.ops, base.atom):
                return self.read_value(base, indices, node)
            case _:
                raise errors.bad_operand(span, "Indexing", words(base))

    def place(self, buffer: buffers.Buffer, node: ast.Subscript) -> Any:
        """Which element of a buffer is meant."""
        index, text = self.eval(node.slice), ast.unparse(node.value)
        indices = index if isinstance(index, tuple) else (index,)
        return buffers.place(self.ops, buffer, indices, text, self.at(node))

    def read_field(self, field: Field, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
        if self.axes.neighborhood is not None and any(map(_computed, indices)):
            return self.gather(field, indices, node)
        first, last, along, shape = self.box(indices, node)
        self.axes.check(field.name, first, last, self.at(node))
        dtype = value_type(field.storage)
        if not along:
            return self.ops.emit(ir.Read(dtype, field.label, first))
        return self.ops.emit(ir.Tap(dtype, field.label, first, along), False, shape)

    def gather(self, field: Field, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
        """An element at an offset that is computed, which must be in the neighborhood."""
        span, declared = self.at(node), self.axes.neighborhood or ()
        # Of each axis what is known of the offset, what is computed, and between which ends.
        parts: list[tuple[int, ir.Atom, int, int]] = []
        for axis, (index, place) in enumerate(
            zip(indices, self.places(node, len(indices)), strict=True)
        ):
            if not _computed(index):
                origin, _ = self.offsets(index, place)
                if isinstance(index, slice):
                    raise NotUnderstood("a window at an offset that varies", span)
                parts.append((origin, ir.Const(DType.INT, "0"), 0, 0))
                continue
            if not index.dtype.is_integer or index.shape is not None:
                raise errors.offset_type(self.at(place), words(index) + " that is not whole")
            if on_position(self.ops, index.atom) and self.axes.factors:
                self.offset(index, self.at(place), place)
            ends = declared[axis] if axis < len(declared) else (0, 0)
            parts.append((0, self.ops.cast(index, DType.INT), *ends))
        origins, steps, low, high = zip(*parts, strict=True)
        least, most = ir.added(origins, low), ir.added(origins, high)
        self.axes.check(field.name, least, most, self.at(node))
        return self.ops.emit(
            ir.Gather(
                value_type(field.storage),
                field.label,
                origins,
                steps,
                low,
                high,
                self.ops.lift(self.ops.active()).atom,
                f"{span.file}|{span.line}",
            )
        )

    def read_value(self, value: Value, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
        """An expression of fields at another point, or over a window of points."""
        first, last, along, shape = self.box(indices, node)
        span = self.at(node)
        name = ast.unparse(node.value)
        if self.axes.pointwise:
            raise errors.ufunc_index(span, name)
        if len(first) != self.axes.count:
            raise errors.offset_count(
                span, name, len(first), self.axes.count or 0, self.axes.neighborhood is not None
            )
        made = (
            windowed(self.ops, value, first, along, shape)
            if along
            else moved(self.ops, value, first)
        )
        for low, high in reads(self.ops, value.atom):
            self.axes.check(name, ir.added(low, first), ir.added(high, last), span)
        return made

    def box(
        self, indices: tuple[Any, ...], node: ast.Subscript
    ) -> tuple[Offset, Offset, Offset, Offset]:
        """The first and the last offset along each axis; the axes of a window, and its shape."""
        self.at(node)
        places = self.places(node, len(indices))
        ends = [self.offsets(index, place) for index, place in zip(indices, places, strict=True)]
        first, last = tuple(low for low, _ in ends), tuple(high for _, high in ends)
        along = tuple(axis for axis, index in enumerate(indices) if isinstance(index, slice))
        return first, last, along, tuple(last[axis] - first[axis] + 1 for axis in along)

    @staticmethod
    def places(node: ast.Subscript, count: int) -> list[ast.expr]:
        """Where each of so many indices stands."""
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return nodes if len(nodes) == count else [node.slice] * count

    def offsets(self, index: Any, place: ast.expr) -> tuple[int, int]:
        """The first and the last offset along one axis."""
        span = self.at(place)
        if isinstance(index, slice):
            if index.step is not None and index.step != 1:
                raise errors.window_step(span)
            if index.start is None or index.stop is None:
                raise errors.window_open(span)
            ends = (self.offset(index.start, span, place), self.offset(index.stop, span, place))
            if ends[0] >= ends[1]:
                raise errors.window_empty(span, *ends)
            return ends[0], ends[1] - 1
        where = self.offset(index, span, place)
        return where, where

    def offset(self, index: Any, span: Span, place: ast.expr) -> int:
        index = constant(index)
        if isinstance(index, Index):
            if index.line.scale != 1:
                factor = self.axes.factors
                raise errors.index_factor(span, ast.unparse(place), index.line.scale, factor)
            return index.line.shift
        if isinstance(index, Value):
            if index.shape is None and index.dtype.is_integer:
                if on_position(self.ops, index.atom) and self.axes.factors:
                    raise errors.index_factor(span, ast.unparse(place), 0, self.axes.factors)
                if on_position(self.ops, index.atom) and self.axes.neighborhood is None:
                    raise errors.offset_position(span, ast.unparse(place))
                if self.axes.neighborhood is None:
                    raise errors.offset_not_constant(span, f"'{ast.unparse(place)}'")
                raise NotUnderstood("an offset that varies", span)
            raise errors.offset_type(span, words(index) + " that is not whole")
        if isinstance(index, bool) or not isinstance(index, int):
            raise errors.offset_type(span, words(index))
        return index


def _computed(index: Any) -> bool:
    """Whether an offset is known at run time only."""
    return isinstance(index, Value) and not isinstance(index, Index)


def _varies(index: Any) -> bool:
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    return any(isinstance(part, Value) for part in parts)
