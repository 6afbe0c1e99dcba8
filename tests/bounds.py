"""Run generated text as plain Python on arrays that refuse every index outside them.

Plain Python takes a negative index from the end and cuts a slice that is too long, where machine
code reads what lies before or after the array.  So what the text gets here are no arrays of NumPy
but `Checked` ones, and those that it makes itself, between stages and as tables, are such as well.
Fields and coefficients also refuse to be written, and a place of a buffer to be read before it
was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from ninepoint.backends.numba import cache
from ninepoint.backends.numba.interpreted import in_numpy


class Outside(AssertionError):
    """Generated text looked outside an array, or where nothing had been written."""


class Checked:
    """An array for generated text, whose every index has to lie inside."""

    __slots__ = ("array", "length", "name", "shape", "size", "writeable", "written")

    def __init__(
        self, array: np.ndarray, name: str, writeable: bool, written: np.ndarray | None = None
    ) -> None:
        self.array = array
        self.name = name
        self.writeable = writeable
        self.written = written
        self.shape = array.shape
        self.size = array.size
        # Most of what is read are elements of rows: these are looked up without any detour.
        self.length = array.shape[0] if array.ndim == 1 else -1

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def itemsize(self) -> int:
        return self.array.itemsize

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and 0 <= index < self.length and self.written is None:
            return self.array[index]
        self.check(index)
        found = self.array[index]
        if isinstance(found, np.ndarray):
            written = None if self.written is None else self.written[index]
            return Checked(found, self.name, self.writeable, written)
        if self.written is not None and not self.written[index]:
            raise Outside(f"{self.name}[{index}] is read before it was written")
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        if not (type(index) is int and 0 <= index < self.length):
            self.check(index)
        if not self.writeable:
            raise Outside(f"{self.name}[{index}] is an input, and was written")
        self.array[index] = value
        if self.written is not None:
            self.written[index] = True

    def view(self, dtype: Any) -> Checked:
        """The elements as others of the same size."""
        return Checked(self.array.view(dtype), self.name, self.writeable, self.written)

    def check(self, index: Any) -> None:
        if not isinstance(index, tuple):
            index = (index,)
        for one, length in zip(index, self.shape, strict=False):
            if isinstance(one, slice):
                first, last = one.start or 0, length if one.stop is None else one.stop
                inside = one.step is None and 0 <= first <= last <= length
            else:
                inside = 0 <= one < length
            if not inside:
                raise Outside(f"{self.name}[{index}] is outside of {self.shape}")
        if len(index) > len(self.shape):
            raise Outside(f"{self.name}[{index}] has {len(self.shape)} axes only")


class _NumPy:
    """NumPy for generated text: what is made is checked."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(shape: Any, dtype: Any = np.float64) -> Checked:
        return buffer(shape, dtype)

    @staticmethod
    def zeros(shape: Any, dtype: Any = np.float64) -> Checked:
        return Checked(np.zeros(shape, dtype), "a buffer", writeable=True)

    @staticmethod
    def array(values: Any, dtype: Any) -> Any:
        return _Table(np.array(values, dtype=dtype))


class _Table(Checked):
    """An array of constants."""

    __slots__ = ()

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array, "a table", writeable=False)

    def reshape(self, shape: tuple[int, ...]) -> _Table:
        return _Table(self.array.reshape(shape))


def buffer(shape: Any, dtype: Any) -> Checked:
    """An array that text makes for itself: nothing is in it."""
    made = np.zeros(shape, dtype)
    return Checked(made, "a buffer", writeable=True, written=np.zeros(made.shape, np.bool_))


@lru_cache
def band(text: str) -> Callable[..., None]:
    """The function `band` of a generated module, for `Checked` arrays and not compiled."""
    names: dict[str, Any] = {}
    text = re.sub(r"^@row_function.*\n", "", text, flags=re.MULTILINE)
    # Where tables are made, NumPy is in the place of NumPy already.
    code = compile(text.replace("import numpy as np\n", "np = numpy\n"), "<generated>", "exec")
    names["numpy"] = _NumPy()
    exec(in_numpy(code), names)
    if "aligned" in names:
        # Rows of these are copied as a whole, with what lies beyond their ends.
        names["aligned"] = lambda shape, dtype: Checked(np.zeros(shape, dtype), "a buffer", True)
    run: Callable[..., None] = names["band"]
    return run


def run(text: str, arguments: Sequence[Any], writes: Sequence[bool]) -> None:
    """Call the text's `band`, which may write those arguments for which `writes` says so."""
    given = [
        Checked(one, f"argument {k}", may) if isinstance(one, np.ndarray) else one
        for k, (one, may) in enumerate(zip(arguments, writes, strict=True))
    ]
    with np.errstate(all="ignore"):
        band(text)(*given)


@contextmanager
def everything() -> Iterator[None]:
    """Run whatever is loaded meanwhile as plain Python, on checked arrays."""
    load = cache.load

    def checked(text: str, name: str, types: Any, signature: Any, *rest: Any, **named: Any) -> Any:
        writes = [bool(getattr(one, "mutable", False)) for one in signature().args]
        return lambda *arguments: run(text, arguments, writes)

    cache.load = checked
    try:
        yield
    finally:
        cache.load = load
