"""Functions: what stands around the body of each function of a text, whatever the scheme.

    extern "C" __global__ void __launch_bounds__(256) npt_f(
        const float *__restrict__ f0, float *__restrict__ o0, npt_int64 k0, const npt_geometry g)

Every name in a text is the compiler's own: fields are f0, f1, ..., stages v0, ..., outputs o0,
..., coefficients c0, ..., scalars k0, ..., constants b0, ..., and values t0, ....
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...analysis.ranges import Interval
from ...language.ir import Assign, Element, Kernel, Read
from ...lowering.chain import Constant
from .bodies import Body, Names
from .memory import C_TYPES, Array, Local, loaded, stored_type


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
    """A function that is being written: its names, and the arrays that it uses.

    It writes `outs`; the values of "constant" and "fill" are its `constants`.
    """

    kernel: Kernel
    known: Mapping[str, Interval]
    constants: tuple[Constant, ...]
    name: str
    outs: Sequence[Array]
    types: dict[str, str] = field(init=False)
    names: Names = field(init=False)
    arrays: list[Array] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.types = {name: dtype.numpy.name for name, dtype in self.kernel.scalars}
        self.names = Names(self.name)

    @property
    def ndim(self) -> int:
        """How many core axes there are."""
        return self.kernel.ndim

    def body(self) -> Body:
        """What is computed at a point, of which nothing is written yet."""
        scalars = {name: f"k{k}" for k, (name, _) in enumerate(self.kernel.scalars)}
        return Body(dict(self.known), self.types, scalars, self.names)

    def coefficients(self, name: str) -> Local:
        """A coefficient array."""
        number = [name for name, _, _ in self.kernel.coefficients].index(name)
        _, dtype, shape = self.kernel.coefficients[number]
        return Local(f"c{number}", dtype, tuple(shape))

    def element(self, body: Body, name: str, expr: Element) -> None:
        """Give an element of a coefficient array its name in a body."""
        array = self.coefficients(expr.array)
        own = body.declare(name, expr)
        text = array.at(list(map(str, expr.index)))
        body.take(name, own, loaded(own, array.dtype, text))

    def computed(self, lines: Sequence[Assign], take: Callable[[Body, str, Read], None]) -> Body:
        """What some lines compute at a point; `take` gives what is read its name in the body."""
        body = self.body()
        for assign in lines:
            match assign.value:
                case Read() as read:
                    take(body, assign.name, read)
                case Element() as element:
                    self.element(body, assign.name, element)
                case _:
                    body.assign(assign)
        return body

    def constant(self, one: Constant) -> str:
        """The name of a constant."""
        return f"b{self.constants.index(one)}"

    def use(self, array: Array) -> Array:
        """The array, noted as used."""
        if array not in self.arrays:
            self.arrays.append(array)
        return array

    def lines(self, body: Sequence[str], threads: int, blocks: int = 0) -> list[str]:
        """The text of the function, with this body for so many threads in a block.

        The compiler is to use so few registers that so many `blocks` fit on a multiprocessor.
        """
        bounds = f"{threads}, {blocks}" if blocks else f"{threads}"
        parameters = [*self._parameters(), f"const npt_geometry<{self._shape}> g"]
        return [
            "",
            *self.names.tables,
            f'extern "C" __global__ void __launch_bounds__({bounds}) {self.name}(',
            *(f"    {one}," for one in parameters[:-1]),
            f"    {parameters[-1]}) {{",
            *("  " + line for line in body),
            "}",
        ]

    @property
    def _shape(self) -> str:
        return f"{self.ndim}, {len(self.arrays)}"

    def _parameters(self) -> list[str]:
        kernel = self.kernel
        parameters = [
            f"{'' if a in self.outs else 'const '}{a.stored} *__restrict__ {a.parameter}"
            for a in self.arrays
        ]
        parameters += [
            f"const {stored_type(dtype)} *__restrict__ c{k}"
            for k, (_, dtype, _) in enumerate(kernel.coefficients)
        ]
        parameters += [f"{C_TYPES[d.numpy.name]} k{k}" for k, (_, d) in enumerate(kernel.scalars)]
        return parameters + [
            f"{stored_type(dtype)} b{k}" for k, (_, dtype, _) in enumerate(self.constants)
        ]

    def frames(self, frame: str) -> list[str]:
        """Move every array to a frame, of this number, and name its steps along the axes."""
        lines = [
            f"{array.parameter} += npt_frame(g, {position}, {frame});"
            for position, array in enumerate(self.arrays)
        ]
        for position, array in enumerate(self.arrays):
            for axis in range(self.ndim):
                step = f"npt_index(g.core[{position}][{axis}])"
                lines.append(f"const npt_index {array.parameter}_{axis} = {step};")
        return lines


def plus(name: str, step: int) -> str:
    """`name + step`, `name - step`, or the name alone."""
    if not step:
        return name
    return f"{name} + {step}" if step > 0 else f"{name} - {-step}"
