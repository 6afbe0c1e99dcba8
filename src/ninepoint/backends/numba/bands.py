"""What all generated modules have in common: imports, functions of rows, buffers that hold rows.

import numpy as np

@row_function(noalias=True)
def v0_row(x_0, x_1, o0, n): ...

def band(x, out0): ...          the loops over rows, which `loops` and `steps` write
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...analysis.ranges import Interval, ranges
from ...language.box import Box
from ...language.ir import Kernel, Offset
from ...lowering.kept import Kept, kept_stages, rolling_axis
from ...lowering.machine import machine_type
from ..generated import is_table
from .control import NOTES
from .expressions import LIBRARY, RESERVED, Expressions, as_tuple, kernel_names
from .rows import RowFunction
from .window_loops import indented, plus

# A name that is not an attribute.
_NAME = re.compile(r"(?<![\w.])\w+")


def heading(title: str, text: str, names: Mapping[str, Sequence[str]]) -> list[str]:
    """The first lines of a generated module: imports of what `text` uses.

    `names` are those that it may use of each module.
    """
    used = set(_NAME.findall(text))
    lines = [f'"""{title}"""', ""]
    if "math" in used:
        lines += ["import math", ""]
    if "np" in used:
        lines += ["import numpy as np", ""]
    for module, known in names.items():
        if listed := ",\n    ".join(name for name in known if name in used):
            lines.append(f"from ninepoint.backends.{module} import (\n    {listed},\n)")
    return [*lines, ""]


class Band(ABC):
    """Writes the module of a kernel; planes of its stages roll along one axis.

    Row i of the result is made right after the last row of each stage that it needs.
    """

    def __init__(self, kernel: Kernel, reach: Box) -> None:
        self.kernel = kernel
        self.reach = reach
        self.known: dict[str, Interval] = ranges(kernel)
        self.names = {**kernel_names(kernel), NOTES: "notes"}
        self.expressions = Expressions(
            self.known,
            {name: machine_type(dtype, self.known[name]) for name, dtype in kernel.scalars},
            {name: self.names[name] for name, _ in kernel.scalars},
        )
        # Of a turn that makes several rows each stage keeps as many more.
        kept = kept_stages(kernel)
        self.kept = tuple(replace(one, count=one.count + kernel.rows - 1) for one in kept)
        self.axis = rolling_axis(kernel)
        # The names of the indices along all axes but the last.
        self.indices = [*(f"i{axis}" for axis in range(kernel.ndim - 2)), "i"][: kernel.ndim - 1]
        # Those of the loops that are around all that rolls: a kernel of one axis has no rows.
        self.outer = self.indices[: len(self.indices) + self.axis + 2]
        self.by_name = {name: kept for kept in self.kept for name in kept.stage.names}
        self.constant = constant_in_rows(kernel)
        self.outs = [f"out{k}" for k in range(len(kernel.outputs))]
        self._written: dict[tuple[str, ...], RowFunction] = {}

    @property
    def warm(self) -> int:
        """How many planes are made before the first of the result."""
        return max((kept.warm for kept in self.kept), default=0)

    @abstractmethod
    def stage_type(self, name: str) -> str:
        """The machine type of what is kept of a stage."""

    def item_size(self, name: str) -> int:
        """The bytes of an element of a stage."""
        return np.dtype(self.stage_type(name)).itemsize

    @property
    def bytes_kept(self) -> int:
        """The bytes of stages that are kept for each column."""
        return sum(kept.count * self.item_size(name) for name, kept in self.by_name.items())

    def text(
        self,
        title: str,
        fastmath: bool,
        band: Sequence[str],
        tables: Sequence[str] = (),
        notes: bool = False,
    ) -> str:
        """The text of the module, which is given `tables` of borders, and maybe `notes`."""
        kernel, names = self.kernel, self.names
        parameters = [
            *(names[n] for n, _ in kernel.fields),
            *self.outs,
            *(names[n] for n, *_ in kernel.coefficients),
            *tables,
            *(names[n] for n, _ in kernel.scalars),
            *["notes"] * notes,
        ]
        lines: list[str] = []
        for function in self._written.values():
            lines += _function_lines(function, fastmath)
        if numbers := self.expressions.tables.lines():
            lines += ["", "", *numbers]
        lines += ["", "", f"def band({', '.join(parameters)}):", *indented(band)]
        text = "\n".join(lines[1:]) + "\n"
        title += ": written by ninepoint; changes made here are lost."
        return "\n".join([*heading(title, text, {"llvm.library": LIBRARY}), text])

    def once(self, function: RowFunction) -> RowFunction:
        """The function, under the name of one that does the same if there is one already.

        The same but for names: the steps of an iteration differ in nothing else.
        """
        if function.constants or function.buffers:
            self._written[function.lines] = function
            return function
        known: dict[str, str] = {}

        def anonymous(word: re.Match[str]) -> str:
            name = word.group()
            own = name in RESERVED or is_table(name)
            if name[0].isdigit() or (own and name != function.name):
                return name
            return known.setdefault(name, f"_{len(known)}")

        key = tuple(_NAME.sub(anonymous, line) for line in function.lines)
        first = self._written.setdefault(key, function)
        return function if first is function else replace(function, name=first.name)

    # Places.

    def length(self, axis: int) -> str:
        """The length of the result along an axis, counted from the last, which is -1."""
        return f"out0.shape[{self.kernel.ndim + axis + 1}]"

    def ring(self, kept: Kept, row: Offset) -> str:
        """Where a stage keeps the plane of a row that is `row` from the result's."""
        if kept.count == 1:
            return "0"
        turn = plus(self.indices[self.axis + 1], row[self.axis + 1] - kept.low[self.axis])
        return f"({turn}) % {kept.count}" if " " in turn else f"{turn} % {kept.count}"

    def call(
        self,
        function: RowFunction,
        rows: Sequence[str],
        place: Offset,
        results: Sequence[str],
        columns: str,
    ) -> str:
        """Call a row function for the row of what it makes that is `place` from the result's."""
        arguments = list(rows)
        if function.loops:
            arguments += [self.names[n] for n, _ in self.kernel.fields]
            arguments += ["b", *(plus(i, a) for i, a in zip(self.indices, place, strict=False))]
            arguments += [buffer for buffer, _, _ in function.buffers]
        arguments += [*results, columns, *function.given]
        arguments += [self.names[n] for n in function.others]
        return f"{function.name}({', '.join(arguments)})"


def _function_lines(function: RowFunction, fastmath: bool) -> list[str]:
    """The text of a row function, after blank lines."""
    options = ["noalias=True"] * function.noalias + ["fastmath=True"] * fastmath
    if function.apart:
        options.append("apart=" + as_tuple([f'"{name}"' for name in function.apart]))
    if function.overlap:
        options.append(f"overlap={function.overlap}")
    constants = ["", "", *function.constants] if function.constants else []
    return [*constants, "", "", f"@row_function({', '.join(options)})", *function.lines]


def constant_in_rows(kernel: Kernel) -> frozenset[str]:
    """The fields that are constant along a row: positions along another axis."""
    labels = kernel.fields[len(kernel.fields) - len(kernel.positions) :]
    pairs = zip(labels, kernel.positions, strict=True)
    return frozenset(name for (name, _), one in pairs if one.axis < kernel.ndim - 1)
