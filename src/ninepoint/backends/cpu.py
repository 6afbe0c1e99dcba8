"""The CPU back end: a kernel's generated text, compiled by Numba, as something to run."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..language.box import Box
from ..language.dtypes import DType
from ..lowering.general.reads import REACH, SITE
from ..lowering.loops import Module
from . import cache


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel for given types: its text, where it looks, and what it gives.

    A `checked` kernel tells in a last argument that it read outside its neighborhood; `places`
    says which of its reads that was.
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

    @property
    def ndim(self) -> int:
        return self.reaches[0].ndim

    @property
    def reach(self) -> Box:
        """The box that holds every output's."""
        return functools.reduce(Box.__or__, self.reaches)

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
            np.ascontiguousarray(values[name], dtype=computed(dtype))
            for name, (dtype, _) in zip(
                self.module.coefficients, self.coefficient_types, strict=True
            )
        )
        scalars = tuple(
            dtype.numpy.type(values[name]).item()
            if not dtype.is_integer
            else int(values[name])
            for name, dtype in zip(self.module.scalars, self.scalar_types, strict=True)
        )
        return Bound(self, coefficients, scalars)


def computed(dtype: np.dtype) -> np.dtype:
    """The storage that generated text works on: half floats are widened before."""
    return np.dtype("float32") if dtype == np.float16 else dtype


@dataclass(frozen=True, slots=True)
class Bound:
    """A compiled kernel whose scalars are known: runs on blocks that hold every neighbour."""

    compiled: Compiled
    coefficients: tuple[np.ndarray, ...] = field(compare=False)
    scalars: tuple[Any, ...]

    @property
    def ndim(self) -> int:
        return self.compiled.ndim

    @property
    def reaches(self) -> tuple[Box, ...]:
        return self.compiled.reaches

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
        compiled = self.compiled
        if np.float16 in (*compiled.field_dtypes, *compiled.out_dtypes):
            wide = [f.astype("float32") if f.dtype == np.float16 else f for f in fields]
            results = [
                np.empty(o.shape, "float32") if o.dtype == np.float16 else o for o in outs
            ]
            self._run(wide, results)
            for out, result in zip(outs, results, strict=True):
                if out is not result:
                    with np.errstate(over="ignore"):
                        out[...] = result
            return
        self._run(fields, outs)

    def _run(self, fields: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
        compiled = self.compiled
        band = cache.load(
            compiled.module.text,
            compiled.name,
            compiled.types,
            compiled.signature,
            compiled.fastmath,
        )
        if not compiled.checked:
            band(*fields, *outs, *self.coefficients, *self.scalars)
            return
        outside = np.zeros(1, dtype=np.int64)
        try:
            band(*fields, *outs, *self.coefficients, *self.scalars, outside)
        except (IndexError, ValueError) as error:
            if not outside[0]:
                raise type(error)(f"the kernel '{compiled.name}': {error}") from None
        if outside[0]:
            raise IndexError(self._outside(int(outside[0])))

    def _outside(self, entry: int) -> str:
        """Say which read left the neighborhood, from what `relative.near` wrote down."""
        site, offset = divmod(entry + REACH, SITE)
        offset -= REACH
        axis, file, line = self.compiled.places[site - 1].split("|")
        reach = self.compiled.reach
        low, high = reach.lo[int(axis)], reach.hi[int(axis)]
        return (
            f"the kernel '{self.compiled.name}' read outside its neighborhood: offset {offset} "
            f"on axis {axis} is not in {low}..{high} (file '{file}', line {line}); "
            "widen 'neighborhood'."
        )
