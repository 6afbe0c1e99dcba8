"""Ends: what the text of a strip does where an array ends.

beyond a field        the position that stands there, where the field is loaded
beyond a state        what the rule has there, put into the ring when a row is made
a point left out      t9 = column < 1 ? b0 : t8
"""

from __future__ import annotations

from collections.abc import Callable

from ...lowering.chain import Absent
from .printing import C_TYPES
from .rings import NOTHING, Ring
from .strip import Strip

# The rules that find a place in the array, or none; others may have any there.
_MAPS = ("reflect", "mirror", "wrap", "constant")


def map_lines(strip: Strip) -> list[str]:
    """The structs that find what stands at a position, one for each pair of rules."""
    pairs = [pair for rules in strip.borders for pair in rules]
    pairs += [strip.fallback(axis) for axis in range(2)]
    lines: list[str] = []
    for before, after in dict.fromkeys(map(_mapped, pairs)):
        lines += [
            f"struct {map_name((before, after))} {{",
            f"  static const bool NEAR = {'true' if after == 'nearest' else 'false'};",
            "  static NPT npt_index from(npt_index i, npt_index n) {",
            f"    return i < 0 ? npt_{before}(i, n) : i < n ? i : npt_{after}(i, n);",
            "  }",
            "};",
        ]
    return lines


def map_name(pair: tuple[str, str]) -> str:
    """The struct for the rules before and after an axis."""
    before, after = _mapped(pair)
    return f"npt_{before}_{after}"


def _mapped(pair: tuple[str, str]) -> tuple[str, str]:
    before, after = (rule if rule in _MAPS else "nearest" for rule in pair)
    return before, after


def instead(
    strip: Strip,
    absent: Absent,
    row: str,
    value: str,
    filled: Callable[[str], str],
    kept: Callable[[str], str],
) -> str:
    """The value of a point in this row, or what stands there if it is left out.

    `filled` and `kept` give the text for a constant, and for what an array has at the point.  At
    a corner the first axis decides, and its beginning over its end.
    """
    chosen: list[tuple[str, str]] = []
    for axis in range(2):
        place, length = ("column", "m") if axis else (row, "n")
        low, high = strip.left_out(absent, axis)
        tests = (f"{place} < {low}", f"{place} >= {length} - {high}")
        for rule, far, test in zip(
            strip.rule(absent.border, axis), (low, high), tests, strict=True
        ):
            if far:
                keeps = rule == "keep"
                other = kept(absent.before) if keeps else filled(strip.constant(absent.constant))
                chosen.append((test, other))
    for test, other in reversed(chosen):
        value = f"{test} ? {other} : {value}"
    return value


def beyond(
    strip: Strip, beyond: tuple[int, int], ring: Ring, name: str, machine: str
) -> list[str]:
    """Put beyond the ends of a ring's newest row, and of its rows, what the rule has there."""
    border, number = beyond
    columns, kind = strip.columns, C_TYPES[machine]
    rows, sides = (strip.rule(border, axis) for axis in range(2))
    asked = "constant" in (*rows, *sides)
    value = f", npt_as<{kind}>::from({strip.constant(number)})" if asked else ""
    lines: list[str] = []
    if _is_put(sides):
        lines += [
            f"if (!inner) npt_columns<{map_name(sides)}, {columns}, {ring.before}>(",
            f"    {name}[{ring.count - 1}], reinterpret_cast<{kind} *>(held[threadIdx.y]), start, "
            f"m{value});",
        ]
    if _is_put(rows):
        fetched = ring.count - 1 + ring.fetched
        numbers = f"{columns}, {ring.before}, {ring.after}, {fetched}"
        lines.append(f"npt_rows<{map_name(rows)}, {numbers}>({name}, at, n{value});")
    return lines


def _is_put(rules: tuple[str, str]) -> bool:
    """Whether rules have something beyond; what "wrap" has there is computed as all else is."""
    return "wrap" not in rules and bool(set(rules) - set(NOTHING))
