"""The types of values and of stored elements: how these become values, and how types mix.

A float of 16 bits is stored only: it is loaded as a float32, and a float32 is rounded to it where
it is stored.  `SHORT_FLOATS` says how, of each of them; no other place knows which there are.
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any, NamedTuple

import numpy as np


class DType(Enum):
    """The type of a value at one point.

    Storage has many types (int8, uint16, ...); a value has one of seven.  Integers of any width
    are one exact type, `INT`, until the range analysis gives them the narrowest machine type that
    holds them; `UINT` is what comes from a uint64 field and is computed modulo 2**64.
    """

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    F32 = "float32"
    F64 = "float64"
    C64 = "complex64"
    C128 = "complex128"

    @property
    def is_integer(self) -> bool:
        return self.value in ("bool", "int", "uint")

    @property
    def is_float(self) -> bool:
        return "float" in self.value

    @property
    def is_complex(self) -> bool:
        return "complex" in self.value

    @property
    def numpy(self) -> np.dtype:
        """The storage that holds every value of this type."""
        return np.dtype(f"{self.value}64" if "int" in self.value else self.value)


class Short(NamedTuple):
    """How a float of 16 bits is loaded and stored: what makes a float32 of its bits, and back.

    Both are functions of `backends.llvm.library`, as is what will `round` a float64 to a float32
    that it holds, where kernels may ask for that.  `device` is its type on a GPU, and `most` the
    greatest of its numbers.
    """

    load: str
    store: str
    device: str
    most: float
    round: str = ""


SHORT_FLOATS: dict[str, Short] = {
    "float16": Short("float32_of_half", "half_of_float32", "npt_half", 65504.0, "round_to_half"),
    # The type of the package ml_dtypes.
    "bfloat16": Short("float32_of_bfloat", "bfloat_of_float32", "npt_bfloat", 255 * 2.0**120),
}


def short(storage: np.dtype) -> Short | None:
    """What is known of a float of 16 bits; None of any other type."""
    return SHORT_FLOATS.get(storage.name) if storage.itemsize == 2 else None


def kind_of(storage: np.dtype) -> str:
    """The letter that NumPy has for a kind of numbers; it has none for those of other packages."""
    kind = storage.kind
    return "f" if kind == "V" and short(storage) else kind


def most(storage: np.dtype) -> float:
    """The greatest number that floats of a type hold, or the parts of complex numbers."""
    found = short(storage)
    return found.most if found else float(np.finfo(storage).max)


def widened(value: Any) -> Any:
    """Numbers of 16 bits of other packages as float32, which holds them; others as they are."""
    if isinstance(value, np.ndarray | np.generic) and kind_of(value.dtype) != value.dtype.kind:
        return value.astype(np.float32)
    return value


def is_masked(value: Any) -> bool:
    """Whether a value is a masked array.

    `np.ma` is looked for, not imported: that takes 10 to 30 ms.
    """
    return isinstance(value, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ()))


def common(*storages: np.dtype) -> np.dtype:
    """NumPy's common type; of those of other packages, what it says of what they compute in."""
    try:
        return np.result_type(*storages)
    except TypeError:
        return np.result_type(*map(computed, storages))


def castable(storage: np.dtype, target: np.dtype) -> bool:
    """Whether NumPy calls two types of the same kind; all floats of 16 bits are as its own."""
    half = np.dtype("float16")
    one, other = (half if short(dtype) else dtype for dtype in (storage, target))
    return np.can_cast(one, other, "same_kind")


def computed(storage: np.dtype) -> np.dtype:
    """The storage of elements as they are computed with."""
    return np.dtype("float32") if short(storage) else storage


def value_type(storage: np.dtype) -> DType:
    """The type that a stored element has once it is read.

    Raises
    ------
    TypeError
        If `storage` holds no numbers.
    """
    storage = computed(storage)
    if storage.kind in "iu":
        return DType.UINT if storage.name == "uint64" else DType.INT
    try:
        return DType(storage.name)
    except ValueError:
        words = f"An array of {storage} holds no numbers that a kernel can read."
        raise TypeError(words) from None


def promote(left: DType, right: DType, left_weak: bool, right_weak: bool) -> DType:
    """The type in which an arithmetic operation on two values is done.

    An integer never widens a float; a weak (Python) float never widens a NumPy one.
    """
    if left is right and left is not DType.BOOL:
        return left
    if left.is_integer and right.is_integer:
        return DType.UINT if DType.UINT in (left, right) else DType.INT

    def known(dtype: DType, weak: bool) -> Any:
        if dtype.is_integer:
            return 0
        return dtype.numpy.type().item() if weak else dtype.numpy

    # NumPy's rule for what is beside a number of Python's.
    return DType(np.result_type(known(left, left_weak), known(right, right_weak)).name)
