"""What a GPU does with a call: the texts of its kernels, and how they are started.

Nothing here needs a GPU or CuPy, and what is said depends on the kernel and its border alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..arrays.regions import check_device
from ..backends.compiled import Forms
from ..backends.cuda.source import Launch, Source
from ..backends.cuda.writing import written
from ..base import limits
from ..iteration.iterate import Scalars
from ..iteration.motion import Motion
from ..language import errors
from ..language.functions import FLOAT_FUNCTIONS
from ..language.ir import Binary, Call, Kernel, Ref, Unary
from ..program.graph import Node
from ..program.planning import Group, plan
from .asked import Asked
from .explaining import Lines, memory_text, no_chain, numbers, places, types_text

# The functions that are rounded correctly, or are the same operations on every target.
_EXACT = frozenset("signbit sign isnan isinf isfinite".split())
_EXACT |= {name for name, row in FLOAT_FUNCTIONS.items() if row.exact}


def sources(one: Asked) -> Iterator[Source]:
    """The texts of CUDA C++ that a call on arrays of a GPU compiles, one for each kernel.

    Raises
    ------
    StencilError
        If a kernel takes the general path, which leads to the CPU only.
    """
    for group in _passes(one):
        if group.at_once is not None:
            yield group.at_once.source
            continue
        for node in group.nodes:
            if found := node.compiled.cpu_only:
                place, reason = found
                raise errors.gpu_general(place, node.label, reason)
            yield written(node.compiled.forms, node.border.rules)


def explained(one: Asked) -> str:
    """How a call on arrays of a GPU is computed."""
    if one.is_single:
        check_device([one.last])
        page = _kernel_page(one.last, alone=True)
    else:
        page = _stages_page(one)
    if one.is_step:
        page.add("iterate", _steps_text(one))
    return "\n".join(page)


def _stages_page(one: Asked) -> Lines:
    """What is said of calls, one after the other or in one pass."""
    graph, _ = one.graph
    given = ", ".join(f"{n} {d}" for n, d in zip(graph.names, one.types, strict=False))
    results = ", ".join(map(str, one.last.compiled.out_dtypes))
    page = Lines([f"{one.call.definition.name}: {given} -> {results}, on a GPU"])
    for group in _passes(one):
        joined = group.at_once
        for node in group.nodes:
            made = ", ".join(graph.names[value] for value in node.outputs)
            read = ", ".join(graph.names[value] for value in node.fields)
            page.append(f"  {made} = {node.call.definition.name}({read})")
            head, *lines = _kernel_page(node, alone=joined is None)
            page += [f"    {head}", *(f"  {line}" for line in lines)]
        if joined is not None:
            inner = Lines()
            names = [graph.names[k] for k in group.fields]
            moved = [graph.dtypes[value] for value in group.fields] + list(joined.out_dtypes)
            size = sum(dtype.itemsize for dtype in moved)
            _launches(inner, joined.source, names, f"{size} bytes a point for all of them")
            page += ["  in one pass", *(f"  {line}" for line in inner)]
    return page


def _passes(one: Asked) -> Sequence[Group]:
    """The calls that are tried at once; with what does them, or they are done one by one."""
    graph, wanted = one.graph
    check_device(graph.nodes)
    return plan(graph, wanted, one.schedule, there=True).groups


def _steps_text(one: Asked) -> str:
    """What `iterate` does with a call that can be a step."""
    reason = no_chain(one)
    if not reason:
        most = one.schedule.steps or limits.current.recorded_steps
        motion = Motion(one.call, one.types, one.schedule, Scalars(one.call.scalars))
        graph, wanted = motion.repeated([one.call.scalars] * most)
        groups = plan(graph, wanted, replace(one.schedule, steps=most), there=True).groups
        steps = [sum(graph.stored.issuperset(n.outputs) for n in group.nodes) for group in groups]
        if max(steps) > 1:
            return f"{max(steps)} steps in one pass over memory, where they take long"
        reason = "no text holds two of them"
    return f"one step after the other: {reason}"


def _kernel_page(node: Node, alone: bool) -> Lines:
    """What is said of one kernel; of one `alone`, how it is started as well."""
    compiled = node.compiled
    page = Lines([f"{node.call.definition.name}: {types_text(node)}, on a GPU"])
    if found := compiled.cpu_only:
        reason = found[1] if compiled.unread is None else f"{found[1]}, which is not analysed"
        page.add(
            "path",
            f"none: a GPU computes no kernel that holds {reason};",
            "write it without, or give arrays of NumPy",
        )
        return page
    page.add("path", "understood: whole arrays in the memory of the GPU, borders and all")
    places(page, node, "all points are computed, and these are copied")
    numbers(page, node, compiled.forms.simplified)
    page.add("bits", _bits(compiled.forms))
    if alone:
        source = written(compiled.forms, node.border.rules)
        _launches(page, source, compiled.fields, memory_text(node))
    return page


def _launches(page: Lines, source: Source, fields: Sequence[str], memory: str) -> None:
    """Tell how a text is started."""
    page.add("launches", *_launch_lines(source, fields))
    between = [
        f"and {one.dtype.itemsize} for {one.name}, {one.dtype}, between two launches"
        for one in source.scratch
    ]
    page.add("memory", memory, *between)
    page.add("registers", "unknown before a compiler has made machine code for some GPU")


def _bits(forms: Forms) -> str:
    """How the numbers of a GPU and those of the CPU compare."""
    inexact = sorted(set(_functions(forms.simplified)))
    if forms.request.fastmath:
        return "floats may be rounded in another way than on the CPU (fastmath)"
    if inexact:
        return f"those of the CPU, but for the last places of {', '.join(inexact)}"
    return "those of the CPU"


def _functions(kernel: Kernel) -> Iterator[str]:
    """The functions of floats that each target has from a library of its own."""
    for assign in (*kernel.body, *(one for stage in kernel.stages for one in stage.body)):
        match assign.value:
            case Call(dtype, function) if function not in _EXACT or dtype.is_complex:
                yield function
            case Binary(dtype, "**") if not dtype.is_integer:
                yield "power"
            case Unary(op="abs", arg=Ref(dtype=dtype)) if dtype.is_complex:
                yield "abs of complex numbers"
            case _:
                pass


def _launch_lines(source: Source, fields: Sequence[str]) -> Iterator[str]:
    """A line for each launch, and one for how many points its blocks do."""
    names = {f"field{k}": name for k, name in enumerate(fields)}
    outs = {name for one in source.launches for name in one.arrays if name.startswith("out")}
    names |= {name: f"result {name.removeprefix('out')}" for name in outs}
    if len(outs) == 1:
        names |= dict.fromkeys(outs, "result")
    for launch in source.launches:
        # Fields and scratch that another launch made are read; the rest is written.
        shown = [names.get(name, name) for name in launch.arrays]
        yield f"{launch.function}({', '.join(shown)})"
        yield f"  {_blocks(launch)}"


def _blocks(launch: Launch) -> str:
    points = " x ".join(map(str, launch.tile))
    text = f"blocks of {math.prod(launch.threads)} threads do {points} points"
    if launch.wide:
        text += f", in vectors of {max(launch.wide)} bytes where rows allow it"
    return text
