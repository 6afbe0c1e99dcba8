"""Halves: the body of a function whose thread makes two columns at once, one in each lane.

const unsigned t0 = npt_bytes<0, 0>(x0.w[0], x0.w[2]);       columns 0 and 8
const unsigned t8 = t0 + t1;                                 both sums
const int t20 = int(t8 & 0xffffu), t21 = int(t8 >> 16);      one by one, where it must be
y0[0].w[0] = npt_word_low(t30, t31);                         columns 0 to 3
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...language.ir import Assign, Atom, Element, Read, Ref, atoms
from .functions import Array
from .making import Making
from .operations import C_TYPES
from .packing import Lanes, Packed, both


@dataclass
class Halves(Making):
    """The body and the results of a thread, most of whose values are in lanes."""

    _names: dict[str, str] = field(default_factory=dict, init=False)
    _apart: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)

    @property
    def lanes(self) -> Lanes:
        """What is done in lanes."""
        raise NotImplementedError

    @property
    def half(self) -> int:
        """The columns of a lane."""
        return self.columns // 2

    def _pair(self, read: Read) -> str:
        """The elements of both lanes, each above the base of its type."""
        raise NotImplementedError

    def _one(self, read: Read, lane: int, own: str) -> str:
        """The element of one lane, as a value of a machine type."""
        raise NotImplementedError

    def _body(self) -> list[str]:
        lanes, lines = self.lanes, list[str]()
        packed = Packed(lanes, self._names)
        for assign in self.kernel.body:
            if assign.name not in lanes.bases:
                lines += self._both(assign)
                continue
            value = assign.value
            text = self._pair(value) if isinstance(value, Read) else packed.text(assign)
            name = self._names[assign.name] = self.fresh()
            lines.append(f"const unsigned {name} = {text};")
        return [*lines, *self._results()]

    def _both(self, assign: Assign) -> list[str]:
        """An operation that is done for each lane by itself."""
        expr, name, operations = assign.value, assign.name, self.operations
        lines: list[str] = []
        used = [atom for atom in atoms(expr) if isinstance(atom, Ref)]
        for atom in used:
            lines += self._taken(atom)
        found: list[str] = []
        for lane in range(2):
            operations.names |= {
                atom.name: self._apart[atom.name][lane]
                for atom in used
                if atom.name in self._apart
            }
            match expr:
                case Read():
                    own = operations.declare(name, expr)
                    text = self._one(expr, lane, own)
                case Element():
                    own = operations.declare(name, expr)
                    text = self.element(expr.array, own, list(map(str, expr.index)))
                case _:
                    text = operations.text(name, expr)
                    own = operations.types[name]
            found.append(self.fresh())
            lines.append(f"const {C_TYPES[own]} {found[-1]} = {text};")
        self._apart[name] = found[0], found[1]
        return lines

    def _taken(self, atom: Atom) -> list[str]:
        """Take a register apart, if that was not done before."""
        if not isinstance(atom, Ref) or atom.name in self._apart or atom.name not in self._names:
            return []
        name, base = self._names[atom.name], self.lanes.bases[atom.name]
        more = f" + {base}" if base > 0 else f" - {-base}" if base else ""
        low, high = self._apart[atom.name] = self.fresh(), self.fresh()
        self.operations.types[atom.name] = "int32"
        return [
            f"const int {low} = int({name} & 0xffffu){more};",
            f"const int {high} = int({name} >> 16){more};",
        ]

    def _results(self) -> list[str]:
        lines: list[str] = []
        targets = self.part.targets
        for position, target in enumerate(targets):
            kind = f"npt_chunk<{target.stored}, {self.columns}>"
            lines.append(f"{kind} y{position}[{self.rows}] = {{}};")
            for row in range(self.rows):
                first = row * self.half * len(targets) + position
                outputs = self.kernel.outputs[first :: len(targets)][: self.half]
                lines += self._row(target, f"y{position}[{row}]", outputs)
        return lines

    def _row(self, target: Array, where: str, outputs: tuple[Atom, ...]) -> list[str]:
        """A row of a result, as it is stored."""
        size, bases = target.dtype.itemsize, self.lanes.bases
        step = 4 // size if size < 4 else 0
        together = target.dtype.kind in "iu" and step and self.half % step == 0
        if together and all(isinstance(one, Ref) and one.name in bases for one in outputs):
            return self._words(target, where, outputs, step)
        lines: list[str] = []
        for k, output in enumerate(outputs):
            lines += self._taken(output)
            for lane in range(2):
                if isinstance(output, Ref) and output.name in self._apart:
                    self.operations.names[output.name] = self._apart[output.name][lane]
                text = self._element(target, output)
                lines.append(f"{where}.put({k + lane * self.half}, {text});")
        return lines

    def _words(self, target: Array, where: str, outputs: tuple[Atom, ...], step: int) -> list[str]:
        """Words of the lower lanes of some registers, and of the upper ones."""
        least = int(np.iinfo(target.dtype).min)
        values: list[str] = []
        for output in outputs:
            assert isinstance(output, Ref)
            more, name = self.lanes.bases[output.name] - least, self._names[output.name]
            values.append(f"{name} + {both(more)}" if more else name)
        sign = "" if not least else " ^ 0x80808080u" if step == 4 else " ^ 0x80008000u"
        lines: list[str] = []
        for k in range(0, self.half, step):
            given = ", ".join(values[k : k + step])
            for word, at in (("low", k), ("high", k + self.half)):
                lines.append(f"{where}.w[{at // step}] = npt_{word}({given}){sign};")
        return lines


def pair_text(first: tuple[str, int], last: tuple[str, int], dtype: np.dtype) -> str:
    """Elements of two words, at these places in them, above the base of their type."""
    (one, a), (other, b) = first, last
    if dtype.kind == "i":
        sign = "0x80808080u" if dtype.itemsize == 1 else "0x80008000u"
        one, other = f"{one} ^ {sign}", f"{other} ^ {sign}"
    word = "bytes" if dtype.itemsize == 1 else "shorts"
    return f"npt_{word}<{a}, {b}>({one}, {other})"
