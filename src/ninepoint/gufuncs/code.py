"""Compile a gufunc for the types that come, once, and keep what was made on disk.

Two things are kept: the dtypes of the results, so that Numba need not be asked for them again,
and the loop as object code, which is loaded without Numba.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..backends.llvm import native
from ..backends.numba import cache
from ..backends.numba.interpreted import interpreted
from ..backends.patience import announced
from ..language.errors import StencilError
from ..tokens import digest
from ..undisturbed import undisturbed
from .definition import GufuncDefinition, Types, lines

# The modules whose text takes part in what is compiled.
_CODE = ("bodies", "in_place", "inside", "inferring", "loop")

_numbers = itertools.count()


def result_dtypes(definition: GufuncDefinition, types: Types) -> tuple[np.dtype[Any], ...]:
    """The dtype of each result, by Numba's inference or from disk."""
    _refuse_interpreted(definition)

    def infer() -> str:
        from .inferring import inferred

        with announced(definition.name, (*types.inputs, *types.scalars)):
            return " ".join(dtype.str for dtype in inferred(definition, types))

    def found() -> str:
        if not definition.kept:
            return infer()
        return cache.text_of(_file(definition), _meaning(definition, types, ()), infer)

    return tuple(np.dtype(text) for text in undisturbed(found).split())


def loop_address(
    definition: GufuncDefinition,
    types: Types,
    natural: Sequence[np.dtype[Any]],
    dtypes: Sequence[np.dtype[Any]],
) -> int:
    """Where the loop for results of these dtypes begins; it is compiled or loaded.

    `natural` are those that `result_dtypes` gave.
    """
    _refuse_interpreted(definition)
    with announced(definition.name, (*types.inputs, *types.scalars)):
        return undisturbed(lambda: _loop(definition, types, tuple(natural), tuple(dtypes)))


def _loop(
    definition: GufuncDefinition,
    types: Types,
    natural: tuple[np.dtype[Any], ...],
    dtypes: tuple[np.dtype[Any], ...],
) -> int:
    def make() -> tuple[bytes, Sequence[str]] | None:
        from .compiling import object_code

        with _whole(definition, types):
            return object_code(definition, types, natural, dtypes)

    found: int | None = None
    if definition.kept and native.possible():
        load = functools.partial(native.address, name="ninepoint_loop")
        meaning = _meaning(definition, types, dtypes)
        found = cache.object_of(_file(definition), meaning, load, make)
    if found is None:
        from .compiling import address_here

        with _whole(definition, types):
            found = address_here(definition, types, natural, dtypes, next(_numbers))
    return found


@contextmanager
def _whole(definition: GufuncDefinition, types: Types) -> Iterator[None]:
    """Tell of a mistake as of one in the user's text, not in what became of it."""
    try:
        yield
    except StencilError:
        from .inferring import inferred

        inferred(definition, types)
        raise


def _refuse_interpreted(definition: GufuncDefinition) -> None:
    if interpreted():
        raise RuntimeError(
            f"'{definition.name}' is compiled by Numba, so it does not run with "
            f"NUMBA_DISABLE_JIT=1; unset that variable, or call {definition.name}.debug(...)."
        )


def _file(definition: GufuncDefinition) -> str:
    return cache.identifier(definition.name)


@functools.cache
def _texts() -> str:
    return digest([Path(__file__).with_name(f"{name}.py").read_text() for name in _CODE])


def _meaning(definition: GufuncDefinition, types: Types, dtypes: tuple[np.dtype[Any], ...]) -> str:
    # The code says at which line it left an array.
    rows = digest(lines(definition.function)) if definition.options.boundscheck else ""
    return "\n".join([definition.token, rows, str(types), " ".join(map(str, dtypes)), _texts()])
