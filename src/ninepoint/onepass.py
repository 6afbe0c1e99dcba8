"""One pass: calls of a graph, or several steps of it, as one text for a GPU.

    ix, iy, corners     ->     corners, with ix and iy in registers       one pass over memory
    8 steps             ->     as one, with the borders' rules between    one pass over memory

Each gives the bits that the calls give one after the other.  Fields, and what calls make, have one
shape; where they have others, and where there is no text, the calls are done one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays.borders import Border
from .backends.compiled import Compiled
from .backends.cuda.source import Source
from .backends.cuda.writing import at_once, link, title
from .backends.pipeline import Forms
from .chaining import lowered, named_parts, unfit
from .graph import Graph, Node
from .language.dtypes import DType
from .lowering.chain import Link
from .lowering.schedule import Schedule
from .remembered import Remembered

if TYPE_CHECKING:
    from .arrays import cuda


@dataclass(frozen=True, slots=True)
class OnePass:
    """Calls, or steps, that are done at once: the text, and what it is given.

    `fields` and `outputs` are values of the graph: `out0` is the first of the outputs.  The
    constants of the text are those of `borders`, by their numbers.  A scalar may be the `Length`
    of an axis, which only the arrays tell.
    """

    source: Source
    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    out_dtypes: tuple[np.dtype, ...]
    coefficients: tuple[np.ndarray, ...]
    scalars: tuple[Any, ...]
    scalar_types: tuple[DType, ...]
    borders: tuple[tuple[Border, Any], ...]
    steps: int = 1


@dataclass(frozen=True, slots=True)
class _Parts:
    """The calls of a graph as links, by names."""

    names: dict[int, str]
    links: tuple[Link, ...]
    borders: tuple[tuple[Border, Any], ...]
    forms: tuple[Forms, ...]


# Texts, by what they were made of; the forms are kept, so that nothing else gets their identity.
_texts: Remembered[Any, tuple[Source | None, tuple[Forms, ...]]] = Remembered(256)


def outputs_of(graph: Graph, nodes: Sequence[Node], wanted: Sequence[int]) -> list[int]:
    """What calls make that others need, or that is wanted."""
    others = {v for node in graph.needed(wanted) if node not in nodes for v in node.fields}
    outside = set(wanted) | others
    return [v for node in nodes for v in node.outputs if v in outside]


def together(
    graph: Graph, nodes: Sequence[Node], outputs: Sequence[int], schedule: Schedule
) -> OnePass | None:
    """Calls that are done at once, each of which is fit to be a part; None if they cannot be.

    `outputs` are values that they make.
    """
    made = {value for node in nodes for value in node.outputs}
    read = (value for node in nodes for value in node.fields if value not in made)
    fields = tuple(dict.fromkeys(read))
    parts = _parts(graph, nodes, fields)
    if parts is None:
        return None
    names = parts.names
    given = [(names[value], graph.dtypes[value]) for value in fields]

    def text() -> Source | None:
        return at_once(
            title(nodes[-1].compiled.name),
            parts.links,
            given,
            [names[value] for value in outputs],
            [border.rules for border, _ in parts.borders],
            schedule,
        )

    key = ("together", *_key(parts, nodes), tuple(outputs), schedule)
    source = _remembered(key, text, parts.forms)
    if source is None:
        return None
    types = tuple(graph.dtypes[value] for value in outputs)
    return _given(source, fields, tuple(outputs), types, nodes, parts.borders)


def steps_together(
    graph: Graph, wanted: Sequence[int], steps: int, schedule: Schedule
) -> OnePass | None:
    """So many steps at once, each of which is the graph; None if they cannot be.

    The states are the first of its fields.  The scalars are those of the first step: who has
    others for each gives these in their order, step by step.
    """
    if unfit(graph, wanted, schedule):
        return None
    nodes = graph.needed(wanted)
    fields = tuple(range(graph.given))
    parts = _parts(graph, nodes, fields)
    if parts is None:
        return None
    names = parts.names

    def text() -> Source | None:
        return at_once(
            f"{title(nodes[-1].compiled.name)}_{steps}",
            parts.links,
            [(names[value], graph.dtypes[value]) for value in fields],
            [names[value] for value in range(len(wanted))],
            [border.rules for border, _ in parts.borders],
            schedule,
            steps,
        )

    source = _remembered(("steps", *_key(parts, nodes), steps, schedule), text, parts.forms)
    if source is None:
        return None
    types = nodes[-1].compiled.out_dtypes
    return _given(source, fields, tuple(wanted), types, nodes, parts.borders, steps)


def _given(
    source: Source,
    fields: tuple[int, ...],
    outputs: tuple[int, ...],
    out_dtypes: tuple[np.dtype, ...],
    nodes: Sequence[Node],
    borders: tuple[tuple[Border, Any], ...],
    steps: int = 1,
) -> OnePass:
    """A text with the numbers that its calls are given, in each of the steps."""
    bounds = [node.program for node in nodes]
    return OnePass(
        source,
        fields,
        outputs,
        out_dtypes,
        tuple(array for bound in bounds for array in bound.coefficients),
        tuple(value for bound in bounds for value in bound.scalars) * steps,
        tuple(dtype for node in nodes for dtype in node.compiled.scalar_types) * steps,
        borders,
        steps,
    )


def longest_steps(
    graph: Graph, wanted: Sequence[int], longest: int, schedule: Schedule
) -> OnePass | None:
    """As many steps at once as registers are there for, `longest` at most; None below two."""
    steps = longest
    while steps > 1:
        found = steps_together(graph, wanted, steps, schedule)
        if found is not None:
            return found
        steps //= 2
    return None


def work_of(one: OnePass, graph: Graph, last: Compiled) -> cuda.Work:
    """What a GPU does for calls of a graph, the last of which is compiled to this."""
    # Imported here: CuPy is optional, and the caller has it.
    from .arrays import cuda

    return cuda.one_pass(
        last.name, one.source, [graph.dtypes[value] for value in one.fields], one.out_dtypes,
        one.coefficients, one.scalar_types, one.borders, last.fastmath,
    )  # fmt: skip


def _parts(graph: Graph, nodes: Sequence[Node], fields: Sequence[int]) -> _Parts | None:
    known = [lowered(graph, node) for node in nodes]
    forms = tuple(one for one in known if isinstance(one, Forms))
    if len(forms) < len(nodes):
        return None
    names, parts = named_parts(graph, nodes, [one.single for one in forms], fields)
    borders: list[tuple[Border, Any]] = []
    numbers: dict[Any, int] = {}
    links: list[Link] = []
    for node, part in zip(nodes, parts, strict=True):
        border, cval = node.border, node.cval
        number = numbers.setdefault((border, type(cval), repr(cval)), len(borders))
        if number == len(borders):
            borders.append((border, cval))
        compiled = node.compiled
        zero = type(cval) in (int, float) and cval == 0
        links.append(
            link(part, compiled.out_dtypes, compiled.reaches, number, border.rules, zero=zero)
        )
    return _Parts(names, tuple(links), tuple(borders), forms)


def _key(parts: _Parts, nodes: Sequence[Node]) -> tuple[Any, ...]:
    return (
        tuple(map(id, parts.forms)),
        tuple((node.fields, node.outputs) for node in nodes),
        tuple(parts.names.values()),
        tuple((one.border, one.keeps, one.leaves, one.unbounded) for one in parts.links),
        tuple(border for border, _ in parts.borders),
    )


def _remembered(
    key: Any, text: Callable[[], Source | None], forms: tuple[Forms, ...]
) -> Source | None:
    found = _texts.get(key)
    if found is None:
        found = _texts[key] = text(), forms
    return found[0]
