"""Machine code of generated texts: compiled, or loaded from the disk, and called.

LLVM compiles the text of a kernel that is understood: its object code is kept on disk, and is
loaded without Numba (`native`).  A kernel of the general path, which may raise errors of its own,
is compiled by Numba, and what Numba makes of it is kept (`kept`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from ...base.undisturbed import undisturbed
from ...language.dtypes import computed, short
from .. import cache
from ..compiled import Compiled, Loaded
from ..llvm import native
from ..llvm.native import Kind
from ..threads import STOP, Stopped, interruptible

_loaded: dict[Hashable, Loaded] = {}


def load(compiled: Compiled) -> Loaded:
    """Compile the text of a kernel, or load what was compiled of it before."""
    module = compiled.module
    with cache.announced(compiled.name, compiled.field_dtypes):
        found = loaded(compiled)
    entry = found.entry
    if module.checked:
        entry = partial(_checked, compiled, entry)
    dtypes = (*compiled.field_dtypes, *compiled.out_dtypes)
    if not module.shorts and any(map(short, dtypes)):
        entry = partial(_widened, len(compiled.field_dtypes), entry)
    return found if entry is found.entry else Loaded(entry, found.from_disk)


def loaded(compiled: Compiled) -> Loaded:
    """The function of a kernel's text as it is; compiled once in a process."""
    # One text may serve several types.
    meaning = f"{kinds_of(compiled)}\n{compiled.fastmath}\n{compiled.module.text}"
    key = compiled.name, meaning

    def make() -> Loaded:
        if key not in _loaded:
            code = compiled.module.opaque or _native
            _loaded[key] = code(cache.code_named(*key, "o"), compiled)
        return _loaded[key]

    return _loaded.get(key) or undisturbed(make)


# Machine code.


def _native(file: str, compiled: Compiled) -> Loaded:
    """The object code in a file, made if it is not there."""
    kinds = kinds_of(compiled)
    make = partial(native.kernel_code, compiled.module.text, kinds, fastmath=compiled.fastmath)
    entry, from_disk = cache.remembered(file, partial(native.entry, kinds=kinds), make)
    if entry is None:
        raise RuntimeError(f"the machine code of {compiled.name} calls what this machine lacks.")
    return Loaded(entry, from_disk, crew=native.shared() is not None)


def kinds_of(compiled: Compiled) -> tuple[Kind, ...]:
    """The types of the arguments of the text's function, as machine code takes them."""

    def stored(dtype: np.dtype) -> np.dtype:
        return np.dtype("uint16") if compiled.module.shorts and short(dtype) else computed(dtype)

    axes = compiled.ndim + 1
    return (
        *(Kind(stored(dtype), axes) for dtype in compiled.field_dtypes),
        *(Kind(stored(dtype), axes, mutable=True) for dtype in compiled.out_dtypes),
        *(Kind(computed(dtype), n) for dtype, n in compiled.coefficient_types),
        *(Kind(dtype.numpy) for dtype in compiled.scalar_types),
        *[Kind(np.dtype("int64"), 1)] * compiled.module.checked,
    )


# How texts are called that take other arguments than kernels do.


def _widened(fields: int, entry: Callable[..., None], *arguments: Any) -> None:
    """Run a text that takes floats of 16 bits as float32; the first arguments are fields."""
    wide = [
        one.astype("float32", order="C")
        if isinstance(one, np.ndarray) and short(one.dtype)
        else one
        for one in arguments
    ]
    entry(*wide)
    for out, result in zip(arguments[fields:], wide[fields:], strict=True):
        if out is not result:
            with np.errstate(over="ignore"):
                out[...] = result


def _checked(compiled: Compiled, entry: Callable[..., None], *arguments: Any) -> None:
    """Run a text that tells when it reads outside its neighborhood, and raise that."""
    # Which read was outside, counted from 1; whether to stop; the offset of that read.
    notes = np.zeros(3, dtype=np.int64)
    try:
        interruptible(partial(entry, *arguments, notes), notes)
    except (IndexError, ValueError) as error:
        if not notes[0]:
            raise type(error)(f"the kernel '{compiled.name}': {error}") from None
    except RuntimeError:
        if not notes[STOP]:
            raise
    if notes[0]:
        site, _, offset = notes.tolist()
        axis, file, line = compiled.module.places[site - 1].split("|")
        where = f"(file '{file}', line {line})"
        if not axis.isdecimal():
            raise IndexError(
                f"the kernel '{compiled.name}' has no element {offset} of {axis} {where}."
            )
        low, high = compiled.reach.lo[int(axis)], compiled.reach.hi[int(axis)]
        raise IndexError(
            f"the kernel '{compiled.name}' read outside its neighborhood: offset {offset} "
            f"on axis {axis} is not in {low}..{high} {where}; "
            "widen 'neighborhood'."
        )
    if notes[STOP]:
        raise Stopped(f"the kernel '{compiled.name}' was stopped by an interrupt.")
