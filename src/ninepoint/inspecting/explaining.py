"""Tell how a kernel is understood and computed, and with arrays, how fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..analysis.ranges import ranges
from ..backends.numba.interpreted import interpreted
from ..definition import Definition
from ..language import errors
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
    name = one.call.definition.name
    found = None
    if not interpreted() and one.given and measurable(one.given, one.last.ndim):
        options = {n: v for n, v in named.items() if n in CALL_OPTIONS and n != "dims"}
        found = measurement(call, replace(one, given=tuple(part(one.given))), options, 5, 0.3)
    if not one.is_single:
        text = plan_text(name, one.graph[0], one.plan)
        return text if found is None else f"{text}\n  measured    {found}"
    forms, reason = one.forms
    text = explanation(name, one.last, forms, reason, border_text(one))
    return text if found is None else f"{text}\n{measured(one.last, forms, found)}"


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
    """A picture for a notebook of what a kernel reads of float64 fields; None if it cannot be."""
    if definition.stages is not None:
        return None
    try:
        one = asked(definition)
        (forms, _), compiled = one.forms, one.last
    except (errors.StencilError, TypeError, ValueError):
        return None
    if forms is None:
        return None
    title = f"{definition.name}({', '.join(definition.parameters)}), border {border_text(one)}"
    read = cells(forms.simplified)
    fields = dict(zip(definition.fields, read.values(), strict=True))
    return footprint_svg(title, compiled.reach, fields)


def border_text(one: Asked) -> str:
    """The border rule in words."""
    boundary, cval = one.call.boundary, one.call.cval
    shown = str(boundary).strip("'")
    uses = boundary.uses("fill") or boundary.uses("constant")
    return f"{shown} with {cval!r}" if uses else shown
