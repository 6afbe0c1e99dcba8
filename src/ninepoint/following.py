"""Calls that follow each other on lazy arrays, as one program.

    y = blur(x)                  z, where nobody asks for y:   sharpen and blur, from x
    z = sharpen(y)        ->     where somebody does:          sharpen, from y

Whether somebody does is known once a graph is asked for its blocks.  So the layer of `z` holds
both rules, and takes one when it is culled.  Where all that was given is read from sources, the
one program reads regions of these, if that decodes little more than the blocks alone.

Calls that ask for positions stay apart: these are fields of one program, for its own arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask.array as da

from . import limits
from .arrays.chunked import chunks_of, lazily
from .arrays.chunked.edges import Edges
from .arrays.chunked.grid import Chunks
from .arrays.chunked.groups import Picked
from .arrays.chunked.job import Job
from .arrays.chunked.layer import Lazy
from .arrays.chunked.planner import noted
from .arrays.chunked.regions import Origin, costs, origin_of, rule_of, with_nodes
from .arrays.chunked.sources import Source, source_of
from .arrays.layout import Shape
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


def follow(program: Program, given: Sequence[Any], made: Sequence[Any]) -> None:
    """Let what a program gives be made from what its fields were made from.

    Parameters
    ----------
    program : Program
    given : sequence
        Dask arrays, and arrays of NumPy.
    made : sequence of dask.array.Array
        What the program makes of them, whose layers nobody else has yet.
    """
    layer = made[0].dask.layers.get(made[0].name)
    if isinstance(getattr(layer, "rule", None), Picked):
        layer = made[0].dask.layers.get(layer.rule.source)
    if not isinstance(layer, Lazy) or any(is_cupy(field._meta) for field in layer.fields):
        return
    if _asks(program):
        return
    rule: Any = layer.rule
    found = _from_sources(program, given, rule, layer.annotations)
    if found is not None:
        job, sources, passed = found
        layer.further = rule_of(job, sources, rule), passed
        layer.rereads = True
        for one in made:
            one.dask = with_nodes(one, rule.name, sources)
    elif len(made) == 1:
        _follow_edges(program, made[0])


def _from_sources(
    program: Program, given: Sequence[Any], rule: Edges, annotations: Any
) -> tuple[Job, list[Source], frozenset[str]] | None:
    """The program that makes the same of sources, these, and what is passed by."""
    origins = [origin_of(one) if isinstance(one, da.Array) else None for one in given]
    if not any(origins):
        return None
    known: dict[str, Source] = {}
    read: list[list[Source]] = []
    for one, origin in zip(given, origins, strict=True):
        if origin is None:
            source = source_of(one)
            if source is None:
                return None
            read.append([source])
        elif not _alike(origin, program, annotations):
            return None
        else:
            read.append(list(origin.sources))
        known |= {source.name: source for source in read[-1]}
    numbers = {name: k for k, name in enumerate(known)}
    dtypes = [source.dtype for source in known.values()]
    graph = Graph([f"f{k}" for k in range(len(known))], dtypes)
    starts: list[int] = []
    for origin, sources in zip(origins, read, strict=True):
        below = [numbers[source.name] for source in sources]
        if origin is not None:
            work: Any = origin.job.work
            below = [_added(graph, work, below)[origin.position]]
        starts += below
    wanted = _added(graph, program, starts)
    nodes = graph.needed(wanted)
    if len(nodes) > MOST:
        return None
    cuts = [_cut(source.shape, rule.chunks) for source in known.values()]
    shapes = [source.shape for source in known.values()]
    if not _is_one(graph, wanted, nodes, shapes, cuts):
        return None
    part, inside = graph.part(nodes)
    one = Program(part, tuple(inside[v] for v in wanted), program.schedule, part.token)
    order = list(known.values())
    sources = [order[value] for value in inside if value < graph.given]
    if costs(one, sources, rule.chunks)[0] > limits.current.decoded_ratio:
        return None
    passed = frozenset().union(*(origin.between for origin in origins if origin is not None))
    return Job(one, rule.job.shape, tuple(one.field_dtypes)), sources, passed


def _alike(origin: Origin, program: Program, annotations: Any) -> bool:
    """Whether a program that made a field may be one with the program that is given it."""
    work = origin.job.work
    return (
        isinstance(work, Program)
        and not _asks(work)
        and work.schedule == program.schedule
        and origin.layer.annotations == annotations
    )


def _asks(program: Program) -> bool:
    """Whether calls of a program ask for positions, which are fields that nobody names."""
    return any(node.compiled.positions for node in program.graph.nodes)


def _cut(shape: Sequence[int], chunks: Chunks) -> Chunks:
    """The chunks of an array that is cut as the whole is, along the axes that it has."""
    own = chunks[len(chunks) - len(shape) :]
    return tuple(sizes if n == sum(sizes) else (n,) for n, sizes in zip(shape, own, strict=True))


def _is_one(
    graph: Graph, wanted: Sequence[int], nodes: Any, given: Sequence[Shape], cuts: Sequence[Chunks]
) -> bool:
    """Whether the calls are better done in one task a chunk than in several."""
    shapes = graph.shapes(given)
    chunks = dict(enumerate(cuts))
    for node in nodes:
        found = chunks_of(node, [chunks[v] for v in node.fields], [shapes[v] for v in node.fields])
        chunks |= zip(node.outputs, found, strict=True)
    return len(divided(graph, wanted, nodes, shapes, chunks)) == 1


def _follow_edges(program: Program, made: Any) -> None:
    """The same by edges: of arrays in the same chunks, which need no source."""
    layer = made.dask.layers.get(made.name)
    if not _plain(layer):
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
    if _asks(rule.job.work):
        return None
    if rule.job.work.schedule != layer.rule.job.work.schedule:  # type: ignore[attr-defined]
        return None
    if below.annotations != layer.annotations:
        return None
    if far and below.further is not None and isinstance(below.further[0], Edges):
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
    shapes = [one.shape for one in sources]
    if not _is_one(graph, [wanted], nodes, shapes, [one.chunks for one in sources]):
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
