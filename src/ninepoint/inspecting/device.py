"""What a GPU does with a call: the texts of its kernels, and how they are started.

Nothing here needs a GPU or CuPy, and what is said depends on the kernel and its border alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from .. import limits
from ..arrays.phases import check_device
from ..backends.cuda.source import Launch, Source
from ..backends.cuda.writing import written
from ..backends.pipeline import Forms
from ..chaining import unfit
from ..device_groups import passes
from ..graph import Node
from ..language import errors
from ..language.functions import FLOAT_FUNCTIONS
from ..language.ir import Assign, Binary, Call, Kernel, Ref, Unary
from ..onepass import OnePass, longest_steps, outputs_of, together
from .asked import Asked
from .describing import Lines, box_text, bytes_moved, numbers, types_text

# The functions that are rounded correctly, or are the same operations on every target.
_EXACT = frozenset("signbit sign isnan isinf isfinite".split())
_EXACT |= {name for name, row in FLOAT_FUNCTIONS.items() if row.exact}

_UNKNOWN = "unknown before a compiler has made machine code for some GPU"


def texts(one: Asked) -> str:
    """The texts of CUDA C++ that a call on arrays of a GPU compiles, one for each kernel.

    Raises
    ------
    StencilError
        If a kernel takes the general path, which leads to the CPU only.
    """
    found = []
    for nodes, joined in _passes(one):
        sources = [_source(one, node) for node in nodes] if joined is None else [joined.source]
        found += [source.text for source in sources]
    return "\n\n".join(found)


def explained(one: Asked) -> str:
    """How a call on arrays of a GPU is computed."""
    nodes = _nodes(one)
    if one.is_single:
        return "\n".join([_kernel_text(one, nodes[0]), *_steps(one)])
    given, (graph, _) = one.types, one.graph
    fields = ", ".join(f"{n} {d}" for n, d in zip(graph.names, given, strict=False))
    results = ", ".join(map(str, nodes[-1].compiled.out_dtypes))
    parts = [f"{one.call.definition.name}: {fields} -> {results}, on a GPU"]
    for some, joined in _passes(one):
        for node in some:
            made = ", ".join(graph.names[value] for value in node.outputs)
            read = ", ".join(graph.names[value] for value in node.fields)
            head, *lines = _kernel_text(one, node, joined is None).split("\n")
            parts += [f"  {made} = {node.call.definition.name}({read})", f"    {head}"]
            parts += [f"  {line}" for line in lines]
        if joined is not None:
            page = Lines(["  in one pass"])
            page.add(
                "launches", *_launches(joined.source, [graph.names[k] for k in joined.fields])
            )
            inside = sum(graph.dtypes[value].itemsize for value in joined.fields)
            outside = sum(dtype.itemsize for dtype in joined.out_dtypes)
            page.add("memory", f"{inside + outside} bytes a point for all of them")
            page.add("registers", _UNKNOWN)
            parts += [page.lines[0], *(f"  {line}" for line in page.lines[1:])]
    return "\n".join([*parts, *_steps(one)])


def _steps(one: Asked) -> Iterator[str]:
    """What `iterate` does with a call that can be a step: a line, or none."""
    graph, wanted = one.graph
    schedule = one.call.definition.schedule_for(one.types)
    if not one.is_step:
        return
    reason = unfit(graph, wanted, schedule)
    found = None
    if not reason:
        most = schedule.steps or limits.current.recorded_steps
        found = longest_steps(graph, wanted, most, schedule)
        reason = "no text holds two of them"
    page = Lines([""])
    if found is None:
        page.add("iterate", f"one step after the other: {reason}")
    else:
        page.add("iterate", f"{found.steps} steps in one pass over memory, where they take long")
    yield from page.lines[1:]


def _nodes(one: Asked) -> list[Node]:
    """The calls that are done, one after the other."""
    graph, wanted = one.graph
    check_device(graph.nodes)
    return list(graph.needed(wanted))


def _passes(one: Asked) -> Iterator[tuple[list[Node], OnePass | None]]:
    """The calls that are tried at once; with what does them, or they are done one by one."""
    graph, wanted = one.graph
    check_device(graph.nodes)
    schedule = one.call.definition.schedule_for(one.types)
    for nodes in passes(graph, wanted, schedule):
        outputs = outputs_of(graph, nodes, wanted)
        joined = together(graph, nodes, outputs, schedule) if len(nodes) > 1 else None
        yield nodes, joined


def _forms(one: Asked, node: Node) -> tuple[Forms | None, str]:
    """What the passes made of a call; or why they could not."""
    graph, _ = one.graph
    compiled = node.call.compiled([graph.dtypes[value] for value in node.own])
    if compiled.cpu_only is None:
        return compiled.forms, ""
    _, reason = compiled.cpu_only
    return None, reason if compiled.unread is None else f"{reason}, which is not analysed"


def _source(one: Asked, node: Node) -> Source:
    forms, _ = _forms(one, node)
    if found := node.compiled.cpu_only:
        place, reason = found
        raise errors.gpu_general(place, node.label, reason)
    assert forms is not None
    return written(forms, node.border.rules)


def _kernel_text(one: Asked, node: Node, alone: bool = True) -> str:
    """What is said of one kernel; how it is started, if it is done by itself."""
    compiled = node.compiled
    page = Lines([f"{node.call.definition.name}: {types_text(compiled)}, on a GPU"])
    forms, reason = _forms(one, node)
    if forms is None:
        page.add(
            "path",
            f"none: a GPU computes no kernel that holds {reason};",
            "write it without, or give arrays of NumPy",
        )
        return "\n".join(page.lines)
    pointwise = node.call.definition.pointwise
    page.add("path", "understood: whole arrays in the memory of the GPU, borders and all")
    if pointwise:
        page.add("looks", "at one element of each array; all axes are alike")
    else:
        for position, box in enumerate(compiled.reaches):
            label = "looks" if len(compiled.reaches) == 1 else f"looks ({position})"
            page.add(label, box_text(box))
        page.add("border", _border_text(node))
        if node.thins:
            page.add("every", f"{node.call.every}: all points are computed, and these are copied")
    numbers(page, forms.simplified)
    page.add("bits", *_bits(forms))
    if not alone:
        return "\n".join(page.lines)
    source = written(forms, node.border.rules)
    page.add("launches", *_launches(source, compiled.fields))
    inside, outside = bytes_moved(compiled)
    page.add(
        "memory",
        f"{inside + outside} bytes a point: {inside} read once, {outside} written once",
        *(
            f"and {one.dtype.itemsize} for {one.name}, {one.dtype}, between two launches"
            for one in source.scratch
        ),
    )
    page.add("registers", _UNKNOWN)
    return "\n".join(page.lines)


def _border_text(node: Node) -> str:
    border, cval = node.border, node.cval
    shown = str(border).strip("'")
    return f"{shown} with {cval!r}" if border.uses("fill") or border.uses("constant") else shown


def _bits(forms: Forms) -> Iterator[str]:
    """How the numbers of a GPU and those of the CPU compare."""
    inexact = sorted(set(_functions(forms.simplified)))
    if forms.request.fastmath:
        yield "floats may be rounded in another way than on the CPU (fastmath)"
    elif inexact:
        yield f"those of the CPU, but for the last places of {', '.join(inexact)}"
    else:
        yield "those of the CPU"


def _functions(kernel: Kernel) -> Iterator[str]:
    """The functions of floats that each target has from a library of its own."""
    bodies: tuple[tuple[Assign, ...], ...] = (
        kernel.body,
        *(stage.body for stage in kernel.stages),
    )
    for assign in (assign for body in bodies for assign in body):
        match assign.value:
            case Call(dtype, function) if function not in _EXACT or dtype.is_complex:
                yield function
            case Binary(dtype, "**") if not dtype.is_integer:
                yield "power"
            case Unary(op="abs", arg=Ref(dtype=dtype)) if dtype.is_complex:
                yield "abs of complex numbers"
            case _:
                pass


def _launches(source: Source, fields: Sequence[str]) -> Iterator[str]:
    """A line for each launch, and one for how many points its blocks do."""
    names = {f"field{k}": name for k, name in enumerate(fields)}
    outs = {name for one in source.launches for name in one.arrays if name.startswith("out")}
    for launch in source.launches:
        # Fields and scratch that another launch made are read; the rest is written.
        shown = [names.get(name, _result(name, len(outs))) for name in launch.arrays]
        yield f"{launch.function}({', '.join(shown)})"
        yield f"  {_blocks(launch)}"


def _result(name: str, count: int) -> str:
    if not name.startswith("out"):
        return name
    return "result" if count == 1 else f"result {name.removeprefix('out')}"


def _blocks(launch: Launch) -> str:
    points = " x ".join(map(str, launch.tile))
    text = f"blocks of {math.prod(launch.threads)} threads do {points} points"
    if launch.wide:
        most = max(size for _, size in launch.wide)
        text += f", in vectors of {most} bytes where rows allow it"
    return text
