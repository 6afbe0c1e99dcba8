"""Functions: what stands around the body of each function of a text, whatever the scheme.

    extern "C" __global__ void __launch_bounds__(256) npt_f(
        const float *__restrict__ f0, float *__restrict__ o0, npt_int64 k0, const npt_geometry g)

Every name in a text is the compiler's own: fields are f0, f1, ..., stages v0, ..., outputs o0,
..., coefficients c0, ..., scalars k0, ..., constants b0, ..., and values t0, ....
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...analysis.ranges import Interval, of_storage
from ...language.dtypes import computed, short
from ...language.ir import Kernel
from .borders import Border
from .operations import C_TYPES, Operations, stored_type

# Bytes of constants up to which they are kept where a whole warp reads one at once.
_CONSTANT = 1 << 14


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a text: its name in launches, its parameter, and what its elements are."""

    name: str
    parameter: str
    dtype: np.dtype

    @property
    def kept(self) -> bool:
        """Whether it is the result of a launch before, and has no border."""
        return self.name.startswith("scratch")

    @property
    def stored(self) -> str:
        """How its elements are called."""
        return stored_type(self.dtype)

    def at(self, places: Sequence[str]) -> str:
        """The element at a position along each core axis."""
        steps = (
            f"{f'({place})' if ' ' in place else place} * {self.parameter}_{axis}"
            for axis, place in enumerate(places)
        )
        return f"{self.parameter}[{' + '.join(steps)}]"


def field_arrays(kernel: Kernel) -> dict[str, Array]:
    """The fields of a kernel, by their names there."""
    return {
        name: Array(f"field{k}", f"f{k}", dtype) for k, (name, dtype) in enumerate(kernel.fields)
    }


def out_arrays(dtypes: Sequence[np.dtype]) -> list[Array]:
    """The outputs of a kernel."""
    return [Array(f"out{k}", f"o{k}", dtype) for k, dtype in enumerate(dtypes)]


