"""Bodies: what is computed at a point, written in the loop language and printed as C++.

    t2 = x[0, 1] + x[0, -1]    ->    t2 = i32(t0 + t1)    ->    const int t5 = t3 + t4;

The text of an operation is that of the CPU; only its integers have 32 bits at least.

Functions: what stands around the body of each function of a text, whatever the scheme.

    extern "C" __global__ void __launch_bounds__(256) npt_f(
        const float *__restrict__ f0, float *__restrict__ o0, npt_int64 k0, const npt_geometry g)

Every name in a text is the compiler's own: fields are f0, f1, ..., stages v0, ..., outputs o0,
..., coefficients c0, ..., scalars k0, ..., constants b0, ..., and values t0, ....
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np

from ...analysis.ranges import Interval
from ...language.dtypes import computed
from ...language.ir import Atom, Binary, DType, Kernel, Offset
from ...loops.operations import called
from ...loops.reading import Texts, functions_of, read
from .printing import C_TYPES, Array, Local, Memory, Printer, block, loaded, number, stored_type
from .source import Constant
from .windows import Windows

# What texts call besides the library of the CPU: the device's text has these too.
_OWN = """
def lesser(a, b):
    return a if a < b else b

def greater(a, b):
    return a if a > b else b

def key_float32(x):
    bits = bits_of_float32(x)
    return u32(~bits) if bits < 0 else u32(bits | 2147483648)

def key_float64(x):
    bits = bits_of_float64(x)
    return u64(~bits) if bits < 0 else u64(bits) | 9223372036854775808

def keyed_float32(key):
    return float32_of_bits(i32(key & 2147483647) if key > 2147483647 else i32(~key))

def keyed_float64(key):
    high = key > 9223372036854775807
    return float64_of_bits(i64(key & 9223372036854775807) if high else i64(~key))
