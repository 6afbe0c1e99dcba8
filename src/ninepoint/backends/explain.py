"""What a compiled kernel looks like, in words."""

from __future__ import annotations

import math

import numpy as np

from ..analysis.footprint import extents
from ..analysis.ranges import Interval, ranges
from ..language.box import Box
from ..language.ir import Kernel, Ref
from .cpu import Compiled
from .pipeline import Stages


def explanation(name: str, compiled: Compiled, stages: Stages | None, reason: str) -> str:
    """Tell which path a kernel took, where it looks, and what its numbers are."""
    lines = [f"{name}: {_types(compiled)}"]
    if stages is None:
        lines.append(f"  path        general, because of {reason}")
        lines.append("              each read is mapped and checked; write it without, and")
        lines.append("              the kernel is analysed and its loops become vectors")
    else:
        lines.append("  path        understood: analysed, its inner loop can become vectors")
    for position, box in enumerate(compiled.reaches):
        label = "looks" if len(compiled.reaches) == 1 else f"looks ({position})"
        lines.append(f"  {label:<12}{_box(box)}")
    bytes_point = _bytes(compiled)
    lines.append(f"  memory      {bytes_point:g} bytes a point, each read and written once")
    if stages is not None:
        lines += _numbers(stages.simplified)
        lines.append(f"  operations  {len(stages.lowered.body)} a point, reads included")
    return "\n".join(lines)


def _types(compiled: Compiled) -> str:
    fields = ", ".join(
        f"{n} {d}" for n, d in zip(compiled.module.fields, compiled.field_dtypes, strict=True)
    )
    return f"{fields} -> {', '.join(map(str, compiled.out_dtypes))}"


def _box(box: Box) -> str:
    sides = [f"{lo}..{hi}" for lo, hi in zip(box.lo, box.hi, strict=True)]
    count = math.prod(hi - lo + 1 for lo, hi in zip(box.lo, box.hi, strict=True))
    return f"offsets {' x '.join(sides)} ({count} elements in the box)"


def _bytes(compiled: Compiled) -> float:
    return float(sum(np.dtype(d).itemsize for d in (*compiled.field_dtypes, *compiled.out_dtypes)))


def _numbers(kernel: Kernel) -> list[str]:
    known = ranges(kernel)
    lines = []
    for position, output in enumerate(kernel.outputs):
        label = "result" if len(kernel.outputs) == 1 else f"result {position}"
        value = known[output.name] if isinstance(output, Ref) else None
        if value is not None and output.dtype.is_integer:
            lines.append(f"  {label:<12}whole numbers from {value.low:g} to {value.high:g}")
        elif value is not None and not math.isinf(value.low) and not math.isinf(value.high):
            lines.append(f"  {label:<12}{output.dtype.value}, {_span(value)}")
        else:
            lines.append(f"  {label:<12}{output.dtype.value}")
    reads = {field for assign in kernel.body for field, _, _ in extents(assign.value)}
    unread = [name for name, _ in kernel.fields if name not in reads]
    if unread:
        lines.append(f"  unread      {', '.join(unread)}")
    return lines


def _span(value: Interval) -> str:
    return f"{value.low:g} to {value.high:g}"
