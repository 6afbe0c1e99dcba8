"""Run the text of a GPU's kernel on NumPy arrays, by the emulator: what a host has to do.

drawn kernels  ->  texts  ->  one run of g++  ->  launches, between pages nobody may touch
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

import agreement
import ninepoint as npt
from emulator import Functions, Guarded, compiled, guarded
from ninepoint.arrays.accepted import as_field, native
from ninepoint.arrays.borders import Border, Boundary
from ninepoint.arrays.layout import layout
from ninepoint.arrays.numpy import check_values
from ninepoint.backends.backend import Lowered
from ninepoint.backends.cuda.source import STACK, Launch, Source
from ninepoint.backends.cuda.writing import LONGEST, written
from ninepoint.language.ir import Length


@dataclass
class Emulated:
    """A compiled text with its arguments: runs on whole arrays, a stack of frames each."""

    source: Source
    functions: Functions
    lowered: Lowered
    border: Border
    values: Mapping[str, Any]
    at_end: bool = True
    turned: bool = False
    aligned: bool = False
    plain: bool = False
    arrays: dict[str, tuple[np.ndarray, tuple[int, ...]]] = field(default_factory=dict)

    def __call__(self, fields: Sequence[np.ndarray], cval: Any = 0) -> tuple[np.ndarray, ...]:
        """The results for fields that are broadcast against each other."""
        ndim, lowered = self.lowered.ndim, self.lowered
        shape = np.broadcast_shapes(*(one.shape for one in fields))
        stack, core = shape[:-ndim], shape[-ndim:]
        if len(stack) > STACK:
            stack = (int(np.prod(stack)),)
        stack = (1,) * (STACK - len(stack)) + stack
        plan = layout(core, lowered.reaches, self.border)
        values = check_values(plan, cval, lowered.field_dtypes, lowered.out_dtypes)
        self.arrays.clear()
        for k, (one, dtype) in enumerate(zip(fields, lowered.field_dtypes, strict=True)):
            held = np.ascontiguousarray(one, dtype)
            if self.turned:
                # The other way round along every axis, the first of which changes fastest.
                held = np.flip(guarded(np.flip(held).T.copy(), self.at_end).T)
            else:
                held = self._array(dtype, one.shape)
                held[...] = one
            spread = np.broadcast_to(held, shape).reshape(*stack, *core)
            self.arrays[f"field{k}"] = spread, (0,) * ndim
        for k, (output, dtype) in enumerate(zip(plan.outputs, lowered.out_dtypes, strict=True)):
            self._make(f"out{k}", dtype, stack, output.extent.shape, output.extent.start)
        for one in self.source.scratch:
            lengths = tuple(n + b - a for n, a, b in zip(core, one.low, one.high, strict=True))
            self._make(one.name, one.dtype, stack, lengths, one.low)
        results = [self.arrays[f"out{k}"][0] for k in range(len(lowered.out_dtypes))]
        if any(one.size for one in results):
            others = self._others(core)
            others += [self._constant(one, values, cval) for one in self.source.constants]
            for launch in self.source.launches:
                self._launch(launch, stack, core, others)
        lead = shape[:-ndim]
        return tuple(one.reshape(*lead, *one.shape[STACK:]).copy() for one in results)

    def _make(
        self,
        name: str,
        dtype: np.dtype,
        stack: tuple[int, ...],
        lengths: tuple[int, ...],
        first: tuple[int, ...],
    ) -> None:
        self.arrays[name] = self._array(dtype, (*stack, *lengths)), first

    def _array(self, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
        """Memory with nothing in it; where asked for, with rows at multiples of 16 bytes."""
        step = 16 if self.aligned else 1
        whole = (*shape[:-1], -(-shape[-1] // step) * step)
        count = int(np.prod(whole, dtype=np.int64))
        made = Guarded(count * dtype.itemsize, self.at_end).array(dtype, whole)
        made.view(np.uint8).fill(0xC3) if made.size else None
        return made[..., : shape[-1]]

    def _others(self, core: tuple[int, ...]) -> list[Any]:
        """The coefficients and the scalars."""
        lowered, found = self.lowered, list[Any]()
        for name, (dtype, _) in zip(lowered.coefficients, lowered.coefficient_types, strict=True):
            found.append(guarded(np.ascontiguousarray(self.values[name], dtype), self.at_end))
        for name, dtype in zip(lowered.scalars, lowered.scalar_types, strict=True):
            value = core[name.axis] if isinstance(name, Length) else self.values[name]
            value = int(value) if dtype.is_integer else value
            found.append(dtype.numpy.type(value))
        return found

    def _constant(self, one: tuple[int, np.dtype, str], values: Any, cval: Any) -> Any:
        _, dtype, rule = one
        dtypes = self.lowered.field_dtypes if rule == "constant" else self.lowered.out_dtypes
        given = values.fields if rule == "constant" else values.outs
        return dtype.type(given[dtypes.index(dtype)])

    def _launch(
        self,
        launch: Launch,
        stack: tuple[int, ...],
        core: tuple[int, ...],
        others: Sequence[Any],
    ) -> None:
        pointers, steps, frames = [], [], []
        for name in launch.arrays:
            array, first = self.arrays[name]
            size = array.itemsize
            strides = [
                s // size if n > 1 else 0 for s, n in zip(array.strides, array.shape, strict=True)
            ]
            core_steps = [s // size for s in array.strides[STACK:]]
            pointers.append(
                array.ctypes.data
                - sum(a * s * size for a, s in zip(first, core_steps, strict=True))
            )
            steps += core_steps
            frames += strides[:STACK]
        geometry = np.array([*core, *stack, *steps, *frames], np.int64).tobytes()
        counts = [
            -(-(n + b - a) // t)
            for n, a, b, t in zip(core, launch.low, launch.high, launch.tile, strict=True)
        ]
        grid = int(np.prod(counts) * np.prod(stack))
        plain = launch.plain and (self.plain or not self._fits(launch))
        name = launch.plain if plain else launch.function
        arguments = [*pointers, *others, geometry]
        self.functions[name](grid, launch.threads, arguments)

    def _fits(self, launch: Launch) -> bool:
        """Whether the arrays can be read and written in vectors."""
        for name, size in launch.wide:
            array, first = self.arrays[name]
            *steps, last = array.strides
            start = sum(a * s for a, s in zip(first, array.strides[STACK:], strict=True))
            places = (array.ctypes.data - start, *steps)
            if last != array.itemsize or any(place % size for place in places):
                return False
        return True


@dataclass(frozen=True)
class Given:
    """A kernel with its arguments, as the random ones are."""

    stencil: npt.Stencil
    arrays: dict[str, np.ndarray]
    boundary: Any = "fill"
    scalars: dict[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        return self.arrays | self.scalars


Kernel: TypeAlias = agreement.Drawn | Given


def fields_of(drawn: Kernel) -> list[np.ndarray]:
    """The arrays of a kernel, in the order of its fields, and the positions that it asks for."""
    stencil = drawn.stencil
    others = {n: drawn.values.get(n, stencil.defaults.get(n)) for n in stencil.scalars}
    fields = [as_field(drawn.arrays[name]) for name in stencil.fields]
    return agreement.with_positions(stencil, others, fields)


def emulated(
    kernels: Sequence[Kernel], define: Sequence[str] = (), longest: int = LONGEST
) -> list[Emulated | None]:
    """Kernels as a GPU would do them; None for one on the general path.

    Every other one is done in one piece up to `longest` operations, and every third with a thread
    for each point.
    """
    found: list[tuple[Source, Lowered, Border, dict[str, Any]] | None] = []
    for k, drawn in enumerate(kernels):
        stencil = drawn.stencil
        dtypes = [native(drawn.arrays[name].dtype) for name in stencil.fields]
        others = {n: drawn.values.get(n, stencil.defaults.get(n)) for n in stencil.scalars}
        keep = "keep" in str(drawn.boundary)
        lowered, forms, _ = stencil.definition.compiled(dtypes, others, keep)
        if forms is None:
            found.append(None)
            continue
        border = Boundary.of(drawn.boundary).on(lowered.ndim)
        most = longest if k % 2 else LONGEST
        source = written(forms, border.rules, longest=most, patches=k % 3 > 0)
        found.append((source, lowered, border, others))
    functions = iter(compiled([one[0].text for one in found if one is not None], define, "-O0"))
    return [
        None
        if one is None
        else Emulated(
            one[0],
            next(functions),
            *one[1:],
            at_end=bool(k % 2),
            turned=k // 2 % 4 == 1,
            aligned=bool(k // 4 % 2),
        )
        for k, one in enumerate(found)
    ]
