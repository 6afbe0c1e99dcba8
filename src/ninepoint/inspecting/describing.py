"""What a compiled kernel looks like, in words."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ..analysis.footprint import extents
from ..analysis.ranges import Interval, ranges, words
from ..backends.compiled import Compiled
from ..backends.pipeline import Forms
from ..language.box import Box
from ..language.ir import Atom, Binary, Expr, Kernel, Ref, atoms
from ..language.warned import cure
from ..lowering.notes import Note, row_notes, shared_notes, sum_notes, whole_notes, window_notes
from ..lowering.work import Work, work
from .displays import rate_text, time_text
from .measuring import Measurement

_WIDTH = 12

One = TypeVar("One")


@dataclass(frozen=True, slots=True)
class Lines:
    """A page, line by line, each with a label or under the last one."""

    lines: list[str]

    def add(self, label: str, *texts: str) -> None:
        for text in texts:
            self.lines.append(f"  {label:<{_WIDTH}}{text}")
            label = ""


def explanation(
    name: str,
    compiled: Compiled,
    forms: Forms | None,
    reason: str,
    border: str | None,
    every: str,
    no_chain: str,
    finer: Sequence[int] = (),
) -> str:
    """Tell which path a kernel took, where it looks, what its numbers are, and how it is done.

    A function of numbers has no `border`; `every` says which points are made, if not all are;
    `no_chain` is why steps are done one after the other, if they are.  Nothing of it depends on
    the machine.
    """
    page = Lines([f"{name}: {types_text(compiled)}"])
    if forms is None:
        how = "each read is mapped and checked"
        if border is None:
            how = "one loop over the elements, one after the other"
        page.add(
            "path",
            f"general, because of {reason}",
            *_where(compiled),
            f"{how}, about {compiled.factor} times",
            "as long as a kernel of the same reads that is analysed; instead,",
            cure(reason),
        )
    else:
        how = "its inner loop can become vectors"
        if compiled.control:
            how = "one point after the other, for its loops differ"
        page.add("path", f"understood: analysed, {how}")
    if border is None:
        page.add("looks", "at one element of each array; all axes are alike")
    count = len(compiled.reaches) // compiled.phases
    for position, box in enumerate(compiled.reaches[:count] if border is not None else ()):
        label = "looks" if count == 1 else f"looks ({position})"
        page.add(label, box_text(box))
    if finer:
        page.add("upsample", f"{' x '.join(map(str, finer))} results around each element")
    if border is not None:
        page.add("border", border)
    if every:
        page.add("every", every)
    if forms is not None:
        numbers(page, forms.simplified, compiled.phases)
        _choices(page, forms)
        _work(page, work(forms.lowered))
    inside, outside = bytes_moved(compiled)
    page.add(
        "memory",
        f"{inside + outside} bytes a point: {inside} read once, {outside} written once",
    )
    if compiled.positions:
        page.add("positions", ", ".join(one.words for one in compiled.positions))
    if no_chain and forms is not None:
        page.add("iterate", f"one step after the other: {no_chain}")
    return "\n".join(page.lines)


def _where(compiled: Compiled) -> tuple[str, ...]:
    """The line of the kernel that is not analysed."""
    place = compiled.unread
    return () if place is None else (f"in line {place.line}: {place.text.strip()}",)


def measured(found: Measurement) -> str:
    """Tell what was measured, beside a copy."""
    page = Lines([])
    page.add("ready", found.before)
    page.add("copy", f"{rate_text(found.copy_bytes_per_second, 'B')} for {found.arrays}")
    page.add(
        "measured",
        f"{rate_text(found.points_per_second, 'point')}, "
        f"{rate_text(found.bytes_per_second, 'B')}, {found.copy_ratio:.2f} of a copy, "
        f"{found.by}",
        f"{time_text(found.seconds)} a call (quartiles {time_text(found.lower)} and "
        f"{time_text(found.upper)} of {found.samples})",
    )
    return "\n".join(page.lines)


def types_text(compiled: Compiled) -> str:
    """What goes in and what comes out."""
    fields = ", ".join(
        f"{n} {d}"
        for n, d in zip(given_of(compiled, compiled.fields), compiled.field_dtypes, strict=False)
    )
    count = len(compiled.out_dtypes) // compiled.phases
    return f"{fields} -> {', '.join(map(str, compiled.out_dtypes[:count]))}"


def box_text(box: Box) -> str:
    """Where a kernel looks."""
    sides = [f"{lo}..{hi}" for lo, hi in zip(box.lo, box.hi, strict=True)]
    count = math.prod(hi - lo + 1 for lo, hi in zip(box.lo, box.hi, strict=True))
    return f"offsets {' x '.join(sides)} ({count} elements in the box)"


def given_of(compiled: Compiled, each: tuple[One, ...]) -> tuple[One, ...]:
    """What there is for `each` field, for those that a call is given."""
    return each[: len(each) - len(compiled.positions)]


def bytes_moved(compiled: Compiled) -> tuple[int, int]:
    """How many bytes of each point are read, and how many are written."""

    def total(dtypes: tuple[np.dtype, ...]) -> int:
        return sum(dtype.itemsize for dtype in dtypes)

    return total(given_of(compiled, compiled.field_dtypes)), total(compiled.out_dtypes)


def numbers(page: Lines, kernel: Kernel, phases: int = 1) -> None:
    """Tell what the results can be, in all phases together, and which fields nobody reads."""
    known = ranges(kernel)
    count = len(kernel.outputs) // phases
    for position, output in enumerate(kernel.outputs[:count]):
        label = "result" if count == 1 else f"result {position}"
        same = kernel.outputs[position::count]
        values = [known[one.name] for one in same if isinstance(one, Ref)]
        value = functools.reduce(operator.or_, values) if len(values) == len(same) else None
        if value is not None and output.dtype.is_integer:
            page.add(label, f"whole numbers from {value.low:g} to {value.high:g}")
        elif value is not None and not math.isinf(value.low) and not math.isinf(value.high):
            page.add(label, f"{output.dtype.value}, {words(value)}")
        else:
            page.add(label, output.dtype.value)
        if wrapping := _wrapping(kernel, same, known):
            page.add("", f"{' and '.join(wrapping)} may wrap beyond 64 bits")
    reads = {field for assign in kernel.body for field, _, _ in extents(assign.value)}
    given = kernel.fields[: len(kernel.fields) - len(kernel.positions)]
    unread = [name for name, _ in given if name not in reads]
    if unread:
        page.add("unread", ", ".join(unread))


def _wrapping(kernel: Kernel, outputs: Sequence[Atom], known: Mapping[str, Interval]) -> list[str]:
    """The operations from which results are made that 64 bits might not hold."""
    values = {assign.name: assign.value for assign in kernel.body}
    needed, pending = set[str](), [one.name for one in outputs if isinstance(one, Ref)]
    while pending:
        name = pending.pop()
        if name in values and name not in needed:
            needed.add(name)
            pending += [one.name for one in atoms(values[name]) if isinstance(one, Ref)]
    found = [value for name, value in values.items() if name in needed and known[name].wraps]
    return list(dict.fromkeys(map(_operation, found)))


def _operation(value: Expr) -> str:
    """What an operation makes, in a word."""
    kind = value.op if isinstance(value, Binary) else getattr(value, "kind", "")
    return _MADE.get(kind, "a number")


_MADE = {
    "+": "a sum",
    "-": "a difference",
    "*": "a product",
    "**": "a power",
    "<<": "a shift",
    "sum": "the sum of a window",
    "prod": "the product of a window",
}


def notes(forms: Forms) -> tuple[Note, ...]:
    """What the passes chose, in the order of the passes."""
    request = forms.request
    return (
        *sum_notes(forms.stored, request.schedule, floats=request.fastmath),
        *window_notes(forms.windowed, request.schedule, in_place=forms.lowered.rows > 1),
        *whole_notes(forms.unrolled, forms.wholesome),
        *row_notes(forms.single, forms.lowered),
        *shared_notes(forms.wholesome, forms.lowered, request.schedule),
    )


def _choices(page: Lines, forms: Forms) -> None:
    found = notes(forms) or (Note("as written", ("no window, and nothing to share",)),)
    label = "algorithm"
    for note in found:
        page.add(label, f"{note.subject}:", *(f"  {line}" for line in note.lines))
        label = ""


def _work(page: Lines, counted: Work) -> None:
    lanes = ", ".join(f"{round(count, 1):g} in {name}" for name, count in counted.lanes)
    if lanes:
        page.add("lanes", f"{counted.widest} bits at the widest: {lanes}")
    page.add(
        "operations",
        f"{_many(counted.operations, 'operation')}, {_many(counted.loads, 'load')} and "
        f"{_many(counted.stores, 'store')} a point",
    )


def _many(count: float, word: str) -> str:
    return f"{count:g} {word}" if count == 1 else f"{round(count, 1):g} {word}s"
