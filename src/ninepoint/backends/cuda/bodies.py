"""Bodies: what is computed at a point, written in the loop language and printed as C++.

    t2 = x[0, 1] + x[0, -1]    ->    t2 = i32(t0 + t1)    ->    const int t5 = t3 + t4;

The text of an operation is that of the CPU; only its integers have 32 bits at least.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

import numpy as np

from ...analysis.ranges import Interval
from ...language.dtypes import DType, computed
from ...language.ir import Assign, Atom, Binary
from ...loops.reading import functions_of, read
from ...lowering.typed import Node, called
from ..numba.expressions import Expressions
from .memory import C_TYPES, Local, Memory, loaded
from .printing import Printer, number

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


@dataclass
class Names:
    """The names of one function of a text, and its tables of constants."""

    prefix: str
    tables: list[str] = field(default_factory=list)
    _values: int = 0
    _constants: int = 0

    def fresh(self) -> str:
        """A name that nothing else has."""
        self._values += 1
        return f"t{self._values - 1}"

    def table(self, values: np.ndarray) -> Local:
        """An array of constants."""
        machine = values.dtype.name
        self._constants += values.nbytes
        name = f"{self.prefix}_table{len(self.tables)}"
        room = "__constant__" if self._constants <= _CONSTANT else "__device__"
        texts = [number(machine, one) for one in values.ravel().tolist()]
        listed = ",\n  ".join(", ".join(texts[k : k + 8]) for k in range(0, len(texts), 8))
        head = f"{room} const {C_TYPES[machine]} {name}[{len(texts)}]"
        self.tables.append(f"{head} = {{\n  {listed}\n}};")
        return Local(name, values.dtype, values.shape)


class Body(Expressions):
    """The text of a body; `types` are those of what is there, `scalars` their names in C++."""

    least = 32
    vectors = False

    def __init__(
        self,
        known: dict[str, Interval],
        types: dict[str, str],
        scalars: Mapping[str, str],
        names: Names,
    ) -> None:
        text = {name: f"{parameter}_number" for name, parameter in scalars.items()}
        super().__init__(known, types, text)
        self.own = names
        self.lines: list[str] = []
        # Lines of the loop language's constants, and of C++ before all else.
        self.constants: list[str] = []
        self.front: list[str] = []
        # What there is, with its machine type and its name in C++; arrays also with their axes.
        self._given = {text[name]: (types[name], one) for name, one in scalars.items()}
        self._indices: set[str] = set()
        self._arrays: dict[str, tuple[str, int, Memory]] = {}
        self._results: dict[str, tuple[str, str]] = {}
        self._made = 0

    def take(self, name: str, machine: str, text: str) -> None:
        """Give a value, of which there is a text in C++, a name."""
        own = self.own.fresh()
        self.front.append(f"const {C_TYPES[machine]} {own} = {text};")
        self.types[name] = machine
        self._given[name] = machine, own

    def constant(self, parameter: str, dtype: np.dtype) -> str:
        """The name of a constant that the function is called with."""
        machine = computed(dtype).name
        self._given[parameter] = machine, loaded(machine, dtype, parameter)
        return parameter

    def index(self, name: str) -> str:
        """The name of a position, which is the same in C++."""
        self._given[name] = "int64", name
        self._indices.add(name)
        return name

    def memory(self, array: Memory, ndim: int) -> str:
        """The name of an array."""
        name = f"{array.name}_array"
        self._arrays[name] = computed(array.dtype).name, ndim, array
        return name

    def new(self, word: str) -> str:
        """A name of the text that nothing else has."""
        self._made += 1
        return f"{word}_{self._made}_own"

    def result(self, atom: Atom, machine: str = "") -> str:
        """The name in C++ of a value, in a machine type, once the body is printed."""
        return self.kept(self.atom(atom, machine or None), machine or self.machine(atom))

    def kept(self, text: str, machine: str) -> str:
        """The same of a text of the loop language."""
        name, own = self.new("result"), self.own.fresh()
        self._results[name] = machine, own
        self.lines.append(f"{name}[0] = {text}")
        return own

    def printed(self) -> list[str]:
        """All of it as C++."""
        arguments = ", ".join((*self._given, *self._arrays, *self._results))
        text = [*self.constants, *self.tables.lines(), f"def band({arguments}):"]
        text += ["    " + line for line in self.lines or ["pass"]]
        types = [(machine, 0) for machine, _ in self._given.values()]
        types += [(machine, ndim) for machine, ndim, _ in self._arrays.values()]
        types += [(machine, 1) for machine, _ in self._results.values()]
        known = {"nan": float("nan"), "inf": float("inf")}
        module = read("\n".join(text), _library(), known, types)
        arrays = {name: one for name, (_, _, one) in self._arrays.items()}
        arrays |= {name: self.own.table(values) for name, values in module.tables}
        names = {name: own for name, (_, own) in self._given.items()}
        results = {name: own for name, (_, own) in self._results.items()}
        printer = Printer(names, self._indices, arrays, results, self.own.fresh)
        return [*self.front, *printer.lines(module.function("band").body)]

    def assign(self, assign: Assign) -> None:
        """An operation that takes atoms only."""
        self.lines.append(f"{assign.name} = {self.text(assign.name, assign.value)}")

    def _fetched(self, node: Node) -> Node:
        """A number stands where it is used."""
        return node

    def _float_extreme(self, expr: Binary, left: Node, right: Node) -> Node:
        if expr.loose and expr.dtype is DType.F32:
            return called("lesser" if expr.op == "minimum" else "greater", left, right)
        return super()._float_extreme(expr, left, right)


def _library() -> Mapping[str, ast.FunctionDef]:
    folder = resources.files("ninepoint.backends.llvm")
    library = functions_of(folder.joinpath("library.py").read_text(encoding="utf-8"))
    own = functions_of(_OWN + "".join(_AT.format(axis) for axis in range(9)))
    return {**library, **own}
