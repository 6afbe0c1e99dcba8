"""Tell how a kernel is understood and computed, and with arrays, how fast.

What is said of the kernel alone depends on nothing of the machine.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..analysis.footprint import extents
from ..analysis.ranges import Interval, ranges, words
from ..arrays import numpy as on_numpy
from ..arrays.accepted import is_dask, is_device, is_xarray
from ..arrays.arranging import told
from ..backends.compiled import Forms
from ..backends.numba.cpu import interpreted
from ..language.box import Box
from ..language.ir import Atom, Binary, Expr, Kernel, Ref, atoms
from ..language.text import kernel_text
from ..language.warned import cure
from ..lowering.notes import (
    Note,
    row_notes,
    shared_notes,
    sum_notes,
    whole_notes,
    window_notes,
    work,
)
from ..program.calls import Call
from ..program.chaining import unfit
from ..program.graph import Node, has_conditions
from ..program.options import CALL_OPTIONS
from ..program.planning import graph_text, plan_text
from .asked import Asked
from .displays import WIDTH, many, rate_text, time_text
from .measuring import measurable, measured, part


class Lines(list[str]):
    """A page, line by line, each with a label or under the last one."""

    def add(self, label: str, *texts: str) -> None:
        for text in texts:
            self.append(f"  {label:<{WIDTH}}{text}")
            label = ""


def explained(call: Callable[..., Any], one: Asked, named: Mapping[str, Any]) -> str:
    """The text of `Stencil.explain`; `call` and `named` are there to measure it."""
    if named.get("device") is not None or any(map(is_device, one.given)):
        # Imported here, not above: most programs never ask.
        from . import device

        return device.explained(one)
    if one.is_single:
        page = _kernel_page(one.last)
    else:
        name = one.call.definition.name
        page = Lines(plan_text(name, one.graph[0], one.plan).split("\n"))
    if (reason := no_chain(one)) and not (one.is_single and one.last.compiled.forms is None):
        page.add("iterate", f"one step after the other: {reason}")
    _lying(page, one, named)
    if any(map(_cut, one.given)):
        for found in _dask_plans(call, one, named):
            page.add("on Dask", found)
    elif not interpreted() and measurable(one.given, one.last.ndim):
        _measured(page, call, one, named)
    return "\n".join(page)


def _kernel_page(node: Node) -> Lines:
    """Tell which path a kernel took, where it looks, what its numbers are, and how it is done."""
    compiled, pointwise = node.compiled, node.call.definition.pointwise
    page = Lines([f"{node.call.definition.name}: {types_text(node)}"])
    forms = compiled.forms
    if forms is None:
        how = "each read is mapped and checked"
        if pointwise:
            how = "one loop over the elements, one after the other"
        place = compiled.unread
        page.add(
            "path",
            f"general, because of {compiled.reason}",
            *(() if place is None else (f"in line {place.line}: {place.text.strip()}",)),
            f"{how}, about {compiled.factor} times",
            "as long as a kernel of the same reads that is analysed; instead,",
            cure(compiled.reason),
        )
    else:
        how = "its inner loop can become vectors"
        if compiled.control:
            how = "one point after the other, for its loops differ"
        page.add("path", f"understood: analysed, {how}")
    places(page, node, f"one of {math.prod(node.every)} points is made")
    if forms is not None:
        numbers(page, node, forms.simplified)
        found = notes(forms) or (Note("as written", ("no window, and nothing to share",)),)
        texts = [(f"{note.subject}:", *(f"  {line}" for line in note.lines)) for note in found]
        page.add("algorithm", *(line for lines in texts for line in lines))
        counted = work(forms.lowered)
        lanes = ", ".join(f"{round(count, 1):g} in {name}" for name, count in counted.lanes)
        if lanes:
            page.add("lanes", f"{counted.widest} bits at the widest: {lanes}")
        page.add(
            "operations",
            f"{many(counted.operations, 'operation')}, {many(counted.loads, 'load')} and "
            f"{many(counted.stores, 'store')} a point",
        )
    page.add("memory", memory_text(node))
    if compiled.positions:
        page.add("positions", ", ".join(one.words for one in compiled.positions))
    return page


def types_text(node: Node) -> str:
    """What goes in and what comes out."""
    names, compiled = node.compiled.fields[: len(node.types)], node.compiled
    fields = ", ".join(f"{n} {d}" for n, d in zip(names, compiled.field_dtypes, strict=False))
    return f"{fields} -> {', '.join(map(str, node.out_dtypes))}"


def places(page: Lines, node: Node, thinned: str) -> None:
    """Tell where a kernel looks and what is outside; `thinned` says what `every` does."""
    if node.call.definition.pointwise:
        page.add("looks", "at one element of each array; all axes are alike")
        return
    for position, box in enumerate(node.reaches):
        page.add("looks" if len(node.reaches) == 1 else f"looks ({position})", _box_text(box))
    if node.factors:
        page.add("upsample", f"{' x '.join(map(str, node.factors))} results around each element")
    page.add("border", border_text(node.call))
    if node.thins:
        page.add("every", f"{node.call.every}: {thinned}")


def _box_text(box: Box) -> str:
    sides = [f"{lo}..{hi}" for lo, hi in zip(box.lo, box.hi, strict=True)]
    count = math.prod(hi - lo + 1 for lo, hi in zip(box.lo, box.hi, strict=True))
    return f"offsets {' x '.join(sides)} ({count} elements in the box)"


def border_text(call: Call) -> str:
    """The border rule in words."""
    shown = str(call.boundary).strip("'")
    uses = call.boundary.uses("fill") or call.boundary.uses("constant")
    return f"{shown} with {call.cval!r}" if uses else shown


def memory_text(node: Node) -> str:
    """How many bytes of each point are read, and how many are written."""
    inside = sum(dtype.itemsize for dtype in node.compiled.field_dtypes[: len(node.types)])
    outside = sum(dtype.itemsize for dtype in node.compiled.out_dtypes)
    return f"{inside + outside} bytes a point: {inside} read once, {outside} written once"


def numbers(page: Lines, node: Node, kernel: Kernel) -> None:
    """Tell what the results can be, in all phases together, and which fields nobody reads."""
    known = ranges(kernel)
    count = len(node.outputs)
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
    if unread := [name for name, _ in kernel.given if name not in reads]:
        page.add("unread", ", ".join(unread))


def _wrapping(kernel: Kernel, outputs: Sequence[Atom], known: Mapping[str, Interval]) -> list[str]:
    """The operations from which results are made that 64 bits might not hold."""
    needed = {one.name for one in outputs if isinstance(one, Ref)}
    for assign in reversed(kernel.body):
        if assign.name in needed:
            needed |= {one.name for one in atoms(assign.value) if isinstance(one, Ref)}
    found = [one.value for one in kernel.body if one.name in needed and known[one.name].wraps]
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
        *window_notes(forms.windowed, request.schedule, in_place=_in_place(forms.lowered)),
        *whole_notes(forms.unrolled, forms.wholesome),
        *row_notes(forms.single, forms.lowered),
        *shared_notes(forms.wholesome, forms.lowered, request.schedule),
    )


def _in_place(kernel: Kernel) -> bool:
    """Whether several rows are made at once, with nothing kept."""
    return kernel.rows > 1 and not kernel.stages


def no_chain(one: Asked) -> str:
    """Why `Stencil.iterate` does no several steps in one pass; empty where it may.

    Also empty where nothing can be iterated, as the results cannot take the place of fields.
    """
    graph, wanted = one.graph
    return unfit(graph.needed(wanted), wanted, one.schedule) if one.is_step else ""


def _lying(page: Lines, one: Asked, named: Mapping[str, Any]) -> None:
    """How arrays of NumPy are done whose stack lies innermost, or whose axes in another order."""
    fields, last = one.given, one.last
    if last.compiled.alone or not fields or not all(isinstance(x, np.ndarray) for x in fields):
        return
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    if len(shape) < last.ndim:
        return
    core = on_numpy.behind(named.get("axes"), len(shape), last.ndim)
    ends = tuple(range(-last.ndim, 0))
    whole = [np.moveaxis(np.broadcast_to(field, shape), core, ends) for field in fields]
    program = last.program
    # What other calls make for it lies in memory as the fields do.
    made = len(program.field_dtypes) - program.positions - len(whole)
    read = [*whole, *whole[:1] * made]
    for label, text in told(program, read, len(whole)):
        page.add(label, text)


def _cut(array: Any) -> bool:
    return is_dask(array) or (is_xarray(array) and array.chunks is not None)


def _dask_plans(call: Callable[..., Any], one: Asked, named: Mapping[str, Any]) -> list[str]:
    """How a call on Dask arrays, of which none is computed, is divided into tasks."""
    # Imported here: Dask is optional, and the caller has it.
    from ..arrays.chunked.computation import noted

    args, rest = one.arguments(one.given)
    with noted() as plans:
        call(*args, **rest, **_options(named))
    return [str(plan) for plan in plans]


def _options(named: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name in CALL_OPTIONS}


def _measured(page: Lines, call: Callable[..., Any], one: Asked, named: Mapping[str, Any]) -> None:
    """Tell what was measured, beside a copy."""
    options = {name: value for name, value in _options(named).items() if name != "dims"}
    # Values along an edge are those of the whole array.
    fields = one.given if has_conditions(one.graph[0]) else part(one.given)
    found = measured(call, replace(one, given=fields), options, 5, 0.3)
    if not one.is_single:
        page.add("measured", str(found))
        return
    page.add("ready", found.before)
    page.add("copy", f"{rate_text(found.copy_bytes_per_second, 'B')} for {found.arrays}")
    page.add(
        "measured",
        f"{rate_text(found.points_per_second, 'point')}, "
        f"{rate_text(found.bytes_per_second, 'B')}, {found.copy_ratio:.2f} of a copy, {found.by}",
        f"{time_text(found.seconds)} a call (quartiles {time_text(found.lower)} and "
        f"{time_text(found.upper)} of {found.samples})",
    )


def intermediate(one: Asked) -> str:
    """The text of `Stencil.ir`."""
    if not one.is_single:
        return graph_text(
            one.graph[0], [node for group in one.plan.groups for node in group.nodes]
        )
    compiled = one.last.compiled
    if compiled.forms is None:
        return f"{one.call.definition.name} takes the general path: {compiled.reason}."
    kernel = compiled.forms.simplified
    known = ranges(kernel)
    return kernel_text(kernel, lambda name: f"{known[name].low:g} .. {known[name].high:g}")


def texts(one: Asked, target: object) -> str:
    """The text of `Stencil.source`: what is compiled for a processor, or for a GPU."""
    if target not in ("cpu", "cuda"):
        raise ValueError(f'target={target!r} is unknown; use "cpu" or "cuda".')
    if target == "cuda":
        # Imported here, not above: most programs never ask.
        from . import device

        return "\n\n".join(source.text for source in device.sources(one))
    return "\n\n".join(kernel.module.text for kernel in one.kernels)
