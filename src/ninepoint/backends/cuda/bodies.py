"""Bodies: what is computed at a point, written in the loop language and printed as C++.

    t2 = x[0, 1] + x[0, -1]    ->    t2 = i32(t0 + t1)    ->    const int t5 = t3 + t4;

The text of an operation is that of the CPU; only its integers have 32 bits at least.  So is that
of a loop over a window, for what is neither staged nor written out:

median of x over 31 x 31   ->   for (int bit = 0; bit < 8; bit++)
                                  for (int d0 = 0; d0 < 31; d0++)
                                    for (int d1 = 0; d1 < 31; d1++)
                                      below += x[i0 + d0][i1 + d1] < trial; ...

Floats are added in the same order.  Only an element of some rank is found bit by bit: a thread
has no memory for all elements, but can count those below a number.

Every name in a text is the compiler's own: fields are f0, f1, ..., stages v0, ..., outputs o0,
..., coefficients c0, ..., scalars k0, ..., constants of fields and outputs b0, ..., and values
t0, ....
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...analysis.ranges import Interval
from ...language.dtypes import computed
from ...language.ir import Atom, Binary, DType, Kernel, Offset
from ...loops.nodes import SHORT
from ...loops.reading import functions_of, read
from ...lowering.windows import ordered_by, quantile_position
from ..llvm import library
from ..numba.points import Point, Window
from .printing import C_TYPES, Array, Local, Printer, loaded, number

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

# The element of some rank, found bit by bit, by counting the elements below a number.
_OF_RANK = """
$key = $word(0)
for $bit in range($bits):
    $trial = $word($key | $word(i64(1) << ($last - $bit)))
    $below = i32(0)
    for all:
        $below = i32($below + i32($element < $trial))
    $key = $trial if $below <= $low else $key
"""

# The next one.
_AND_NEXT = """
$upto = i32(0)
$above = $word($most)
for all:
    $one = $element
    $upto = i32($upto + i32($one <= $key))
    $above = $one if ($one > $key) & ($one < $above) else $above
$above = $key if $upto > $low + 1 else $above
"""

_STRANGE = """
$strange = False
for all:
    $strange = $strange | ($item != $item)
$at = 0 if $strange else 1
"""

_VALID = """
$at = 0
for all:
    $at += 1 if $item == $item else 0
"""


class Body(Point):
    """What is computed at a point by a function of this name, of which nothing is written yet.

    `storage` are the types of fields and coefficients, and `read` gives an element of a field, so
    far along each axis and further along some.
    """

    least = 32

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        known: Mapping[str, Interval],
        storage: Mapping[str, np.dtype],
        read: Any,
    ) -> None:
        super().__init__(dict(known), {}, storage)
        self.name, self.printer, self._read = name, Printer(), read
        self.lines = list[str]()
        # What is given by name: of which machine type, and with how many axes.
        self._given = dict[str, tuple[str, int]]()
        # Texts of arrays of constants, of so many bytes.
        self.tables, self._bytes = list[str](), 0
        for k, (scalar, dtype) in enumerate(kernel.scalars):
            self.take(scalar, dtype.numpy.name, f"k{k}")

    def element(self, field: str, origin: Offset, along: Mapping[int, str]) -> str:
        text: str = self._read(field, origin, along)
        return text

    def take(self, name: str, machine: str, text: str) -> str:
        """Give a value, of which there is a text in C++, a name."""
        self.types[name] = machine
        self._given[name], self.printer.names[name] = (machine, 0), text
        return name

    def beyond(self, array: Array) -> str:
        """The name of the constant that stands beyond the ends of a field."""
        machine = computed(array.dtype).name
        return self.take(array.beyond, machine, loaded(machine, array.dtype, array.beyond))

    def index(self, name: str) -> str:
        """The name of a position, which is the same in C++."""
        self.printer.indices.add(name)
        return self.take(name, "int64", name)

    def memory(self, name: str, array: Array | Local, ndim: int) -> None:
        """Give an array, with so many axes, a name."""
        self._given[name] = computed(array.dtype).name, ndim
        self.printer.arrays[name] = array

    def result(self, atom: Atom) -> str:
        """The name in C++ of a value, once the body is printed."""
        name = f"result_{len(self._given)}_own"
        self._given[name] = self.machine(atom), 1
        self.lines.append(f"{name}[0] = {self.atom(atom)}")
        return self.printer.named(name)

    def printed(self) -> list[str]:
        """All of it as C++."""
        text = [*self.constants, f"def band({', '.join(self._given)}):"]
        text += ["    " + line for line in self.lines or ["pass"]]
        known, types = {"nan": float("nan"), "inf": float("inf")}, list(self._given.values())
        own = _OWN + "".join(_AT.format(axis) for axis in range(9))
        functions = {**functions_of(inspect.getsource(library)), **functions_of(own)}
        module = read("\n".join(text), functions, known, types)
        for name, values in module.tables:
            self.printer.arrays[name] = self._constants(values)
        return self.printer.lines(module.function("band").body)

    def _constants(self, values: np.ndarray) -> Local:
        """An array of constants."""
        machine = values.dtype.name
        self._bytes += values.nbytes
        name = f"{self.name}_table{len(self.tables)}"
        room = "__constant__" if self._bytes <= _CONSTANT else "__device__"
        texts = [number(machine, one) for one in values.ravel().tolist()]
        listed = ",\n  ".join(", ".join(texts[k : k + 8]) for k in range(0, len(texts), 8))
        head = f"{room} const {C_TYPES[machine]} {name}[{len(texts)}]"
        self.tables.append(f"{head} = {{\n  {listed}\n}};")
        return Local(name, values.dtype, values.shape)

    def ranked(self, window: Window) -> list[str]:
        reduce, item = window.reduce, window.item
        machine = self.machine(reduce.result)
        element = f"({item} if {item} == {item} else {SHORT[machine]}(inf))"
        gathered, two = _VALID, reduce.kind != "nanrank"
        if reduce.kind == "quantile":
            if ordered_by(reduce):
                # As it is stored an element has fewer bits to count by.
                item = reduce.body[0].name
                machine = self.types[item]
                window = replace(window, item=item, known=self.known[item])
            element, gathered = item, _STRANGE * window.known.nan
            two = quantile_position(window.count, reduce.quantile)[1] > 0
        return _of_rank(window, machine, element, gathered, two)

    def _float_extreme(self, expr: Binary, left: str, right: str) -> str:
        if expr.loose and expr.dtype is DType.F32:
            return f"{'lesser' if expr.op == 'minimum' else 'greater'}({left}, {right})"
        return super()._float_extreme(expr, left, right)


def _of_rank(window: Window, machine: str, element: str, gathered: str, two: bool) -> list[str]:
    """Lines that find the element of some rank, and the next one if `two` are wanted.

    Elements are counted by numbers that are not negative, in the same order, of which the last
    bits are all that count.
    """
    width = bits = max(32, np.dtype(machine).itemsize * 8)
    short, program = f"u{width}", _OF_RANK + _AND_NEXT.lstrip() * two
    key, value = f"key_{machine}({element})", f"keyed_{machine}({{}})"
    if not machine.startswith("float"):
        low, high = map(int, window.known.ends)
        bits, least = (high - low).bit_length(), low % 2**width
        key, value = f"{short}({element})", f"{SHORT[machine]}({{}} + {short}({least}))"
        if least:
            key = f"{short}({key} - {short}({least}))"
    words = {"word": short, "bits": bits, "last": bits - 1, "most": 2**width - 1, "element": key}
    above = value.format("$above" if two else "$key")
    return window.ranked(gathered, program, value.format("$key"), above, **words)
