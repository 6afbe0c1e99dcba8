"""Tell how a kernel is understood and computed, and with arrays, how fast."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..analysis.ranges import ranges
from ..arrays import numpy as on_numpy
from ..arrays.borders import Rule
from ..arrays.conditions import Condition
from ..arrays.lanes import told, told_copies, told_order
from ..arrays.recognise import is_dask, is_device, is_xarray
from ..backends.numba.cpu import interpreted
from ..chaining import unfit
from ..definition import Definition
from ..graph import Node
from ..language import errors
from ..language.signature import signature_text
from ..language.stages import StageCall
from ..language.text import kernel_text
from ..options import CALL_OPTIONS
from ..planning import graph_text, plan_text
from .asked import Asked, asked
from .describing import explanation, measured
from .measuring import measurable, part
from .measuring import measured as measurement
from .picture import cells, footprint_svg


def explained(call: Callable[..., Any], one: Asked, named: Mapping[str, Any]) -> str:
    """The text of `Stencil.explain`; `call` and `named` are there to measure it."""
    if named.get("device") is not None or any(map(is_device, one.given)):
        # Imported here, not above: most programs never ask.
        from .device import explained as on_gpu

        return on_gpu(one)
    name = one.call.definition.name
    found = None
    plans = on_dask(call, one, named)
    if not interpreted() and one.given and measurable(one.given, one.last.ndim):
        options = {n: v for n, v in named.items() if n in CALL_OPTIONS and n != "dims"}
        # Values along an edge are those of the whole array.
        cut = one if one.ghosts else replace(one, given=tuple(part(one.given)))
        found = measurement(call, cut, options, 5, 0.3)
    if not one.is_single:
        text = plan_text(name, one.graph[0], one.plan)
        reason = no_chain(one)
        text += f"\n  iterate     one step after the other: {reason}" if reason else ""
        text += stack_text(one, named)
        return text + plans if found is None else f"{text}\n  measured    {found}"
    forms, reason = one.forms
    border = None if one.call.definition.pointwise else border_text(one)
    every = every_text(one.graph[0].nodes[-1])
    finer = one.call.definition.factors
    text = explanation(name, one.last, forms, reason, border, every, no_chain(one), finer)
    text += stack_text(one, named)
    return text + plans if found is None else f"{text}\n{measured(found)}"


def on_dask(call: Callable[..., Any], one: Asked, named: Mapping[str, Any]) -> str:
    """How a call on Dask arrays, of which none is computed, is divided into tasks."""
    if not any(map(_cut, one.given)):
        return ""
    # Imported here: Dask is optional, and the caller has it.
    from ..arrays.chunked.planner import noted

    definition = one.call.definition
    values = {**dict(zip(definition.fields, one.given, strict=True)), **one.call.scalars}
    parameters, count = definition.parameters, definition.positional
    options = {name: value for name, value in named.items() if name in CALL_OPTIONS}
    rest = {name: values[name] for name in parameters[count:]}
    with noted() as plans:
        call(*(values[name] for name in parameters[:count]), **rest, **options)
    return "".join(f"\n  on Dask     {found}" for found in plans)


def stack_text(one: Asked, named: Mapping[str, Any]) -> str:
    """How arrays of NumPy are done whose stack lies innermost, or whose axes in another order."""
    fields, last = one.given, one.last
    if last.alone or not fields or not all(isinstance(field, np.ndarray) for field in fields):
        return ""
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    if len(shape) < last.ndim:
        return ""
    axes = named.get("axes")
    ends = tuple(range(-last.ndim, 0))
    core = ends if axes is None else on_numpy.core_axes(axes, len(shape), last.ndim)
    whole = [np.moveaxis(np.broadcast_to(field, shape), core, ends) for field in fields]
    program = one.graph[0].nodes[-1].program
    # What other calls make for it lies in memory as the fields do.
    made = len(program.field_dtypes) - program.positions - len(whole)
    read = [*whole, *whole[:1] * made]
    stack, order = told(program, read), told_order(program, read)
    copies = "" if "copied" in stack + order else told_copies(program, whole)
    lines = {"stack": stack, "axes": order, "strides": copies}
    return "".join(f"\n  {name:11} {words}" for name, words in lines.items() if words)


def _cut(array: Any) -> bool:
    return is_dask(array) or (is_xarray(array) and array.chunks is not None)


def no_chain(one: Asked) -> str:
    """Why `Stencil.iterate` does no several steps in one pass; empty where it may.

    Also empty where nothing can be iterated, as the results cannot take the place of fields.
    """
    graph, wanted = one.graph
    if not one.is_step:
        return ""
    return unfit(graph, wanted, one.call.definition.schedule_for(one.types))


def intermediate(one: Asked) -> str:
    """The text of `Stencil.ir`."""
    if not one.is_single:
        graph, _ = one.graph
        return graph_text(graph, [node for group in one.plan.groups for node in group.nodes])
    forms, reason = one.forms
    if forms is None:
        return f"{one.call.definition.name} takes the general path: {reason}."
    known = ranges(forms.simplified)
    return kernel_text(
        forms.simplified, lambda name: f"{known[name].low:g} .. {known[name].high:g}"
    )


def drawn(definition: Definition) -> str | None:
    """A picture for a notebook of what a kernel reads of float64 fields; None if it cannot be.

    What stages make is drawn as fields, with the calls that make them.  A function of numbers
    looks at nothing that could be drawn.
    """
    if definition.pointwise:
        return None
    rest = definition.rest(False)
    try:
        one = asked(rest)
        (forms, _), compiled = one.forms, one.last
    except (errors.StencilError, TypeError, ValueError):
        return None
    if forms is None:
        return None
    read = cells(forms.simplified)
    return footprint_svg(
        f"{definition.name}{signature_text(definition.function)}",
        compiled.reach,
        dict(zip(rest.fields, read.values(), strict=True)),
        [_sides(one, *pair) for pair in one.call.boundary.sides(compiled.ndim)],
        () if definition.stages is None else tuple(map(_made, definition.stages.calls)),
    )


def _sides(one: Asked, before: Rule | Condition, after: Rule | Condition) -> str:
    """What is outside the array along one axis, in words."""
    words = [_rule(one, rule) for rule in (before, after)]
    if before == after:
        return f"border {words[0]}"
    return f"{words[0]} before, {words[1]} after"


def _rule(one: Asked, rule: Rule | Condition) -> str:
    if isinstance(rule, Condition):
        return repr(rule)
    return f"{rule} with {one.call.cval!r}" if rule in ("fill", "constant") else rule


def _made(call: StageCall) -> str:
    """A call of a stencil as one would write it."""
    values = {**call.scalars, **call.options}
    words = [*call.fields, *(f"{name}={ast.unparse(value)}" for name, value in values.items())]
    return f"{', '.join(call.made)} = {call.callee.__name__}({', '.join(words)})"


def every_text(node: Node) -> str:
    """Which points are made, if not all are."""
    if not node.thins:
        return ""
    return f"{node.call.every}: one of {math.prod(node.every)} points is made"


def border_text(one: Asked) -> str:
    """The border rule in words."""
    boundary, cval = one.call.boundary, one.call.cval
    shown = str(boundary).strip("'")
    uses = boundary.uses("fill") or boundary.uses("constant")
    return f"{shown} with {cval!r}" if uses else shown
