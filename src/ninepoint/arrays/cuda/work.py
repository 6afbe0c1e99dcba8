"""Work: what a text does, with which arrays and numbers it is called, and what it gives.

a kernel with its border      ->     Work
calls in one pass             ->     Work
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Border
from ninepoint.arrays.fitting import fitting_cval
from ninepoint.arrays.layout import Region, Shape, layout
from ninepoint.arrays.merging import looks_at_points
from ninepoint.backends.compiled import Bound, Compiled
from ninepoint.backends.cuda import driver
from ninepoint.backends.cuda.driver import DeviceArray
from ninepoint.backends.cuda.source import Source
from ninepoint.backends.cuda.writing import written
from ninepoint.language import errors
from ninepoint.remembered import Remembered


@dataclass(frozen=True, slots=True)
class Work:
    """What a text does: with which arrays and numbers it is called, and what it gives.

    `coefficients` are the types of small arrays, and `scalars` make of numbers what a function is
    given.  It looks `reach` elements away at most.  For the lengths along the core axes `source`
    gives the text with its constants, and `extents` the points that each output has.
    """

    name: str
    fastmath: bool
    ndim: int
    reach: int
    points: bool
    field_dtypes: tuple[np.dtype[Any], ...]
    out_dtypes: tuple[np.dtype[Any], ...]
    coefficients: tuple[np.dtype[Any], ...]
    scalars: tuple[Callable[[Any], Any], ...]
    source: Callable[[], tuple[Source, tuple[Any, ...]]]
    extents: Callable[[Shape], Sequence[Region]]

    def numbers(self, given: Sequence[Any]) -> list[Any]:
        """Coefficients and scalars as a function takes them."""
        count = len(self.coefficients)
        # They stay on the GPU, for `_coefficient` holds them.
        found = [
            _coefficient(np.ascontiguousarray(array, dtype)).data.ptr
            for array, dtype in zip(given[:count], self.coefficients, strict=True)
        ]
        pairs = zip(self.scalars, given[count:], strict=True)
        return [*found, *[to(value) for to, value in pairs]]


def one_pass(
    name: str,
    source: Source,
    fields: Sequence[np.dtype[Any]],
    outs: Sequence[np.dtype[Any]],
    coefficients: Sequence[np.ndarray[Any, Any]],
    scalar_types: Sequence[Any],
    borders: Sequence[tuple[Border, Any]],
    fastmath: bool,
) -> Work:
    """Say what calls do that are done at once, on fields of one shape."""
    constants = tuple(
        storage.type(fitting_cval(borders[number][1], storage, "the result"))
        for number, storage, _ in source.constants
    )
    return Work(
        name,
        fastmath,
        len(source.launches[0].tile),
        0,  # What rolls in registers looks no farther than a few warps.
        False,
        tuple(fields),
        tuple(outs),
        tuple(array.dtype for array in coefficients),
        tuple(map(_converter, scalar_types)),
        lambda: (source, constants),
        lambda core: [Region((0,) * len(core), core)] * len(outs),
    )


def one_call(program: Bound, border: Border, cval: Any) -> Work:
    """Say what a call does.

    Raises
    ------
    StencilError
        If the kernel takes the general path, which leads to the CPU only.
    """
    compiled = program.compiled
    understood(compiled)

    def source() -> tuple[Source, tuple[Any, ...]]:
        found = source_of(compiled, border)
        given = program.field_dtypes[: len(program.field_dtypes) - program.positions]
        # Beside positions, which nobody reads beyond an array, stands anything.
        return found, tuple(
            dtype.type(fitting_cval(cval, dtype, "the result"))
            if rule == "fill" or dtype in given
            else dtype.type(0)
            for _, dtype, rule in found.constants
        )

    def extents(core: Shape) -> list[Region]:
        plan = layout(core, program.reaches, border)
        on_numpy.check_values(
            plan, cval, program.field_dtypes, program.out_dtypes, program.positions
        )
        return [output.extent for output in plan.outputs]

    return Work(
        compiled.name,
        compiled.fastmath,
        program.ndim,
        max(abs(end) for box in program.reaches for end in (*box.lo, *box.hi)),
        looks_at_points(program),
        program.field_dtypes,
        program.out_dtypes,
        tuple(dtype for dtype, _ in compiled.coefficient_types),
        tuple(map(_converter, compiled.scalar_types)),
        source,
        extents,
    )


def understood(compiled: Compiled) -> None:
    """Raise where a kernel is one for the CPU only."""
    if found := compiled.cpu_only:
        place, reason = found
        raise errors.gpu_general(place, compiled.name, reason)


def _converter(scalar: Any) -> Callable[[Any], Any]:
    """Give what makes of a number an argument of its type."""
    found: Callable[[Any], Any] = scalar.numpy.type
    return found


# Coefficient arrays by their elements, and by the GPU and the stream on which they are there.
_uploaded: Remembered[tuple[Any, ...], DeviceArray] = Remembered(256)


def _coefficient(array: np.ndarray[Any, Any]) -> DeviceArray:
    """Give a small array on the current GPU; taken there once."""
    key = array.dtype.str, array.shape, array.tobytes(), driver.current(), driver.stream()
    found = _uploaded.get(key)
    if found is None:
        found = _uploaded[key] = driver.uploaded(array)
    return found


# Texts, by the kernel and the border.
_sources: Remembered[tuple[Any, ...], tuple[Compiled, Source]] = Remembered(256)


def source_of(compiled: Compiled, border: Border) -> Source:
    """Give the text of a kernel for one border, written once."""
    key = id(compiled), border
    found = _sources.get(key)
    if found is None:
        found = _sources[key] = compiled, written(compiled.forms, border.rules)
    return found[1]
