"""What all generated modules have in common: imports, functions of rows, tables.

import numpy as np

@row_function()
def v0_row(x_0, x_1, x_2, o0, n): ...

def band(x, out0):              the loops over rows, which `loops` writes
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..generated import Tables, is_table
from .expressions import LIBRARY, RESERVED
from .rows import RowFunction
from .window_loops import indented

# A name that is not an attribute.
_NAME = re.compile(r"(?<![\w.])\w+")


class Texts:
    """The row functions of one module, each of them once."""

    def __init__(self, fastmath: bool) -> None:
        self.fastmath = fastmath
        self._written: dict[tuple[str, ...], RowFunction] = {}

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

    def module(
        self, title: str, parameters: Sequence[str], band: Sequence[str], tables: Tables
    ) -> str:
        """The text of the module whose function `band` has these lines."""
        lines: list[str] = []
        for function in self._written.values():
            lines += self._lines(function)
        if numbers := tables.lines():
            lines += ["", "", *numbers]
        lines += ["", "", f"def band({', '.join(parameters)}):", *indented(band)]
        text = "\n".join(lines[1:]) + "\n"
        used = set(_NAME.findall(text))
        head = [f'"""{title}: written by ninepoint; changes made here are lost."""', ""]
        head += ["import math", ""] * ("math" in used) + ["import numpy as np", ""] * (
            "np" in used
        )
        if listed := ",\n    ".join(name for name in LIBRARY if name in used):
            head.append(f"from ninepoint.backends.llvm.library import (\n    {listed},\n)")
        return "\n".join([*head, "", text])

    def _lines(self, function: RowFunction) -> list[str]:
        """The text of a row function, after blank lines."""
        options = ["fastmath=True"] * self.fastmath
        if function.overlap:
            options.append(f"overlap={function.overlap}")
        constants = ["", "", *function.constants] if function.constants else []
        return [*constants, "", "", f"@row_function({', '.join(options)})", *function.lines]
