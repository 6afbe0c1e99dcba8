"""Counting: the element of some rank among short integers, bit by bit.

    median of 81 bytes:   v = 0, bit = 128
                          n = how many elements are less than v + bit      (8 times, each in rows)
                          v = v + bit if n <= 40 else v;  bit = bit / 2

All points of a row are done at once in narrow lanes, and the function for one bit serves all of
them, so that little is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..language.dtypes import DType
from ..language.ir import Atom, Binary, Cast, Const, Read, Select
from .lines import Lines

_INT = DType.INT


def bits(storage: np.dtype) -> int:
    """How many bits the values of a type have."""
    return 1 if storage.kind == "b" else 8 * storage.itemsize


def begun(storage: np.dtype) -> tuple[Const, Const]:
    """The least value of a type, and its highest bit."""
    low = -(2 ** (bits(storage) - 1)) if storage.kind == "i" else 0
    return Const(_INT, str(low)), Const(_INT, str(2 ** (bits(storage) - 1)))


def one_bit(
    lines: Lines, reads: Sequence[Read], value: Atom, bit: Atom, rank: int
) -> tuple[Atom, Atom]:
    """The value with another bit of it known, and the next bit."""
    above = lines.emit(Binary(_INT, "+", value, bit))
    less: list[Atom] = [
        lines.emit(Cast(_INT, lines.emit(Binary(DType.BOOL, "<", whole(lines, read), above))))
        for read in reads
    ]
    count = lines.tree(less, "+")
    low = lines.emit(Binary(DType.BOOL, "<=", count, Const(_INT, str(rank))))
    found = lines.emit(Select(_INT, low, above, value))
    return found, lines.emit(Binary(_INT, ">>", bit, Const(_INT, "1")))


def following(lines: Lines, reads: Sequence[Read], value: Atom, rank: int) -> Atom:
    """The element after that of some rank, whose value is known."""
    items = [whole(lines, read) for read in reads]
    most: list[Atom] = [
        lines.emit(Cast(_INT, lines.emit(Binary(DType.BOOL, "<=", item, value)))) for item in items
    ]
    again = lines.emit(Binary(DType.BOOL, ">", lines.tree(most, "+"), Const(_INT, str(rank + 1))))
    # Where there is none above it, the value itself is met again.
    top = lines.tree(items, "maximum")
    beyond: list[Atom] = [
        lines.emit(Select(_INT, lines.emit(Binary(DType.BOOL, ">", item, value)), item, top))
        for item in items
    ]
    return lines.emit(Select(_INT, again, value, lines.tree(beyond, "minimum")))


def whole(lines: Lines, read: Read) -> Atom:
    """An element as an int."""
    item = lines.emit(read)
    return item if read.dtype is _INT else lines.emit(Cast(_INT, item))
