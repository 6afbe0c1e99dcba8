"""What is known of a gufunc for given types: the dtypes of its results, and NumPy's function.

Both are kept on disk.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..backends import cache
from ..backends.numba.cpu import interpreted
from ..backends.patience import announced
from ..backends.universal import Universal
from ..language.dtypes import castable, short
from ..tokens import digest
from ..undisturbed import undisturbed
from .definition import GufuncDefinition, Types, lines
from .signature import Core, written

# The modules whose text takes part in what is compiled.
_CODE = ("bodies", "in_place", "inferring", "loop", "raising")


@dataclass(frozen=True, slots=True)
class Operand:
    """An array of a call as compiled code takes it: its dtype and its core axes."""

    dtype: np.dtype[Any]
    core: Core


@dataclass(slots=True)
class Compiled:
    """A gufunc of NumPy's for exact types.

    Attributes
    ----------
    inputs : tuple of Operand
        The inputs, the numbers, and an array for each size that no input has.
    outputs : tuple of Operand
        The results.
    call : numpy.ufunc
        Takes all that, and may be given arrays for the results.
    most : float
        Up to so many elements of its first input a call is too short to be shared among threads.
    """

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    call: Any
    _held: Any
    most: float = 0


def compiled(
    definition: GufuncDefinition, types: Types, dtypes: Sequence[np.dtype[Any]] | None
) -> Compiled:
    """Compile for results of these dtypes, or of those that the function gives; or load it."""
    natural = result_dtypes(definition, types)
    asked = checked_dtypes(definition, natural, dtypes)

    cores, results = definition.signature.for_numpy(len(types.scalars))
    room = (np.dtype(bool),) * len(definition.signature.apart)
    given = (*types.inputs, *types.scalars, *room)
    inputs = tuple(map(Operand, given, cores))
    outputs = tuple(map(Operand, asked, results))

    def make() -> Compiled:
        from .loop import loop

        meaning = _meaning(definition, types, asked)
        address, held = loop(definition, natural, inputs, outputs, meaning)
        text = written(cores, results)
        made = Universal(address, 0, given, asked, definition.name, text)
        return Compiled(inputs, outputs, made.call, (made, held))

    with announced(definition.name, (*types.inputs, *types.scalars)):
        return undisturbed(make)


def result_dtypes(definition: GufuncDefinition, types: Types) -> tuple[np.dtype[Any], ...]:
    """The dtype of each result, by Numba's inference or from disk."""
    if interpreted():
        raise RuntimeError(
            f"'{definition.name}' is compiled by Numba, so it does not run with "
            f"NUMBA_DISABLE_JIT=1; unset that variable, or call {definition.name}.debug(...)."
        )

    def infer() -> str:
        from .inferring import inferred

        with announced(definition.name, (*types.inputs, *types.scalars)):
            return " ".join(dtype.str for dtype in inferred(definition, types))

    def found() -> str:
        if not definition.kept:
            return infer()
        return cache.text_of(definition.name, _meaning(definition, types, ()), infer)

    return tuple(np.dtype(text) for text in undisturbed(found).split())


def checked_dtypes(
    definition: GufuncDefinition,
    natural: tuple[np.dtype[Any], ...],
    dtypes: Sequence[np.dtype[Any]] | None,
) -> tuple[np.dtype[Any], ...]:
    """The dtypes that are asked for, if any are, and if the results may be stored in them."""
    if dtypes is None:
        return natural
    if len(dtypes) != len(natural):
        raise ValueError(
            f"dtype= names {len(dtypes)} dtypes, but '{definition.name}' has "
            f"{len(natural)} results."
        )
    for given, wanted in zip(natural, dtypes, strict=True):
        if short(wanted):
            raise TypeError(
                f"dtype={wanted} is one that '{definition.name}' cannot compute; out= takes "
                "arrays of it, and rounds to them."
            )
        if not castable(given, wanted):
            raise TypeError(
                f"dtype={wanted} does not hold the {given} that '{definition.name}' gives; "
                "convert the result with .astype()."
            )
    return tuple(dtypes)


@functools.cache
def _texts() -> str:
    return digest([Path(__file__).with_name(f"{name}.py").read_text() for name in _CODE])


def _meaning(definition: GufuncDefinition, types: Types, dtypes: Sequence[np.dtype[Any]]) -> str:
    # The code says at which line it left an array.
    rows = digest(lines(definition.function)) if definition.options.boundscheck else ""
    return "\n".join([definition.token, rows, str(types), " ".join(map(str, dtypes)), _texts()])
