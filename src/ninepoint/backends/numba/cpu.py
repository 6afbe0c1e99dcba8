"""The CPU as a back end: loops as text, compiled by Numba, as a function of a block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...language.box import Box
from ...language.dtypes import computed, short
from ...lowering.schedule import Schedule
from ...undisturbed import Later
from ..backend import Lowered, Module
from ..llvm import native
from ..llvm.native import Kind
from ..patience import announced
from ..threads import LEFT, STOP, Stopped, interruptible
from . import cache
from .interpreted import interpreted, silent

if TYPE_CHECKING:
    from ...language.ir import Kernel
    from ...lowering import abreast
    from ...lowering.chain import Edges
    from . import loops, steps
else:
    # What was compiled before is not written again.
    abreast = Later("...lowering.abreast", __package__)
    loops = Later(".loops", __package__)
    steps = Later(".steps", __package__)

# A run of a kernel of the general path on more points than this can be interrupted from the
# beginning, and any other once it has looked so often whether to go on.
LONG, LOOKS = 4096, 2048


@dataclass(frozen=True, slots=True)
class Numba:
    """The back end of Numba."""

    def schedule(self, kernel: Kernel, schedule: Schedule) -> Kernel:
        """Make several rows in each turn, where stages roll down the rows and gain by it."""
        return abreast.rolled(kernel, schedule)

    def text(
        self,
        kernel: Kernel,
        title: str,
        reach: Box,
        edges: Edges | None = None,
        *,
        together: Kernel | None = None,
        fastmath: bool,
        dtypes: Sequence[np.dtype] = (),
    ) -> Module:
        """Write the loops of a kernel, or of a chain with what is written at the ends."""
        if edges is None:
            return loops.module(kernel, title, reach, together, fastmath=fastmath, dtypes=dtypes)
        return steps.module(kernel, edges, title, reach, fastmath=fastmath)

    def load(self, lowered: Lowered, module: Module) -> Callable[..., None]:
        """Compile a text, or load what was compiled of it before."""
        with announced(lowered.name, lowered.field_dtypes):
            band: Callable[..., None] = cache.load(
                module.text,
                lowered.name,
                _types(lowered),
                functools.partial(_signature, lowered),
                lowered.fastmath,
                None if module.opaque else _kinds(lowered, module),
                lowered.alone,
            )
        if interpreted():
            band = functools.partial(silent, lowered.scalar_types, band)
        if module.checked:
            band = functools.partial(_checked, lowered, module.places, band)
        if not _has_shorts(lowered):
            return band
        if not module.shorts:
            return functools.partial(_widened, len(lowered.field_dtypes), band)
        return band if self.takes_commands(lowered, module) else functools.partial(_viewed, band)

    def from_disk(self, lowered: Lowered, module: Module) -> bool:
        """Tell whether a text that was loaded had been compiled before."""
        types = _types(lowered)
        return cache.from_disk(module.text, lowered.name, types, lowered.fastmath)

    def takes_commands(self, lowered: Lowered, module: Module) -> bool:
        """Tell whether a text that was loaded takes whole arrays, with a list of commands."""
        if _has_shorts(lowered) and not module.shorts:
            return False
        if module.checked:
            return False
        types = _types(lowered)
        return cache.takes_commands(module.text, lowered.name, types, lowered.fastmath)

    def elements(self, entry: Callable[..., None]) -> int:
        """Find the loop over elements of a loaded function; 0 if it has none."""
        return native.elements(entry)

    def together(self, entry: Callable[..., None]) -> Callable[..., None] | None:
        """Find what shares lists of commands among threads, in machine code itself."""
        return native.together(entry)


NUMBA = Numba()


def _types(lowered: Lowered) -> tuple[Any, ...]:
    """The types of the arguments of a text's function."""
    return (
        lowered.field_dtypes,
        lowered.out_dtypes,
        lowered.coefficient_types,
        lowered.scalar_types,
    )


def _kinds(lowered: Lowered, module: Module) -> tuple[Kind, ...]:
    """The types of the arguments of the text's function, as machine code takes them."""

    def stored(dtype: np.dtype) -> np.dtype:
        return np.dtype("uint16") if module.shorts and short(dtype) else computed(dtype)

    axes = lowered.ndim + 1
    return (
        *(Kind(stored(dtype), axes) for dtype in lowered.field_dtypes),
        *(Kind(stored(dtype), axes, mutable=True) for dtype in lowered.out_dtypes),
        *(Kind(computed(dtype), n) for dtype, n in lowered.coefficient_types),
        *(Kind(dtype.numpy) for dtype in lowered.scalar_types),
        *[Kind(np.dtype("int64"), 1)] * module.checked,
    )


