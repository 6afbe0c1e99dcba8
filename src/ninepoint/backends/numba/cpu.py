"""The CPU back end: a kernel's generated text, compiled by Numba, as something to run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ...language.box import Box, joined
from ...language.dtypes import DType
from ...language.errors import Span
from ...language.ir import Length
from ..patience import announced
from ..threads import LEFT, STOP, Stopped, handoff, interruptible, run_parts
from . import cache, native
from .loops import Module

# A run of a kernel of the general path on more points than this can be interrupted from the
# beginning, and any other once it has looked so often whether to go on.
LONG, LOOKS = 4096, 2048


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel for given types: its text, where it looks, and what it gives.

    A `checked` kernel tells in a last argument that it read outside its neighborhood; `places`
    says which of its reads that was.  `unread` is the first piece of it that is not analysed.
    `pace` is how long a point took when that was last measured [s], or empty.
    """

    name: str
    module: Module
    reaches: tuple[Box, ...]
    field_dtypes: tuple[np.dtype, ...]
    out_dtypes: tuple[np.dtype, ...]
    coefficient_types: tuple[tuple[np.dtype, int], ...]
    scalar_types: tuple[DType, ...]
    fastmath: bool = False
    checked: bool = False
    places: tuple[str, ...] = ()
    unread: Span | None = None
    _entry: list[Callable[..., None]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    pace: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def ndim(self) -> int:
        return self.reaches[0].ndim

    @property
    def entry(self) -> Callable[..., None]:
        """What computes a block: called with fields, outputs, coefficients and scalars.

        Compiled when it is first asked for, and remembered here: looking it up in the cache
        by its text takes 15 us.
        """
        if not self._entry:
            self._entry.append(self._load())
        return self._entry[0]

    @property
    def ready(self) -> bool:
        """Whether this kernel's machine code was asked for already."""
        return bool(self._entry)

    def from_disk(self) -> bool:
        """Whether the machine code, which is there, was loaded rather than compiled."""
        return cache.from_disk(self.module.text, self.name, self.types, self.fastmath)

    def _load(self) -> Callable[..., None]:
        with announced(self.name, self.field_dtypes):
            band: Callable[..., None] = cache.load(
                self.module.text,
                self.name,
                self.types,
                self.signature,
                self.fastmath,
                self.checked,
            )
        if cache.interpreted():
            band = functools.partial(_silent, self.scalar_types, band)
        if self.checked:
            band = functools.partial(_checked, self, band)
        if np.float16 in (*self.field_dtypes, *self.out_dtypes):
            band = functools.partial(_widened, len(self.field_dtypes), band)
        return band

    @property
    def reach(self) -> Box:
        """The box that holds every output's."""
        return joined(self.reaches)

    @property
    def types(self) -> tuple[Any, ...]:
        """The types of the arguments of the text's function."""
        return self.field_dtypes, self.out_dtypes, self.coefficient_types, self.scalar_types

    def signature(self) -> Any:
        """The Numba signature of the text's function."""
        # Imported here, not above: `import ninepoint` must not import Numba.
        from numba import from_dtype, types

        def array(dtype: np.dtype, ndim: int, readonly: bool) -> Any:
            return types.Array(from_dtype(computed(dtype)), ndim, "A", readonly=readonly)

        return types.void(
            *(array(d, self.ndim + 1, True) for d in self.field_dtypes),
            *(array(d, self.ndim + 1, False) for d in self.out_dtypes),
            *(array(d, n, True) for d, n in self.coefficient_types),
            *(from_dtype(d.numpy) for d in self.scalar_types),
            *((array(np.dtype("int64"), 1, False),) if self.checked else ()),
        )

    def bind(self, values: Mapping[str, Any]) -> Bound:
        """The kernel with values for its scalars and coefficients."""
        coefficients = tuple(
            readable(values[name], computed(dtype))
            for name, (dtype, _) in zip(
                self.module.coefficients, self.coefficient_types, strict=True
            )
        )
        scalars = tuple(
            name
            if isinstance(name, Length)
            else int(values[name])
            if dtype.is_integer
            else dtype.numpy.type(values[name]).item()
            for name, dtype in zip(self.module.scalars, self.scalar_types, strict=True)
        )
        return Bound(self, coefficients, scalars)


def computed(dtype: np.dtype) -> np.dtype:
    """The storage that generated text works on: half floats are widened before."""
    return np.dtype("float32") if dtype == np.float16 else dtype


def readable(value: Any, dtype: np.dtype) -> np.ndarray:
    """The value of a coefficient array as machine code reads it; itself, if it is so already."""
    array = np.ascontiguousarray(value, dtype=dtype)
    return array if array.flags.aligned else array.copy()


@dataclass(frozen=True, slots=True)
class Bound:
    """A compiled kernel whose scalars are known: runs on blocks that hold every neighbour.

    Lengths of the whole array are known once `within` has told them.
    """

    compiled: Compiled
    coefficients: tuple[np.ndarray, ...] = field(compare=False)
    scalars: tuple[Any, ...]

    @property
    def ndim(self) -> int:
        return self.compiled.ndim

    @property
    def reaches(self) -> tuple[Box, ...]:
        return self.compiled.reaches

    def within(self, core: tuple[int, ...]) -> Self:
        """The same kernel for a whole array of this shape, unless it has been told of another."""
        if not any(isinstance(value, Length) for value in self.scalars):
            return self
        known = tuple(core[v.axis] if isinstance(v, Length) else v for v in self.scalars)
        return replace(self, scalars=known)

    def with_numbers(self, numbers: Sequence[Any]) -> Bound:
        """The same kernel with other coefficients and scalars, which must be of their types."""
        count = len(self.coefficients)
        return Bound(self.compiled, tuple(numbers[:count]), tuple(numbers[count:]))

    @property
    def seams(self) -> bool:
        """Whether it ends and raises nothing, whatever the neighbours are."""
        return not self.compiled.checked

    @property
    def pace(self) -> list[float]:
        """How long a point took when that was last measured [s], or nothing."""
        return self.compiled.pace

    @property
    def warm(self) -> int:
        """Rows that are made before the first row of the result, over and over for each run."""
        return self.compiled.module.warm

    @property
    def field_dtypes(self) -> tuple[np.dtype, ...]:
        return self.compiled.field_dtypes

    @property
    def out_dtypes(self) -> tuple[np.dtype, ...]:
        return self.compiled.out_dtypes

    def run(self, fields: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
        """Compute outs[b, i...] from fields[b, i + o - lo...], serially, without the GIL."""
        self.compiled.entry(*fields, *outs, *self.coefficients, *self.scalars)

    @property
    def handoff(self) -> float:
        """How long it takes to share parts among threads [s]."""
        return handoff(native.together(self.compiled.entry))

    def run_parts(
        self,
        parts: Sequence[tuple[Sequence[np.ndarray], Sequence[np.ndarray]]],
        threads: int,
    ) -> None:
        """Run on the fields and outputs of each part, shared among threads; it must end soon."""
        entry, others = self.compiled.entry, (*self.coefficients, *self.scalars)
        run_parts(entry, native.together(entry), [(*f, *o, *others) for f, o in parts], threads)


def _widened(fields: int, band: Callable[..., None], *arguments: Any) -> None:
    """Run a text that computes with float32 on half floats; the first arguments are fields."""
    wide = list(arguments)
    narrowed: list[tuple[np.ndarray, np.ndarray]] = []
    for k, value in enumerate(arguments):
        if isinstance(value, np.ndarray) and value.dtype == np.float16:
            if k < fields:
                wide[k] = value.astype("float32", order="C")
            else:
                wide[k] = np.empty(value.shape, "float32")
                narrowed.append((value, wide[k]))
    band(*wide)
    for out, result in narrowed:
        with np.errstate(over="ignore"):
            out[...] = result


def _silent(scalars: Sequence[DType], band: Callable[..., None], *arguments: Any) -> None:
    """Run a text as plain Python, where NumPy's numbers warn and Python's own do not wrap."""
    arrays = len(arguments) - len(scalars)
    values = [d.numpy.type(v) for d, v in zip(scalars, arguments[arrays:], strict=True)]
    with np.errstate(all="ignore"):
        band(*arguments[:arrays], *values)


def _checked(compiled: Compiled, band: Callable[..., None], *arguments: Any) -> None:
    """Run a text that tells when it reads outside its neighborhood, and raise that."""
    notes = np.zeros(3, dtype=np.int64)
    fields = len(compiled.field_dtypes)
    try:
        if arguments[fields].size <= LONG:
            # A short run hears of no interrupt; if it turns out to be long it begins again.
            notes[LEFT] = LOOKS
            try:
                band(*arguments, notes)
            except RuntimeError:
                if notes[LEFT]:
                    raise
                interruptible(functools.partial(band, *arguments, notes), notes)
        else:
            interruptible(functools.partial(band, *arguments, notes), notes)
    except (IndexError, ValueError) as error:
        if not notes[0]:
            raise type(error)(f"the kernel '{compiled.name}': {error}") from None
    except RuntimeError:
        if notes[STOP]:
            raise Stopped(f"the kernel '{compiled.name}' was stopped by an interrupt.") from None
        raise
    if notes[0]:
        raise IndexError(_outside(compiled, int(notes[0])))


def _outside(compiled: Compiled, entry: int) -> str:
    """Say which read left the neighborhood, from what `relative.near` wrote down."""
    from .general.reads import REACH, SITE

    site, offset = divmod(entry + REACH, SITE)
    offset -= REACH
    axis, file, line = compiled.places[site - 1].split("|")
    low, high = compiled.reach.lo[int(axis)], compiled.reach.hi[int(axis)]
    return (
        f"the kernel '{compiled.name}' read outside its neighborhood: offset {offset} "
        f"on axis {axis} is not in {low}..{high} (file '{file}', line {line}); "
        "widen 'neighborhood'."
    )