@dataclass
class Function:
    """A function that is being written: its names, and the arrays that it uses."""

    kernel: Kernel
    known: Mapping[str, Interval]
    border: Border
    name: str
    operations: Operations = field(init=False)
    storage: dict[str, Interval] = field(init=False)
    arrays: list[Array] = field(default_factory=list, init=False)
    tables: list[str] = field(default_factory=list, init=False)
    _values: int = field(default=0, init=False)
    _constants: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        kernel = self.kernel
        types = {name: dtype.numpy.name for name, dtype in kernel.scalars}
        names = {name: f"k{k}" for k, (name, _) in enumerate(kernel.scalars)}
        self.operations = Operations(dict(self.known), types, names)
        self.storage = {name: of_storage(dtype) for name, dtype in kernel.fields}
        self.storage |= {name: of_storage(dtype) for name, dtype, _ in kernel.coefficients}
        staged = [name for stage in kernel.stages for name in stage.names]
        self.storage |= {name: self.known[name] for name in staged if name in self.known}

    def fresh(self, name: str = "") -> str:
        """A name that nothing else has; that of a value, if there is one."""
        text = f"t{self._values}"
        self._values += 1
        if name:
            self.operations.names[name] = text
        return text

    def use(self, array: Array) -> Array:
        """The array, noted as used."""
        if array not in self.arrays:
            self.arrays.append(array)
        return array

    def table(self, machine: str, texts: Sequence[str]) -> str:
        """The name of an array of constants."""
        self._constants += np.dtype(machine).itemsize * len(texts)
        name = f"{self.name}_table{len(self.tables)}"
        room = "__constant__" if self._constants <= _CONSTANT else "__device__"
        listed = ",\n  ".join(", ".join(texts[k : k + 8]) for k in range(0, len(texts), 8))
        head = f"{room} const {C_TYPES[machine]} {name}[{len(texts)}]"
        self.tables.append(f"{head} = {{\n  {listed}\n}};")
        return name

    def element(self, array: str, machine: str, places: Sequence[str]) -> str:
        """An element of a coefficient array, as a value of a machine type."""
        number = [name for name, _, _ in self.kernel.coefficients].index(array)
        _, dtype, shape = self.kernel.coefficients[number]
        return loaded(machine, dtype, f"c{number}[{flat(places, shape)}]")

    def lines(self, body: Sequence[str], threads: int, blocks: int = 0) -> list[str]:
        """The text of the function, with this body for so many threads in a block.

        The compiler is to use so few registers that so many `blocks` fit on a multiprocessor.
        """
        bounds = f"{threads}, {blocks}" if blocks else f"{threads}"
        parameters = [*self._parameters(), f"const npt_geometry<{self._shape}> g"]
        return [
            "",
            *self.tables,
            f'extern "C" __global__ void __launch_bounds__({bounds}) {self.name}(',
            *(f"    {one}," for one in parameters[:-1]),
            f"    {parameters[-1]}) {{",
            *("  " + line for line in body),
            "}",
        ]

    @property
    def _shape(self) -> str:
        return f"{self.kernel.ndim}, {len(self.arrays)}"

    def _parameters(self) -> list[str]:
        kernel = self.kernel
        parameters = [
            f"{'' if self._written(a) else 'const '}{a.stored} *__restrict__ {a.parameter}"
            for a in self.arrays
        ]
        parameters += [
            f"const {stored_type(dtype)} *__restrict__ c{k}"
            for k, (_, dtype, _) in enumerate(kernel.coefficients)
        ]
        parameters += [f"{C_TYPES[d.numpy.name]} k{k}" for k, (_, d) in enumerate(kernel.scalars)]
        return parameters + [
            f"{stored_type(dtype)} b{k}" for k, (_, dtype, _) in enumerate(self.border.constants)
        ]

    def _written(self, array: Array) -> bool:
        return array.name.startswith("out")

    def frames(self, frame: str) -> list[str]:
        """Move every array to a frame, of this number, and name its steps along the axes."""
        lines = [
            f"{array.parameter} += npt_frame(g, {position}, {frame});"
            for position, array in enumerate(self.arrays)
        ]
        for position, array in enumerate(self.arrays):
            for axis in range(self.kernel.ndim):
                step = f"npt_index(g.core[{position}][{axis}])"
                lines.append(f"const npt_index {array.parameter}_{axis} = {step};")
        return lines


def flat(places: Sequence[str], shape: Sequence[int]) -> str:
    """The index in C order of an element of an array of this shape."""
    text = places[0]
    for place, length in zip(places[1:], shape[1:], strict=True):
        first = f"({text})" if " " in text else text
        text = f"{first} * {length} + {place}"
    return text


def plus(name: str, step: int) -> str:
    """`name + step`, `name - step`, or the name alone."""
    if not step:
        return name
    return f"{name} + {step}" if step > 0 else f"{name} - {-step}"


def loaded(machine: str, dtype: np.dtype, text: str) -> str:
    """A stored element as it is computed with."""
    if dtype == np.bool_ and machine == "bool":
        return f"{text} != 0"
    same = machine == dtype.name or (dtype.kind in "iu" and machine.startswith(("int", "uint")))
    return text if same else f"npt_as<{C_TYPES[machine]}>::from({text})"


def stored(dtype: np.dtype, machine: str, text: str) -> str:
    """A value as it is stored, which holds it."""
    same = machine == dtype.name or (machine == "bool" and not short(dtype))
    same = same or (dtype.kind in "iu" and machine.startswith(("int", "uint")))
    return text if same else f"npt_as<{stored_type(dtype)}>::from({text})"


def copied(dtype: np.dtype, before: np.dtype, text: str) -> str:
    """An element of an array that is `before`, as one that is `dtype` has it."""
    if dtype == before:
        return text
    machine = computed(before).name
    return stored(dtype, machine, loaded(machine, before, text))
