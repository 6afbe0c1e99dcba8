"""Ranks of large windows of short integers: a histogram that slides along the row.

    median of x over 31 x 31, x of uint8:
        one column of 31 elements leaves the histogram and one enters it; the element of the
        wanted rank is found by counting, first in 16 coarse bins, then in 16 fine ones

Source: T. S. Huang, G. J. Yang and G. Y. Tang, "A fast two-dimensional median filtering
algorithm", IEEE Transactions on Acoustics, Speech and Signal Processing 27 (1), 1979.
"""

from __future__ import annotations

import numpy as np

from ...language.box import Box
from ...language.ir import Histogram
from .rows import RowFunction
from .window_loops import plus


def in_bins(stage: Histogram, storage: np.dtype) -> bool:
    """Whether each value has a bin of its own, and the window lies in a plane."""
    return storage.kind in "iu" and storage.itemsize <= 2 and len(stage.lines[0]) == 3


def bins(storage: np.dtype) -> tuple[int, int]:
    """How many bins the values of a type need, and how many bits a coarse bin covers."""
    bits = 1 if storage.kind == "b" else storage.itemsize * 8
    return 2**bits, bits // 2


def histogram_function(
    name: str,
    stage: Histogram,
    storage: np.dtype,
    fields: dict[str, str],
    reach: Box,
    column: int,
) -> RowFunction:
    """Write the function that finds the elements of these ranks at each point of a row.

    `fields` maps the names of the fields to those in the text.
    """
    count, shift = bins(storage)
    fine, coarse = f"fine_{name}", f"coarse_{name}"
    low = -(count // 2) if storage.kind == "i" else 0
    steps = [o - least for o, least in zip(stage.read.offset, reach.lo, strict=True)]
    height, width = len(stage.runs) or stage.shape[0], stage.shape[1]
    # Lane by lane, each along its own columns.
    lanes, whole = stage.lanes, stage.lanes == 1 and not stage.runs
    constants = _tables(name, stage)
    first = steps[-1] + column
    outer = [plus(f"i{axis}", step) for axis, step in enumerate(steps[:-2])]
    down = f"rows_{name}[d]" if stage.runs else "d"
    rows = [f"{plus('i', steps[-2])} + {down}"] if len(steps) > 1 else []
    array, place = fields[stage.read.field], ["b", *outer, *rows]

    def count_in(at: str, sign: str) -> list[str]:
        value = plus(f"i64({array}[{', '.join([*place, at])}])", -low)
        return [
            f"value = {value}",
            f"{fine}[value] {sign}= 1",
            f"{coarse}[value >> {shift}] {sign}= 1",
        ]

    if stage.runs:
        begin, end = (f"{table}[d]" for table in ("begins_" + name, "ends_" + name))
        leaves, enters = plus(f"j + {begin}", first), plus(f"j + {end}", first)
        columns = [plus(f"{begin} + c", first), plus(f"{end} + c", first), str(lanes)]
    else:
        leaves, enters = plus("j", first), plus("j", first + lanes * width)
        columns = [str(first), str(first + width)] if lanes == 1 else [
            plus("c", first), plus("c", first + lanes * width), str(lanes)
        ]  # fmt: skip
    lines = [
        f"{fine}[:] = 0",
        f"{coarse}[:] = 0",
        f"for d in range({height}):",
        f"    for k in range({', '.join(columns)}):",
        *_indented(count_in("k", "+"), 2),
        "for j in range(n):" if whole else f"for j in range(c, n, {lanes}):",
        f"    rest = {stage.rank}",
        "    value = 0",
        f"    while {coarse}[value] <= rest:",
        f"        rest -= {coarse}[value]",
        "        value += 1",
        f"    value = value << {shift}",
        f"    while {fine}[value] <= rest:",
        f"        rest -= {fine}[value]",
        "        value += 1",
        f"    o0[j] = {plus('value', low)}",
    ]
    if len(stage.names) == 2:
        lines += [
            f"    if {fine}[value] == rest + 1:",
            "        value += 1",
            f"        while {fine}[value] == 0:",
            "            value += 1",
            f"    o1[j] = {plus('value', low)}",
        ]
    lines += [
        f"    if j + {lanes} < n:",
        f"        for d in range({height}):",
        *_indented(count_in(leaves, "-"), 3),
        *_indented(count_in(enters, "+"), 3),
    ]
    if not whole:
        lines = [f"for c in range({lanes}):", *_indented(lines, 1)]
    places = ["b", *(f"i{axis}" for axis in range(len(steps) - 2)), "i"][: len(steps)]
    results = [f"o{k}" for k in range(len(stage.names))]
    arguments = [*fields.values(), *places, fine, coarse, *results, "n"]
    text = (f"def {name}({', '.join(arguments)}):", *_indented(lines, 1))
    buffers = ((fine, count, "int32"), (coarse, count >> shift, "int32"))
    return RowFunction(
        name, text, constants, (), (), buffers, loops=True, noalias=False, apart=(), overlap=()
    )


def _tables(name: str, stage: Histogram) -> tuple[str, ...]:
    """Where the runs of a window that is no box lie, begin and end."""
    tables = {
        "rows": [row for row, _, _ in stage.runs],
        "begins": [stage.lanes * first for _, first, _ in stage.runs],
        "ends": [stage.lanes * (first + length) for _, first, length in stage.runs],
    }
    if not stage.runs:
        return ()
    return tuple(
        f"{what}_{name} = np.array({held}, dtype=np.int64)" for what, held in tables.items()
    )


def _indented(lines: list[str], depth: int) -> list[str]:
    return ["    " * depth + line for line in lines]
