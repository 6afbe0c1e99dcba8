"""Borders in a kernel's text: where a neighbour beyond the ends comes from, and what is written.

mirror      at1(i1 - 1, n1)                     the position that stands there
constant    a1m1 < 0 ? b0 : f0[a1m1 * f0_1]     no position: a constant of the text
fill        if (i1 < 1) o0[...] = b1; else ...  where a result has no neighbour
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...language.box import Box
from ...lowering.chain import Constant

# Rules under which there is nothing beyond the ends; what is computed from it is discarded.
_ABSENT = ("fill", "keep", "valid")


@dataclass(frozen=True, slots=True)
class Border:
    """The rule before and after each core axis, and the text's constants for them."""

    rules: tuple[tuple[str, str], ...]
    constants: tuple[Constant, ...]

    def constant(self, dtype: np.dtype, rule: str) -> str:
        """The name of the constant of a type."""
        asked = [(one, str(wanted)) for _, one, wanted in self.constants]
        return f"b{asked.index((dtype, rule))}"

    def absent(self, axis: int) -> bool:
        """Whether a position beyond an end of an axis may be -1, which stands for the constant."""
        return "constant" in self.rules[axis]

    def leaves_out(self, reach: Box) -> bool:
        """Whether results that look so far are left out near the ends."""
        looks = zip(reach.lo, reach.hi, self.rules, strict=True)
        return any(
            (low < 0 and rules[0] in _ABSENT) or (high > 0 and rules[1] in _ABSENT)
            for low, high, rules in looks
        )

    def maps(self) -> list[str]:
        """The functions at0, at1, ... that find what stands at a position along each axis."""
        return [line for axis in range(len(self.rules)) for line in self._map(axis)]

    def _map(self, axis: int) -> list[str]:
        before, after = ("nearest" if one in _ABSENT else one for one in self.rules[axis])
        return [
            f"NPT npt_index at{axis}(npt_index i, npt_index n) {{",
            f"  return i < 0 ? npt_{before}(i, n) : i < n ? i : npt_{after}(i, n);",
            "}",
        ]

    def store(
        self, reach: Box, dtype: np.dtype, target: str, value: str, kept: Callable[[], str]
    ) -> list[str]:
        """Write an output that looks so far, at the point i0, i1, ... of n0, n1, ....

        `kept` gives what the rule "keep" keeps.
        """
        skipped: list[str] = []
        cases: list[tuple[str, str]] = []
        for axis, rules in enumerate(self.rules):
            low, high = reach.lo[axis], reach.hi[axis]
            tests = (f"i{axis} < {-low}", f"i{axis} >= n{axis} - {high}")
            for rule, test, looks in zip(rules, tests, (low < 0, high > 0), strict=True):
                if not looks:
                    continue
                if rule == "valid":
                    skipped.append(test)
                elif rule in _ABSENT:
                    instead = self.constant(dtype, "fill") if rule == "fill" else kept()
                    cases.append((test, instead))
        # At a corner the first axis decides, and its beginning over its end.
        otherwise = ["", *["else "] * len(cases)]
        lines = [
            f"{word}if ({test}) {target} = {text};"
            for word, (test, text) in zip(otherwise, cases, strict=False)
        ]
        lines.append(f"{otherwise[-1]}{target} = {value};")
        if not skipped:
            return lines
        return [f"if (!({' || '.join(skipped)})) {{", *("  " + s for s in lines), "}"]


def border_of(
    rules: Sequence[tuple[str, str]], fields: Sequence[np.dtype], outs: Sequence[np.dtype]
) -> Border:
    """The border of a kernel by itself, with a constant for each type that needs one."""
    sides = {side for pair in rules for side in pair}
    constants: list[Constant] = []
    if "constant" in sides:
        constants += [(0, dtype, "constant") for dtype in dict.fromkeys(fields)]
    if "fill" in sides:
        constants += [(0, dtype, "fill") for dtype in dict.fromkeys(outs)]
    return Border(tuple((before, after) for before, after in rules), tuple(constants))
