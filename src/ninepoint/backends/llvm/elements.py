"""The loop over elements, as NumPy calls that of a function of its own.

    elements(arguments, sizes, steps, data)

`arguments` are where fields, numbers and results begin, `steps` how far it is from one element of
each to the next, `sizes` how many there are; a number has one element.  A kernel of one axis that
looks at no neighbour computes them as it computes a row.  What does not lie side by side, or is a
result in the place of a field, comes and goes through a short block that stays in the cache: an
element that stands for all is put there once.

A word at `data` is set where there was no memory.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir

from . import native
from .building import INT, WORD, begun, called, loop, pointer, variable, word, written_words
from .values import flat, load, stored

# So many elements are computed together where they are copied: some kilobytes stay in the cache.
# Column times matrix, 2048x2048 float32: 2.1 ms, where copies of 2 MB took 2.7 ms (Zen 5).
_BLOCK = 1024

# What NumPy looks for after a loop, by the machine: invalid, divided by zero, over- and underflow.
_EXCEPTIONS = {"x86_64": 0x1D, "AMD64": 0x1D, "aarch64": 0x0F, "arm64": 0x0F}


def elements(kernel: Any, block: Any) -> None:
    """Write the loop for a kernel of one axis (see `entries`), which also takes numbers.

    `block` computes a block from views and from numbers.
    """
    kinds = kernel.kinds
    count = len(kinds) - kernel.arrays
    fields = sum(not kind.mutable for kind in kinds[: kernel.arrays])
    made, builder = begun(kernel.module, native.ELEMENTS, ir.VoidType(), [WORD] * 4)
    arguments, sizes, steps, data = made.args
    length = word(builder, sizes, 0)
    operands = []
    for k, kind in enumerate(kinds[: kernel.arrays]):
        # NumPy has results behind all else.
        place = k if k < fields else k + count
        at, step = word(builder, arguments, place), word(builder, steps, place)
        operands.append(_Operand(builder, kind, at, step, k >= fields))
    values: list[Any] = []
    for k, kind in enumerate(kinds[kernel.arrays :]):
        address = word(builder, arguments, fields + k)
        place = pointer(builder, address, stored(kind.machine))
        values += flat(load(builder, kind.machine, place))
    others = kernel.held(builder, values)
    for one in operands[fields:]:
        for field in operands[:fields]:
            one.keep_off(field, length)
    apart: Any = ir.IntType(1)(0)
    for one in operands:
        apart = builder.or_(apart, one.apart)
    failed = variable(builder, WORD, WORD(0))

    def compute(places: list[Any], some: Any) -> None:
        # The stack has one image.
        views = [
            one
            for operand, at in zip(operands, places, strict=True)
            for one in (at, WORD(1), some, WORD(0), WORD(operand.size))
        ]
        status = builder.call(block, [written_words(builder, views), others])
        builder.store(builder.or_(builder.load(failed), status), failed)

    with builder.if_else(apart, likely=False) as (copied, direct):
        with direct:
            compute([one.at for one in operands], length)
        with copied:
            _in_blocks(builder, operands, length, compute)
    with builder.if_then(builder.icmp_signed("!=", builder.load(failed), WORD(0)), likely=False):
        builder.store(WORD(1), pointer(builder, data))
    _forget_exceptions(builder)
    builder.ret_void()


def _in_blocks(builder: Any, operands: list[_Operand], length: Any, compute: Any) -> None:
    """Compute block by block, those that do not lie as they should through room of their own."""
    one = WORD(_BLOCK)
    blocks = builder.sdiv(builder.add(length, WORD(_BLOCK - 1)), one)
    with loop(builder, blocks) as inside:
        first = builder.mul(inside.index, one)
        left = builder.sub(length, first)
        some = builder.select(builder.icmp_signed("<", left, one), left, one)
        for operand in operands:
            operand.arrive(first, some)
        compute([operand.place(first) for operand in operands], some)
        for operand in operands:
            operand.leave(first, some)


class _Operand:
    """A field or a result: where it is, and room for a block of it."""

    def __init__(self, builder: Any, kind: Any, at: Any, step: Any, out: bool) -> None:
        self.builder, self.at, self.step, self.out = builder, at, step, out
        self.size = kind.dtype.itemsize
        self.element = ir.IntType(8 * self.size)
        room = variable(builder, self.element, count=_BLOCK)
        room.align = 64
        self.room = builder.ptrtoint(room, WORD)
        self.apart = builder.icmp_signed("!=", step, WORD(self.size))

    def keep_off(self, field: _Operand, length: Any) -> None:
        """Go through room where a result may lie where a field does."""
        builder = self.builder
        meets = []
        for one, other in ((self, field), (field, self)):
            meets.append(
                builder.icmp_signed("<", one._end(length, False), other._end(length, True))
            )
        self.apart = builder.or_(self.apart, builder.and_(*meets))

    def _end(self, length: Any, after: bool) -> Any:
        """Where the first byte lies, or what is behind the last."""
        builder = self.builder
        way = builder.mul(self.step, builder.sub(length, WORD(1)))
        forward = builder.icmp_signed(">", way, WORD(0))
        moved = (
            builder.select(forward, way, WORD(0))
            if after
            else builder.select(forward, WORD(0), way)
        )
        end = builder.add(self.at, moved)
        return builder.add(end, WORD(self.size)) if after else end

    def _here(self, first: Any) -> Any:
        return self.builder.add(self.at, self.builder.mul(first, self.step))

    def place(self, first: Any) -> Any:
        """Where a block of it is computed from, or written to."""
        return self.builder.select(self.apart, self.room, self._here(first))

    def arrive(self, first: Any, some: Any) -> None:
        """Bring a block of a field."""
        if self.out:
            return
        builder = self.builder
        still = builder.icmp_signed("==", self.step, WORD(0))
        begins = builder.icmp_signed("==", first, WORD(0))
        with builder.if_then(self.apart), builder.if_else(still) as (constant, moves):
            with constant, builder.if_then(begins):
                value = self._load(self.at)
                with loop(builder, some) as inside:
                    self._store(value, self._room(inside.index))
            with moves:
                here = self._here(first)
                with loop(builder, some) as inside:
                    at = builder.add(here, builder.mul(inside.index, self.step))
                    self._store(self._load(at), self._room(inside.index))

    def leave(self, first: Any, some: Any) -> None:
        """Bring a block of a result to its place."""
        if not self.out:
            return
        builder = self.builder
        with builder.if_then(self.apart):
            here = self._here(first)
            with loop(builder, some) as inside:
                at = builder.add(here, builder.mul(inside.index, self.step))
                self._store(self._load(self._room(inside.index)), at)

    def _room(self, index: Any) -> Any:
        return self.builder.add(self.room, self.builder.mul(index, WORD(self.size)))

    def _load(self, address: Any) -> Any:
        return self.builder.load(pointer(self.builder, address, self.element), align=1)

    def _store(self, value: Any, address: Any) -> None:
        self.builder.store(value, pointer(self.builder, address, self.element), align=1)


def _forget_exceptions(builder: Any) -> None:
    """Forget that a float was none, or too large: floats give no warnings."""
    known = _EXCEPTIONS.get(platform.machine())
    if known is None:
        return
    found = called(builder, "fetestexcept", INT, INT(known))
    with builder.if_then(builder.icmp_signed("!=", found, INT(0)), likely=False):
        called(builder, "feclearexcept", INT, INT(known))


def takes_elements(kernel: Any) -> bool:
    """Whether a kernel works along one axis, and all that it takes besides arrays are numbers."""
    rest = kernel.kinds[kernel.arrays :]
    return kernel.axes == 2 and not any(kind.ndim for kind in rest)
