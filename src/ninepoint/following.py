"""Calls that follow each other on lazy arrays, as one program.

    y = blur(x)                  z, where nobody asks for y:   sharpen and blur, from x
    z = sharpen(y)        ->     where somebody does:          sharpen, from y

Whether somebody does is known once a graph is asked for its blocks.  So the layer of `z` holds
both rules, and takes one when it is culled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .arrays.chunked import chunks_of, lazily
from .arrays.chunked.edges import Edges
from .arrays.chunked.layer import Lazy
from .arrays.chunked.planner import noted
from .arrays.recognise import is_cupy
from .graph import Graph
from .program import Program, divided

# More calls than these are not made one: a plan of many takes its time, at each call.
MOST = 8


@dataclass(frozen=True, slots=True)
class _Maker:
    """What made a lazy array: a program, and the arrays that it was given."""

    program: Program
    fields: tuple[Any, ...]
    passed: frozenset[str]


def follow(program: Program, made: Any) -> None:
    """Let what a program gives be made from what its fields were made from."""
    layer = made.dask.layers.get(made.name)
    if not _plain(layer) or any(is_cupy(field._meta) for field in layer.fields):
        return
    fields = layer.fields
    for far in (True, False):
        makers = [_maker(field, made, layer, far=far) for field in fields]
        if not any(makers):
            return
        found = _from_further(program, fields, makers, made)
        if found is not None:
            passed = frozenset(
                name
                for field, maker in zip(fields, makers, strict=True)
                if maker is not None
                for name in (field.name, *maker.passed)
            )
            rule, layer.further_fields = found
            layer.further = replace(rule, name=made.name), passed
            return


def _plain(layer: Any) -> bool:
    """Whether a layer is all blocks of a program of ours, each as it is computed."""
    return (
        isinstance(layer, Lazy)
        and isinstance(layer.rule, Edges)
        and isinstance(layer.rule.job.work, Program)
        and not any(layer.rule.kept)
    )


def _maker(field: Any, made: Any, layer: Lazy, *, far: bool) -> _Maker | None:
    below = field.dask.layers.get(field.name)
    if not _plain(below) or field.chunks != made.chunks:
        return None
    assert isinstance(below, Lazy)
    rule: Any = below.rule
    if rule.job.work.schedule != layer.rule.job.work.schedule:  # type: ignore[attr-defined]
        return None
    if below.annotations != layer.annotations:
        return None
    if far and below.further is not None:
        rule, passed = below.further
        return _Maker(rule.job.work, tuple(below.further_fields), passed)
    return _Maker(rule.job.work, tuple(below.fields), frozenset())


def _from_further(
    program: Program, fields: Sequence[Any], makers: Sequence[_Maker | None], made: Any
) -> tuple[Edges, Sequence[Any]] | None:
    """The rule of the array as one program on these arrays further up, where that is worth it."""
    given: dict[Any, Any] = {}
    for field, maker in zip(fields, makers, strict=True):
        for one in (field,) if maker is None else maker.fields:
            given.setdefault(one.name, one)
    sources = list(given.values())
    if any(one.ndim != made.ndim for one in sources):
        return None
    numbers = {name: k for k, name in enumerate(given)}
    graph = Graph([f"f{k}" for k in range(len(sources))], _dtypes(program, fields, makers, given))
    starts = []
    for field, maker in zip(fields, makers, strict=True):
        if maker is None:
            starts.append(numbers[field.name])
        else:
            below = [numbers[one.name] for one in maker.fields]
            (value,) = _added(graph, maker.program, below)
            starts.append(value)
    (wanted,) = _added(graph, program, starts)
    nodes = graph.needed([wanted])
    if len(nodes) > MOST:
        return None
    shapes = graph.shapes([one.shape for one in sources])
    chunks = {k: one.chunks for k, one in enumerate(sources)}
    for node in nodes:
        found = chunks_of(node, [chunks[v] for v in node.fields], [shapes[v] for v in node.fields])
        chunks |= zip(node.outputs, found, strict=True)
    if len(divided(graph, [wanted], nodes, shapes, chunks)) > 1:
        return None
    one = Program(graph, (wanted,), program.schedule, graph.token)
    with noted():
        # Of this one nobody is told.
        (other,) = lazily(one, sources)
    layer = other.dask.layers.get(other.name)
    known = made.dask.layers
    if not _plain(layer) or other.chunks != made.chunks:
        return None
    if not all(name in known for name in other.dask.layers if name != other.name):
        return None
    return layer.rule, layer.fields


def _dtypes(
    program: Program,
    fields: Sequence[Any],
    makers: Sequence[_Maker | None],
    given: dict[Any, Any],
) -> list[Any]:
    """The types that the programs take the arrays as."""
    found: dict[Any, Any] = {}
    for field, maker, dtype in zip(fields, makers, program.field_dtypes, strict=True):
        if maker is None:
            found[field.name] = dtype
        else:
            found |= zip((f.name for f in maker.fields), maker.program.field_dtypes, strict=True)
    return [found[name] for name in given]


def _added(graph: Graph, program: Program, fields: Sequence[int]) -> list[int]:
    """Add the calls of a program on some values; gives what is wanted of it."""
    numbers = dict(enumerate(fields))
    for node in program.graph.needed(program.wanted):
        made = graph.add(
            node.call,
            [numbers[value] for value in node.fields],
            [program.graph.names[value] for value in node.outputs],
            node.axes,
        )
        numbers |= zip(node.outputs, made, strict=True)
        stored = program.graph.stored
        graph.stored |= {new for old, new in zip(node.outputs, made, strict=True) if old in stored}
    return [numbers[value] for value in program.wanted]
