"""Tell how a kernel is understood and computed, and with arrays, how fast; draw what it reads.

What is said of a GPU needs neither one nor CuPy, and depends on the kernel and its border alone.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from ..analysis.footprint import extents, tap_offsets
from ..analysis.ranges import ranges, words
from ..arrays.accepted import (
    behind,
    broadcast_shape,
    is_dask,
    is_dataset,
    is_device,
    is_xarray,
    listed,
)
from ..arrays.arranging import told
from ..arrays.cuda.executable import understood
from ..arrays.regions import check_device
from ..base.tracebacks import door
from ..language.errors import SLOWER, StencilError, cure
from ..language.ir import Box, Kernel, Offset, Reduce, Ref
from ..language.signature import Explanation, Lines, counted, many, signature_text
from ..language.text import kernel_text
from ..lowering.notes import notes, work
from ..lowering.rolling import rows_kept
from ..program.definition import Definition
from ..program.graph import Graph, Node
from ..program.program import plan
from .measuring import Asked, Measurement, asked, measured

# Bytes of a field beyond which `explain` looks at a part of it only.
_LARGE = 256 * 1024 * 1024

# Of pictures.
_LETTER, _LINE = 8, 18  # the width of a letter, and the height of a line [pixels]
_MOST = 63  # cells along an axis, beyond which there is no picture
_PANELS = 9  # of one field

# Readable beside each other for those who do not tell red from green (Okabe and Ito, 2008).
_COLOURS = ("#7aa6d8", "#e69f00", "#009e73", "#cc79a7", "#f0e442")


def explained(call: Any, one: Asked) -> str:
    """The text of `Stencil.explain`; `call` is there to measure it."""
    page, node, found = Lines(), one.last, None
    if one.options.get("device") is not None or any(map(is_device, one.given)):
        nodes = _gpu_nodes(one)
        for node in nodes:
            _tell_kernel(page, node, there=True)
        general = [node.compiled.cpu_only[1] for node in nodes if node.compiled.cpu_only]
        advice = f"Give arrays of NumPy, or write it without {general[0]}." if general else ""
        return "\n".join([advice or _advice(one, None), *page])
    if one.is_single:
        _tell_kernel(page, node)
    else:
        _tell_plan(page, one)
    _lying(page, one)
    real = all(type(x) is np.ndarray and x.ndim >= node.ndim and x.size for x in one.given)
    if any(map(dask_arrays, one.given)):
        # Imported here: Dask is optional, and the caller has it.
        from ..arrays.chunked import computation

        args, named = one.arguments()
        # None of them is computed.
        made = listed(call(*args, **named))
        page += computation.told([array for value in made for array in dask_arrays(value)])[1:]
    elif real:
        found = _measured(call, one)
        page.add("measured", str(found))
    return "\n".join([_advice(one, found), *page])


def _advice(one: Asked, found: Measurement | None) -> str:
    """What to do to make it faster, in one sentence."""
    compiled, whole = one.last.compiled, one.plan.whole
    inside, outside = _bytes(one.last)
    if one.is_single and compiled.forms is None:
        return cure("slow-kernel", compiled.reason)
    if whole:
        name, reason = next(iter(whole.items()))
        return f"See to '{name}', which is stored whole: {reason}."
    kinds = {dtype.kind for dtype in one.last.out_dtypes}
    if outside > inside and kinds == {"f"} and {dtype.kind for dtype in one.types} <= set("iu"):
        return (
            f"Give dtype='{one.types[0]}' and overflow='saturate' if whole numbers are enough: "
            f"floats are {outside} of {inside + outside} bytes a point."
        )
    if found is None:
        return "Nothing stands in the way: give arrays to see how fast it is beside a copy."
    ratio = f"it runs at {found.copy_ratio:.2f} of the speed of a copy"
    if found.copy_ratio > 0.5:
        return f"Move fewer bytes, by smaller dtypes or by npt.lazy, to be faster: {ratio}."
    return f"Compute less, or with smaller dtypes, to be faster: {ratio}."


def _tell_kernel(page: Lines, node: Node, there: bool = False) -> None:
    """Tell how a kernel is understood and computed by a processor, or by a GPU."""
    compiled, pointwise = node.compiled, node.call.definition.pointwise
    name, forms = node.call.definition.name, compiled.forms
    names = compiled.fields[: len(node.types)]
    fields = ", ".join(f"{n} {d}" for n, d in zip(names, compiled.field_dtypes, strict=False))
    made = ", ".join(map(str, node.out_dtypes))
    page.add("kernel", f"{name}: {fields} -> {made}{', on a GPU' if there else ''}")
    if there and (general := compiled.cpu_only):
        page.add("path", f"none: a GPU computes no kernel that holds {general[1]}")
        return
    if forms is None:
        how = "each read is checked"
        if pointwise:
            how = "one loop over the elements, one after the other"
        place = compiled.unread
        page.add(
            "path",
            f"general, because of {compiled.reason}",
            *(() if place is None else (f"in line {place.line}: {place.text.strip()}",)),
            f"{how}, about {SLOWER} times",
            "as long as a kernel of the same reads that is analysed.",
        )
    else:
        how = "analysed, its inner loop can become vectors"
        if compiled.control:
            how = "analysed, one point after the other, for its loops differ"
        if there:
            how = "whole arrays in the memory of the GPU, borders and all"
        page.add("path", f"understood: {how}")
    thinned = f"one of {math.prod(node.every)} points is made"
    _places(page, node, "all points are computed, and these are copied" if there else thinned)
    if forms is not None:
        _numbers(page, node, forms.simplified)
    if forms is not None and not there:
        found = notes(forms.stored, forms.wholesome, forms.lowered, forms.request.schedule)
        texts = []
        for subject, lines in found or [("as written", ["no window, and nothing to share"])]:
            texts += [f"{subject}:", *(f"  {line}" for line in lines)]
        page.add("algorithm", *texts)
        loads, stores, lanes = work(forms.lowered)
        if lanes:
            counts = ", ".join(f"{round(count, 1):g} in {name}" for name, count in lanes.items())
            widest = np.dtype([*lanes][-1]).itemsize * 8
            page.add("lanes", f"{widest} bits at the widest: {counts}")
        page.add(
            "operations",
            f"{many(sum(lanes.values()), 'operation')}, {many(loads, 'load')} and "
            f"{many(stores, 'store')} a point",
        )
    inside, outside = _bytes(node)
    page.add(
        "memory",
        f"{inside + outside} bytes a point: {inside} read once, {outside} written once",
    )
    if there:
        launches = node.text(node.border).launches
        page.add("launches", ", then ".join(launch.function for launch in launches))
    elif compiled.positions:
        page.add("positions", ", ".join(one.words for one in compiled.positions))


def _places(page: Lines, node: Node, thinned: str) -> None:
    """Tell where a kernel looks and what is outside; `thinned` says what `every` does."""
    if node.call.definition.pointwise:
        page.add("looks", "at one element of each array; all axes are alike")
        return
    for position, box in enumerate(node.reaches):
        sides = " x ".join(f"{lo}..{hi}" for lo, hi in zip(box.lo, box.hi, strict=True))
        count = math.prod(hi - lo + 1 for lo, hi in zip(box.lo, box.hi, strict=True))
        label = "looks" if len(node.reaches) == 1 else f"looks ({position})"
        page.add(label, f"offsets {sides} ({count} elements in the box)")
    if node.factors:
        page.add("upsample", f"{' x '.join(map(str, node.factors))} results around each element")
    boundary = node.boundary
    uses = boundary.uses("fill") or boundary.uses("constant")
    shown = str(boundary).strip("'")
    page.add("border", f"{shown} with {node.cval!r}" if uses else shown)
    if node.thins:
        page.add("every", f"{node.call.options.every}: {thinned}")


def _bytes(node: Node) -> tuple[int, int]:
    """How many bytes of each point are read, and how many are written."""
    inside = sum(dtype.itemsize for dtype in node.compiled.field_dtypes[: len(node.types)])
    return inside, sum(dtype.itemsize for dtype in node.compiled.out_dtypes)


def _numbers(page: Lines, node: Node, kernel: Kernel) -> None:
    """Tell what the results can be, in all phases together."""
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
    if any(value.wraps for value in known.values()):
        page.add("", "an operation may wrap beyond 64 bits")


def _lying(page: Lines, one: Asked) -> None:
    """How arrays of NumPy are done whose stack lies innermost, or whose axes in another order."""
    fields, last = one.given, one.last
    if last.compiled.alone or not fields or not all(isinstance(x, np.ndarray) for x in fields):
        return
    shape = broadcast_shape([field.shape for field in fields])
    if len(shape) < last.ndim:
        return
    core = behind(one.options.get("axes"), len(shape), last.ndim)
    ends = range(-last.ndim, 0)
    whole = [np.moveaxis(np.broadcast_to(field, shape), core, ends) for field in fields]
    # What other calls make for it lies in memory as the fields do.
    for label, text in told(last.compiled, whole):
        page.add(label, text)


def _measured(call: Any, one: Asked) -> Measurement:
    """What is measured beside a copy; of large arrays of one shape a part is taken."""
    fields, first = one.given, one.given[0]
    largest = max(array.nbytes for array in fields)
    # Values along an edge are those of the whole array.
    is_whole = one.program.graph.has_conditions or any(x.shape != first.shape for x in fields)
    if largest > _LARGE and not is_whole:
        length = max(1, first.shape[0] * _LARGE // largest)
        fields = tuple(array[:length] for array in fields)
    return measured(call, replace(one, given=fields), 5, 0.3)


def intermediate(one: Asked) -> str:
    """The text of `Stencil.ir`: of several kernels each under what it is called."""
    if not one.is_single:
        lines: list[str] = []
        for node in (node for group in one.plan.groups for node in group.nodes):
            part = node.compiled.as_part
            text = f"it holds {part}" if isinstance(part, str) else kernel_text(part.simplified)
            lines.append(f"{_call_text(one.program.graph, node)}:")
            lines += [f"    {line}" for line in text.split("\n")]
        return "\n".join(lines)
    compiled = one.last.compiled
    if compiled.forms is None:
        return f"{one.call.definition.name} takes the general path: {compiled.reason}."
    kernel = compiled.forms.simplified
    known = ranges(kernel)
    return kernel_text(kernel, lambda name: f"{known[name].low:g} .. {known[name].high:g}")


def texts(one: Asked, target: object) -> str:
    """The text of `Stencil.source`: what is compiled for a processor, or for a GPU.

    Raises
    ------
    StencilError
        If a kernel for a GPU takes the general path, which leads to the CPU only.
    """
    if target not in ("cpu", "cuda"):
        raise ValueError(f'target={target!r} is unknown; use "cpu" or "cuda".')
    if target == "cpu":
        return "\n\n".join(kernel.module.text for kernel in one.kernels)
    nodes = _gpu_nodes(one)
    for node in nodes:
        understood(node.compiled)
    return "\n\n".join(node.text(node.border).text for node in nodes)


def _gpu_nodes(one: Asked) -> Sequence[Node]:
    """The calls, which a GPU does one by one."""
    nodes = [node for group in plan(one.program, there=True).groups for node in group.nodes]
    check_device(nodes)
    return nodes


# Plans.


def _tell_plan(page: Lines, one: Asked) -> None:
    """Tell what is done in which pass over memory, how each stage is kept, and why."""
    graph, found = one.program.graph, one.plan
    pairs = zip(graph.names, graph.dtypes[: graph.given], strict=False)
    given = ", ".join(f"{n} {d}" for n, d in pairs)
    results = ", ".join(map(str, found.groups[-1].nodes[-1].compiled.out_dtypes))
    page.add("kernel", f"{one.call.definition.name}: {given} -> {results}")
    for number, group in enumerate(found.groups, start=1):
        moved = sum(graph.dtypes[value].itemsize for value in (*group.fields, *group.outputs))
        names = ", ".join(graph.names[value] for value in group.fields)
        page.add(f"pass {number}", f"reads {names}: {moved} bytes a point with what it writes")
        rows = rows_kept(group.kernel) if group.kernel is not None else {}
        for node in group.nodes:
            border = "" if node.call.definition.pointwise else f", border {node.boundary}"
            every = f", every {node.call.options.every}" if node.thins else ""
            page.append(f"    {_call_text(graph, node)}{border}{every}")
            kept = max(rows.get(group.names.get(value, ""), 0) for value in node.outputs)
            if node.label in found.whole:
                how = f"stored whole: {found.whole[node.label]}"
            elif set(node.outputs) <= set(group.outputs):
                how = "the result"
            elif kept:
                how = f"kept in {many(kept, 'row')}, until they are read for the last time"
            else:
                how = "computed again where it is read: that costs less than to keep it"
            page.append(f"      {how}")


def _call_text(graph: Graph, node: Node) -> str:
    fields = [graph.names[value] for value in node.fields]
    fields += [one.words for one in node.compiled.positions]
    made = ", ".join(graph.names[value] for value in node.outputs)
    return f"{made} = {node.call.definition.name}({', '.join(fields)})"


# Lazy arrays.


@door
def explain(lazy: Any) -> str:
    """Tell what it will take to compute a lazy array, and compute nothing.

    Parameters
    ----------
    lazy : Dask array, DataArray or Dataset
        What stencils, filters or `Stencil.iterate` made, or what was made of that.

    Returns
    -------
    str
        Lines of text, a table in a notebook: in the first one what to see to. Then of each of our
        computations behind it, in their order, the plan; its tasks; the bytes that it reads, and
        how many times as much files decode for that; those of all faces of chunks, which may have
        to move from worker to worker; those that a thread holds; and, about, those of the chunks
        that wait for their neighbours, on all threads together. Tasks of Dask's own are among all
        tasks as they are before Dask makes several one. `save` tells more with ``dry=True``.

    Raises
    ------
    TypeError
        If it is no lazy array, or none of ours is behind it.

    Examples
    --------
    >>> import dask.array as da
    >>> import ninepoint as npt
    >>> volume = da.zeros((400, 400, 400), chunks=100, dtype="float32")
    >>> print(npt.explain(npt.filters.mean(volume, (3, 3, 3))))
    Give each thread 8.18 MB, and 134 MB to all for what waits for its neighbours.
      on Dask     mean: edges, 2 tasks a block, 128 in all
                    each block is made of its chunk and of its neighbours' faces
                    256 MB read, 11.5 MB of faces
                    8.18 MB held a thread
                    134 MB held together, in about two layers, for neighbours
      tasks       192 in all, 3 a chunk of the result
      result      256 MB, all of which compute() holds
    """
    arrays = dask_arrays(lazy)
    if not arrays:
        raise TypeError(
            f"explain takes a Dask array, or a DataArray or Dataset of some, not "
            f"{type(lazy).__name__}; of arrays in memory 'explain' of a stencil tells."
        )
    # Imported here: Dask is optional, and the caller has it.
    from ..arrays.chunked import computation

    page = computation.told(arrays)
    if not page:
        raise TypeError(
            "no stencil, filter or iterate has made this Dask array, or what is behind it; give "
            "what one of them made, as it was before dask.persist or dask.optimize."
        )
    size = counted(sum(array.nbytes for array in arrays), "B")
    page.add("result", f"{size}, all of which compute() holds")
    return Explanation("\n".join(page))


def dask_arrays(value: Any) -> list[Any]:
    """The Dask arrays that a value is, or holds."""
    if is_xarray(value):
        value = value.variable._data
    if is_dataset(value):
        return [a for one in value.variables.values() for a in dask_arrays(one._data)]
    return [value] if is_dask(value) else []


# Pictures for notebooks: cells, of which those that are read are filled.
#
#     smooth(x, y, k=3)
#     x[0, :, :]                      a panel for each field, in a colour of its own, and for each
#     x[1, :, :]                      offset along the axes before the last two
#     y[0, :, :]
#     y[1, :, :]
#     axis -3, from panel to panel: border reflect
#     axis -2, downward: border reflect
#     axis -1, to the right: nearest before, wrap after
#
# Brackets are around the point itself.  The offsets of rows and columns stand beside the cells.


def drawn(definition: Definition) -> str | None:
    """A picture for a notebook of what a kernel reads of float64 fields; None if it cannot be.

    What stages make is drawn as fields, with the calls that make them.  A function of numbers
    looks at nothing that could be drawn, and a box may be too large.
    """
    if definition.pointwise or not definition.is_known:
        return None
    try:
        one = asked(definition)
        compiled = one.last.compiled
    except (StencilError, TypeError, ValueError):
        return None
    if compiled.forms is None:
        return None
    kernel = compiled.forms.simplified
    read: dict[str, set[Offset]] = {name: set() for name, _ in kernel.fields}
    for assign in kernel.body:
        if isinstance(assign.value, Reduce):
            for name, offsets in tap_offsets(assign.value):
                read[name].update(offsets)
            continue
        for name, *ends in extents(assign.value):
            sides = (range(low, high + 1) for low, high in zip(*ends, strict=True))
            read[name].update(itertools.product(*sides))
    below = []
    for call in definition.calls():
        # As the user wrote it.
        text = call.span.text[call.span.start : call.span.end]
        below.append(f"{', '.join(call.made)} = {text}")
    ways = ("from panel to panel", "downward", "to the right")
    pairs = one.call.options.boundary.sides(compiled.ndim)
    for axis, pair in enumerate(pairs, start=-len(pairs)):
        before, after = (
            f"{rule} with {one.call.options.cval!r}" if rule in ("fill", "constant") else str(rule)
            for rule in pair
        )
        words = f"border {before}" if before == after else f"{before} before, {after} after"
        below.append(f"axis {axis}, {ways[max(axis, -3)]}: {words}")
    title = f"{definition.name}{signature_text(definition.function)}"
    fields = dict(zip(one.last.call.fields, read.values(), strict=True))
    return _svg(title, compiled.reach, fields, below)


def _svg(
    title: str, box: Box, read: Mapping[str, set[Offset]], below: Sequence[str]
) -> str | None:
    """Draw the offsets in a box for each field, and lines of text; None if it is too large."""
    ndim = len(box.lo)
    ends = [(min(0, low), max(0, high)) for low, high in zip(box.lo, box.hi, strict=True)]
    *outer, rows, columns = (
        range(low, high + 1) for low, high in [(0, 0), *ends][-max(2, ndim) :]
    )
    planes = list(itertools.islice(itertools.product(*outer), _PANELS + 1))
    if max(len(rows), len(columns)) > _MOST or len(planes) > _PANELS:
        return None
    above = "".join(f"{column:^3}" for column in _told(columns))
    # A signal has no rows to be counted.
    beside = _told(rows) if ndim > 1 else [""]
    # Each with the colour of its cells that are read.
    lines = [(title, "")]
    for (name, offsets), colour in zip(read.items(), itertools.cycle(_COLOURS), strict=False):
        for plane in planes:
            label = f"{name}[{', '.join(map(str, plane))}, :, :]" if plane else name
            lines += [(label, ""), (f"    {above}", "")]
            for row, mark in zip(rows, beside, strict=True):
                line = f"{mark:>3} "
                for column in columns:
                    place = (*plane, row, column)
                    cell = "■" if place[-ndim:] in offsets else "□"
                    line += f" {cell} " if any(place) else f"[{cell}]"
                lines.append((line, colour))
    lines += [(text, "") for text in below]
    width = _LETTER * (1 + max(len(line) for line, _ in lines))
    texts = (
        f'<text x="1" y="{number * _LINE}" xml:space="preserve">'
        + escape(line).replace("■", f'<tspan fill="{colour}">■</tspan>')
        + "</text>"
        for number, (line, colour) in enumerate(lines, start=1)
    )
    # Grey, to be read on a dark page too.
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{(len(lines) + 1) * _LINE}" role="img">'
        f"<title>{escape(title)}: what is read</title>"
        f'<g font-family="monospace" font-size="13" fill="#777">{"".join(texts)}</g></svg>'
    )


def _told(offsets: range) -> list[str]:
    """The offsets as text: all where there are few, else the first, the last and 0."""
    few = offsets if len(offsets) <= 9 else (offsets[0], 0, offsets[-1])
    return [str(one) if one in few else "" for one in offsets]
