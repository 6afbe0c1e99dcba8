"""Making: what a thread does that makes several columns of several rows, wherever they come from.

t4 = x1 + x0.get(1);  t6 = x0.get(0) + x0.get(2);  ...       operations, one after the other
y0[0].w[0] = npt_word(t4, t6, ...)                           a row of a result, as it is stored
if (i1 < 1) o0[...] = b0; else o0[...] = y0[r].get(k);       or element by element, near an end
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...language.ir import Atom, Const, Element, Offset, Read
from .functions import Array, Function, copied, plus, stored
from .operations import C_TYPES
from .shapes import Part

# Elements of a chunk that are under way at once where each is loaded by itself.
FEW = 4


@dataclass
class Making(Function):
    """A function for `part`, which begins at `low`; `kernel` makes so many `rows` and `columns`.

    These are loaded and stored "together" or "apart".  Its outputs are those of the first point
    first, then those of the next in its row.
    """

    part: Part
    rows: int
    columns: int
    low: Offset
    how: str

    @property
    def ndim(self) -> int:
        """How many core axes there are."""
        return self.kernel.ndim

    def _written(self, array: Array) -> bool:
        return array in self.part.targets

    def _had(self, read: Read, own: str) -> str:
        """What is read, which is there, as a value of a machine type."""
        raise NotImplementedError

    # Where elements are.

    def _region(self, field: str, axis: int) -> tuple[int, int]:
        """How far beyond both ends of an axis a scratch array reaches; a field does not."""
        if field not in self.part.regions:
            return 0, 0
        low, high = self.part.regions[field]
        return low[axis], high[axis]

    def _at(self, field: str, axis: int, place: str) -> str:
        """A position of a field, or of a scratch array: one beyond its ends is mapped."""
        if field not in self.part.regions:
            return f"at{axis}({place}, n{axis})"
        low, high = self._region(field, axis)
        return f"npt_within({place}, {low}, {plus(f'n{axis}', high)})"

    # What is computed.

    def _body(self) -> list[str]:
        kernel = self.kernel
        lines: list[str] = []
        for assign in kernel.body:
            expr, name = assign.value, assign.name
            match expr:
                case Read():
                    own = self.operations.declare(name, expr)
                    text = self._had(expr, own)
                case Element():
                    own = self.operations.declare(name, expr)
                    text = self.element(expr.array, own, list(map(str, expr.index)))
                case _:
                    text = self.operations.text(name, expr)
                    own = self.operations.types[name]
            lines.append(f"const {C_TYPES[own]} {self.fresh(name)} = {text};")
        return [*lines, *self._results()]

    def _results(self) -> list[str]:
        """The rows of each output, as they are stored."""
        lines: list[str] = []
        columns, targets = self.columns, self.part.targets
        for position, target in enumerate(targets):
            made = f"npt_chunk<{target.stored}, {columns}> y{position}"
            lines.append(f"{made}[{self.rows}];")
            size = target.dtype.itemsize
            for row in range(self.rows):
                first = row * columns * len(targets) + position
                outputs = self.kernel.outputs[first :: len(targets)][:columns]
                where = f"y{position}[{row}]"
                if size < 4 <= size * columns:
                    bits = [self._bits(target, output) for output in outputs]
                    step = 4 // size
                    for word in range(columns // step):
                        parts = ", ".join(bits[word * step : (word + 1) * step])
                        lines.append(f"{where}.w[{word}] = npt_word({parts});")
                else:
                    for k, output in enumerate(outputs):
                        lines.append(f"{where}.e[{k}] = {self._element(target, output)};")
        return lines

    def _bits(self, target: Array, value: Atom) -> str:
        """A number whose lowest bits are those of a value as it is stored."""
        if target.dtype == np.float16:
            return f"{self._element(target, value)}.bits"
        return f"unsigned({self.operations.atom(value)})"

    def _element(self, target: Array, value: Atom) -> str:
        """A value as it is stored."""
        if isinstance(value, Const):
            return self.operations.atom(value, target.dtype.name)
        return stored(target.dtype, self.operations.machine(value), self.operations.atom(value))

    # What is stored.

    def _stored(self) -> list[str]:
        lines: list[str] = []
        for position, target in enumerate(self.part.targets):
            name = target.parameter
            lines.append(self._own(name, f"{target.stored} *const"))
            for row in range(self.rows):
                lead = (0,) * (self.ndim - 2) + ((row,) if self.ndim > 1 else ())
                step = self._away(name, lead, 0)
                vector = f"y{position}[{row}]"
                lines.append(f"npt_{self.how}<{self.columns}>(p_{name}{step}, {vector});")
        return lines

    def _own(self, name: str, kind: str) -> str:
        """The pointer to the thread's first element of an array."""
        places = [f"i{axis} * {name}_{axis}" for axis in range(self.ndim - 1)]
        return f"{kind} p_{name} = {name} + ({' + '.join([*places, f'i{self.ndim - 1}'])});"

    def _away(self, name: str, lead: Offset, column: int) -> str:
        """How far from that an element is."""
        text = ""
        for axis, step in enumerate(lead):
            if step:
                length = "" if abs(step) == 1 else f" * {abs(step)}"
                text += f" {'+' if step > 0 else '-'} {name}_{axis}{length}"
        return plus(text, column) if text or column else ""

    def _placed(self) -> list[str]:
        """Element by element, where there is one, and by the rules at the ends of outputs.

        One after the other, so that what few threads do takes few registers of all.
        """
        part, last = self.part, self.ndim - 1
        inner: list[str] = []
        for position, target in enumerate(part.targets):
            here = self._here(target)
            value = f"z{position}.get(0)"
            if part.reaches:
                reach, kept = part.reaches[position], partial(self._kept, position)
                inner += part.border.store(reach, target.dtype, here, value, kept)
            else:
                inner.append(f"{here} = {value};")
        tests = [f"i{last} < {plus(f'n{last}', part.high[last])}"]
        if self.low[last] < part.low[last]:
            tests.append(f"i{last} >= {part.low[last]}")
        rows = f"i{last - 1} < {plus(f'n{last - 1}', part.high[last - 1])}" if last else "true"
        above = [f"const npt_index i{last - 1} = j{last - 1} + r;"] if last else []
        first = [
            f"const npt_index j{axis} = i{axis};" for axis in range(max(0, last - 1), last + 1)
        ]
        numbers = range(len(part.targets))
        return [
            *first,
            "#pragma unroll",
            f"for (int r = 0; r < {self.rows}; r++) {{",
            *("  " + line for line in above),
            *(f"  auto z{k} = y{k}[r];" for k in numbers),
            "  #pragma unroll 1",
            f"  for (int k = 0; k < {self.columns}; k++) {{",
            f"    const npt_index i{last} = j{last} + k;",
            f"    if ({' && '.join([rows, *tests])}) {{",
            *("      " + line for line in inner),
            "    }",
            *(f"    z{k}.push({{}});" for k in numbers),
            "  }",
            "}",
        ]

    def _kept(self, position: int) -> str:
        """The value of the field in the place of an output."""
        name, dtype = self.kernel.fields[position]
        source = self._here(self.use(self.part.arrays[name]))
        return copied(self.part.targets[position].dtype, dtype, source)

    def _here(self, array: Array) -> str:
        return array.at([f"i{axis}" for axis in range(self.ndim)])


def indented(head: str, lines: Iterable[str]) -> list[str]:
    """Lines inside of a block that begins so."""
    return [head, *("  " + line for line in lines)]


def either(test: str, lines: Iterable[str], others: Iterable[str]) -> list[str]:
    """Some lines where this holds, and others elsewhere."""
    return [*indented(f"if ({test}) {{", lines), *indented("} else {", others), "}"]


def gathered(target: str, count: int, lines: Iterable[str], value: str) -> list[str]:
    """Load a chunk element by element, the k-th after these lines: few at once."""
    loop = f"for (int k = 0; k < {count}; k++) {{"
    return [f"#pragma unroll {FEW}", *indented(loop, [*lines, f"{target}.push({value});"]), "}"]