def _signature(lowered: Lowered) -> Any:
    """The Numba signature of a text of the general path, which also notes what it read."""
    # Imported here, not above: `import ninepoint` must not import Numba.
    from numba import from_dtype, types

    def array(dtype: np.dtype, ndim: int, readonly: bool) -> Any:
        return types.Array(from_dtype(computed(dtype)), ndim, "A", readonly=readonly)

    return types.void(
        *(array(d, lowered.ndim + 1, True) for d in lowered.field_dtypes),
        *(array(d, lowered.ndim + 1, False) for d in lowered.out_dtypes),
        *(array(d, n, True) for d, n in lowered.coefficient_types),
        *(from_dtype(d.numpy) for d in lowered.scalar_types),
        array(np.dtype("int64"), 1, False),
    )


def _viewed(band: Callable[..., None], *arguments: Any) -> None:
    """Run a text that takes floats of 16 bits as integers."""
    band(*(one.view("uint16") if _is_short(one) else one for one in arguments))


def _is_short(argument: Any) -> bool:
    return isinstance(argument, np.ndarray) and short(argument.dtype) is not None


def _has_shorts(lowered: Lowered) -> bool:
    return any(map(short, (*lowered.field_dtypes, *lowered.out_dtypes)))


def _widened(fields: int, band: Callable[..., None], *arguments: Any) -> None:
    """Run a text that takes floats of 16 bits as float32; the first arguments are fields."""
    wide = list(arguments)
    narrowed: list[tuple[np.ndarray, np.ndarray]] = []
    for k, value in enumerate(arguments):
        if _is_short(value):
            if k < fields:
                wide[k] = value.astype("float32", order="C")
            else:
                wide[k] = np.empty(value.shape, "float32")
                narrowed.append((value, wide[k]))
    band(*wide)
    for out, result in narrowed:
        with np.errstate(over="ignore"):
            out[...] = result


def _checked(
    lowered: Lowered, places: tuple[str, ...], band: Callable[..., None], *arguments: Any
) -> None:
    """Run a text that tells when it reads outside its neighborhood, and raise that."""
    notes = np.zeros(3, dtype=np.int64)
    fields = len(lowered.field_dtypes)
    try:
        if arguments[fields].size <= LONG:
            # A short run hears of no interrupt; if it turns out to be long it begins again.
            notes[LEFT] = LOOKS
            if not _ended(band, arguments, notes):
                notes[:] = 0
                interruptible(functools.partial(band, *arguments, notes), notes)
        else:
            interruptible(functools.partial(band, *arguments, notes), notes)
    except (IndexError, ValueError) as error:
        if not notes[0]:
            raise type(error)(f"the kernel '{lowered.name}': {error}") from None
    except RuntimeError:
        if notes[STOP]:
            raise Stopped(f"the kernel '{lowered.name}' was stopped by an interrupt.") from None
        raise
    if notes[STOP] and not notes[0]:
        raise Stopped(f"the kernel '{lowered.name}' was stopped by an interrupt.")
    if notes[0]:
        raise IndexError(_outside(lowered, places, int(notes[0])))


def _ended(band: Callable[..., None], arguments: Sequence[Any], notes: np.ndarray) -> bool:
    """Run a text that may look only so often whether to go on, and tell whether it has ended."""
    try:
        band(*arguments, notes)
    except RuntimeError:
        if notes[LEFT]:
            raise
        return False
    return bool(notes[LEFT] or notes[0])


def _outside(lowered: Lowered, places: tuple[str, ...], entry: int) -> str:
    """Say which read left the neighborhood, from what `relative.near` wrote down."""
    from .general.reads import REACH, SITE

    site, offset = divmod(entry + REACH, SITE)
    offset -= REACH
    axis, file, line = places[site - 1].split("|")
    where = f"(file '{file}', line {line})"
    if not axis.isdecimal():
        return f"the kernel '{lowered.name}' has no element {offset} of {axis} {where}."
    low, high = lowered.reach.lo[int(axis)], lowered.reach.hi[int(axis)]
    return (
        f"the kernel '{lowered.name}' read outside its neighborhood: offset {offset} "
        f"on axis {axis} is not in {low}..{high} {where}; "
        "widen 'neighborhood'."
    )
