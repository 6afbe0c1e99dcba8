"""Functions: those that a module's loops call for a row of a stage, or of the result.

import numpy as np

@row_function()
def v0_row(x_0, x_1, x_2, o0, n): ...

def band(x, out0):              the loops over rows, which `loops` writes
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from ...analysis.ranges import ranges
from ...analysis.rewrite import copied
from ...language.dtypes import short
from ...language.ir import (
    Assign,
    Binary,
    Histogram,
    Ref,
    RunningSum,
    State,
    Values,
    shifted,
)
from ...lowering.abreast import together
from ...lowering.kept import Kept
from ..generated import is_table
from .expressions import LIBRARY, RESERVED
from .layout import Layout, sum_text
from .points import indented
from .ranks import histogram_function, in_bins, selecting_function
from .rows import WORD, Made, RowFunction, row_function


class Functions(Layout):
    """The functions of a kernel, each of them once."""

    def write(self) -> None:
        """Write those that make a row, of each stage and of the result, and those for several."""
        self._written: dict[tuple[str, ...], RowFunction] = {}
        self.functions = [tuple(map(self._once, self._stage_functions(one))) for one in self.kept]
        body, values = self.kernel.body, self.kernel.outputs
        final = Made("band_row", body, values, every=self.every[-1])
        self.final = self._once(self._result_function(final))
        self.several = [None if one is None else self._once(one) for one in self._several()]

    def text(self, title: str, parameters: Sequence[str], band: Sequence[str], how: str) -> str:
        """The text of the module with this `band`; `how` says how rows are compiled."""
        lines: list[str] = []
        for function in self._written.values():
            lines += ["", "", *function.constants] if function.constants else []
            options = [how] * bool(how)
            if function.overlap:
                options.append(f"overlap={function.overlap}")
            lines += ["", "", f"@row_function({', '.join(options)})", *function.lines]
        if numbers := self.expressions.tables.lines():
            lines += ["", "", *numbers]
        lines += ["", "", f"def band({', '.join(parameters)}):", *indented(band)]
        text = "\n".join(lines[1:]) + "\n"
        used = set(WORD.findall(text))
        head = [f'"""{title}: written by ninepoint; changes made here are lost."""', ""]
        head += ["import math", ""] * ("math" in used)
        head += ["import numpy as np", ""] * ("np" in used)
        if listed := ",\n    ".join(name for name in LIBRARY if name in used):
            head.append(f"from ninepoint.backends.llvm.library import (\n    {listed},\n)")
        return "\n".join([*head, "", text])

    def _once(self, function: RowFunction) -> RowFunction:
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

        key = tuple(WORD.sub(anonymous, line) for line in function.lines)
        first = self._written.setdefault(key, function)
        return function if first is function else replace(function, name=first.name)

    def _stage_functions(self, kept: Kept) -> tuple[RowFunction, ...]:
        """The function that makes a row; for a running sum there are two."""
        stage = kept.stage
        name = f"{self.names[stage.names[0]]}_row"
        match stage:
            case Values() | State():
                return (row_function(Made(name, stage.body, stage.values), self),)
            case Histogram():
                if in_bins(stage, dict(self.kernel.fields)[stage.read.field]):
                    return (histogram_function(name, stage, self, kept.low[-1]),)
                return (self._selecting(name, stage, kept),)
            case RunningSum():
                return self._running(stage)
            case _:
                assert_never(stage)

    def _selecting(self, name: str, stage: Histogram, kept: Kept) -> RowFunction:
        every, rows = 1, "1"
        if self.kernel.ndim > 1:
            # Up to which row the stage is made, counted as those of the result.
            rows = sum_text(self.ends_at(kept, -2, True))
            if self.axis == -2 and not self.rolled:
                every = self.every[-2]
        size = rows, self.columns(kept)
        return selecting_function(name, stage, self, kept.low[-1], size, every)

    def _running(self, stage: RunningSum) -> tuple[RowFunction, ...]:
        """The function that adds a row to a sum, and the one that also takes one away."""
        name, body, kind = stage.name, stage.body, stage.value.dtype
        text = self.names[name]
        self.expressions.types[name] = self.stage_type(name)
        # The row that goes: the same operations, on the row before the first.
        up = (*(0,) * (self.kernel.ndim - 2), -stage.rows, 0)
        leaving, (gone,) = copied(
            body, (stage.value,), lambda own, _: f"{own}_out", lambda expr: shifted(expr, up)
        )
        pairs = zip(leaving, body, strict=True)
        self.known |= {new.name: self.known[old.name] for new, old in pairs}
        added = Assign(f"{name}_in", Binary(kind, "+", Ref(kind, name), stage.value))
        taken = Assign(f"{name}_next", Binary(kind, "-", Ref(kind, added.name), gone))
        self.known |= dict.fromkeys((added.name, taken.name), self.known[name])
        functions = (("_add", (*body, added)), ("_move", (*body, *leaving, added, taken)))
        return tuple(
            row_function(Made(text + word, lines, (Ref(kind, lines[-1].name),), name), self)
            for word, lines in functions
        )

    def _several(self) -> list[RowFunction | None]:
        """The functions that make several rows at once: of each stage, and of the result.

        None where one row after the other is better.
        """
        if self.kernel.rows == 1:
            return []
        several: list[RowFunction | None] = []
        for kept in self.kept:
            name = self.names[kept.stage.names[0]]
            one = Made(name, kept.stage.body, kept.stage.values)
            made = self._rows_at_once(one, f"{name}_r")
            several.append(None if made is None else row_function(made, self))
        last = self._rows_at_once(Made("band", self.kernel.body, self.kernel.outputs), "r")
        return [*several, None if last is None else self._result_function(last)]

    def _rows_at_once(self, one: Made, prefix: str) -> Made | None:
        """Several rows of a stage or of the result, whose operations' names begin so."""
        written, _ = together(replace(self.kernel, body=one.body, outputs=one.values), prefix)
        if written is None:
            return None
        self.known |= ranges(written)
        return Made(f"{one.name}_rows", written.body, written.outputs)

    def _result_function(self, made: Made) -> RowFunction:
        """The function of a row of the result, or of several, those of the first row first."""
        shorts = [short(dtype) for dtype in self.dtypes] if self.converts else []
        stores = tuple(one.store if one else "" for one in shorts)
        rows = len(made.values) // len(self.outs)
        return row_function(replace(made, stores=stores * rows), self)