"""
_AT = "def at{0}(i, n):\n    return i\n"

# Bytes of constants up to which they are kept where a whole warp reads one at once.
_CONSTANT = 1 << 14


class Body(Windows):
    """What is computed at a point by a function, of which nothing is written yet.

    `read` gives an element of a field, so far along each axis and further along some: the lines
    that come before it, and its text.
    """

    least = 32

    def __init__(self, function: Function, storage: Mapping[str, np.dtype], read: Any) -> None:
        super().__init__(dict(function.known), {}, storage)
        self.function, self._read = function, read
        self.lines = list[str]()
        # What is given by name: of which machine type, and with how many axes.
        self._given = dict[str, tuple[str, int]]()
        # What it is called in C++.
        self._names = dict[str, str]()
        self._indices = set[str]()
        self._arrays = dict[str, Memory]()
        self._made = 0
        for k, (name, dtype) in enumerate(function.kernel.scalars):
            self.take(name, dtype.numpy.name, f"k{k}")
        for name, one in function.coefficients.items():
            self.memory(name, one, len(one.shape))

    def element(
        self, field: str, origin: Offset, along: Mapping[int, str]
    ) -> tuple[list[str], str]:
        lines, text = self._read(self, field, origin, along)
        return lines, text

    def take(self, name: str, machine: str, text: str) -> str:
        """Give a value, of which there is a text in C++, a name."""
        self.types[name] = machine
        self._given[name], self._names[name] = (machine, 0), text
        return name

    def constant(self, dtype: np.dtype) -> str:
        """The name of the constant that stands beyond the ends of arrays of a type."""
        parameter, machine = self.function.constant(dtype, "constant"), computed(dtype).name
        return self.take(parameter, machine, loaded(machine, dtype, parameter))

    def index(self, name: str) -> str:
        """The name of a position, which is the same in C++."""
        self._indices.add(name)
        return self.take(name, "int64", name)

    def memory(self, name: str, array: Memory, ndim: int) -> None:
        """Give an array, with so many axes, a name."""
        self._given[name], self._arrays[name] = (computed(array.dtype).name, ndim), array

    def new(self, word: str) -> str:
        """A name of the text that nothing else has."""
        self._made += 1
        return f"{word}_{self._made}_own"

    def result(self, atom: Atom) -> str:
        """The name in C++ of a value, once the body is printed."""
        name = self.new("result")
        self._given[name] = self.machine(atom), 1
        self.lines.append(f"{name}[0] = {self.atom(atom)}")
        own = self._names[name] = self.function.fresh()
        return own

    def printed(self) -> list[str]:
        """All of it as C++."""
        text = [*self.constants, f"def band({', '.join(self._given)}):"]
        text += ["    " + line for line in self.lines or ["pass"]]
        known, types = {"nan": float("nan"), "inf": float("inf")}, list(self._given.values())
        module = read("\n".join(text), _library(), known, types)
        arrays = self._arrays | {name: self.function.table(one) for name, one in module.tables}
        printer = Printer(self._names, self._indices, arrays, self.function.fresh)
        return printer.lines(module.function("band").body)

    def _float_extreme(self, expr: Binary, left: str, right: str) -> str:
        if expr.loose and expr.dtype is DType.F32:
            return called("lesser" if expr.op == "minimum" else "greater", left, right)
        return super()._float_extreme(expr, left, right)


def _library() -> Texts:
    folder = resources.files("ninepoint.backends.llvm")
    library = functions_of(folder.joinpath("library.py").read_text(encoding="utf-8"))
    own = functions_of(_OWN + "".join(_AT.format(axis) for axis in range(9)))
    return {**library, **own}


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
    coefficients: dict[str, Local] = field(init=False)
    plain: str = field(default="", init=False)
    arrays: list[Array] = field(default_factory=list, init=False)
    # Texts of arrays of constants, of so many bytes; and how many values have names.
    tables: list[str] = field(default_factory=list, init=False)
    _constants: int = field(default=0, init=False)
    _values: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.coefficients = {
            name: Local(f"c{k}", dtype, tuple(shape))
            for k, (name, dtype, shape) in enumerate(self.kernel.coefficients)
        }

    @property
    def ndim(self) -> int:
        """How many core axes there are."""
        return self.kernel.ndim

    def fresh(self) -> str:
        """A name that nothing else has."""
        self._values += 1
        return f"t{self._values - 1}"

    def table(self, values: np.ndarray) -> Local:
        """An array of constants."""
        machine = values.dtype.name
        self._constants += values.nbytes
        name = f"{self.name}_table{len(self.tables)}"
        room = "__constant__" if self._constants <= _CONSTANT else "__device__"
        texts = [number(machine, one) for one in values.ravel().tolist()]
        listed = ",\n  ".join(", ".join(texts[k : k + 8]) for k in range(0, len(texts), 8))
        head = f"{room} const {C_TYPES[machine]} {name}[{len(texts)}]"
        self.tables.append(f"{head} = {{\n  {listed}\n}};")
        return Local(name, values.dtype, values.shape)

    def constant(self, dtype: np.dtype, rule: str) -> str:
        """The name of a constant; empty where no rule asks for it."""
        one = dtype, rule
        return f"b{self.constants.index(one)}" if one in self.constants else ""

    def use(self, array: Array) -> Array:
        """The array, noted as used."""
        if array not in self.arrays:
            self.arrays.append(array)
        return array

    def lines(self, body: Sequence[str], threads: int) -> list[str]:
        """The text of the function, with this body for so many threads in a block.

        The same body is that of a function called `plain`, if there is one: it is told whether
        rows are read and written in vectors, where they are `wide`.
        """
        kernel = f'extern "C" __global__ void __launch_bounds__({threads}) '
        given = [*self._parameters(), f"const npt_geometry<{self.ndim}, {len(self.arrays)}> g"]
        parameters = "(\n    " + ",\n    ".join(given) + ") {"
        head = ["", *self.tables]
        if not self.plain:
            return [*head, *block(f"{kernel}{self.name}{parameters}", body)]
        inner, names = f"{self.name}_body", ", ".join(one.rpartition(" ")[2] for one in given)
        return [
            *head,
            *block(f"template <bool wide> NPT void {inner}{parameters}", body),
            *block(f"{kernel}{self.name}{parameters}", [f"{inner}<true>({names});"]),
            *block(f"{kernel}{self.plain}{parameters}", [f"{inner}<false>({names});"]),
        ]

    def _parameters(self) -> list[str]:
        kernel = self.kernel
        parameters = [
            f"{'' if a in self.outs else 'const '}{a.stored} *__restrict__ {a.parameter}"
            for a in self.arrays
        ]
        parameters += [
            f"const {stored_type(one.dtype)} *__restrict__ {one.name}"
            for one in self.coefficients.values()
        ]
        parameters += [f"{C_TYPES[d.numpy.name]} k{k}" for k, (_, d) in enumerate(kernel.scalars)]
        return parameters + [
            f"{stored_type(dtype)} b{k}" for k, (dtype, _) in enumerate(self.constants)
        ]
