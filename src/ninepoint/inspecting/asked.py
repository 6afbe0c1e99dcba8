"""What is asked about: a call of a stencil on fields of given types, instead of a call on arrays.

explain("uint8", r=0.5)     ->     the call with r=0.5, and one uint8 for each field
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import accepted
from ..backends.compiled import Compiled
from ..backends.pipeline import Forms
from ..calls import Call
from ..definition import Definition
from ..graph import Graph, graph_of, has_conditions
from ..language.errors import hint
from ..language.positions import Spacing
from ..language.stages import OPTIONS
from ..options import CALL_OPTIONS, PLACE, Place
from ..planning import Plan, plan

# What a text may be for: the processor, or a GPU of NVIDIA.
TARGETS = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Asked:
    """A call, and the types of its fields; `given` are these, or arrays that have them."""

    call: Call
    types: tuple[np.dtype, ...]
    given: tuple[Any, ...]

    @property
    def graph(self) -> tuple[Graph, tuple[int, ...]]:
        """The calls of which it consists, and which of their values are the results."""
        return graph_of(self.call, self.types, looked=True)

    @property
    def plan(self) -> Plan:
        """Which calls are done together."""
        return plan(*self.graph, self.call.definition.schedule_for(self.types))

    @property
    def kernels(self) -> list[Compiled]:
        """What each pass is compiled to."""
        return [group.compiled or group.nodes[0].compiled for group in self.plan.groups]

    @property
    def last(self) -> Compiled:
        """What gives the results."""
        return self.graph[0].nodes[-1].compiled

    @property
    def forms(self) -> tuple[Forms | None, str]:
        """The forms of the compilation of what gives the results; or why it has none."""
        graph, _ = self.graph
        last = graph.nodes[-1]
        compiled = last.call.compiled([graph.dtypes[value] for value in last.own])
        return compiled.forms, compiled.reason

    @property
    def ghosts(self) -> bool:
        """Whether the border of some call has conditions."""
        return has_conditions(self.graph[0])

    @property
    def is_single(self) -> bool:
        """Whether it is one kernel, which calls no other stencils."""
        return self.call.definition.stages is None

    @property
    def is_step(self) -> bool:
        """Whether its results can take the place of fields, of their shape and types."""
        graph, wanted = self.graph
        fields = graph.dtypes[: graph.given][: len(wanted)]
        if self.call.definition.pointwise or self.graph[0].nodes[-1].resizes:
            return False
        if any(node.factors for node in graph.nodes):
            return False
        return [graph.dtypes[value] for value in wanted] == fields


def asked(
    definition: Definition, given: Sequence[Any] = (), named: Mapping[str, Any] | None = None
) -> Asked:
    """The call on fields of these types, or on arrays of them; float64 if there are none.

    A scalar that is neither in `named` nor has a default is 0.
    """
    given, small = _parted(definition, given)
    named = small | dict(named or {})
    for name in named:
        if name not in definition.parameters and name not in CALL_OPTIONS:
            known = (*definition.parameters, *sorted(CALL_OPTIONS))
            raise TypeError(
                f"{definition.name}() has no parameter '{name}'; it has "
                f"{', '.join(definition.parameters)}{hint(name, known)}."
            )
    defaults = definition.defaults
    values = {n: named.get(n, defaults.get(n, 0)) for n in definition.scalars}
    # What coordinates would give is some float.
    values = {n: 1.0 if isinstance(v, Spacing) else v for n, v in values.items()}
    options = {name: named[name] for name in OPTIONS if name in named}
    place = {name: named[name] for name in PLACE if name in named}
    Place(**place).check(given)
    types = tuple(types_of(definition, given))
    given = tuple(given) * (len(types) if len(given) == 1 else 1)
    return Asked(Call.of(definition, values, **options), types, given)


def check_target(target: object) -> None:
    """Raise unless texts are written for this target."""
    if target not in TARGETS:
        raise ValueError(f'target={target!r} is unknown; use "cpu" or "cuda".')


def types_of(definition: Definition, given: Sequence[Any]) -> list[np.dtype]:
    """The dtypes of the fields; one alone serves for all."""
    fields = definition.fields
    given, _ = _parted(definition, given)
    dtypes = [accepted.native(_dtype(item)) for item in given or ("float64",)]
    if len(dtypes) == 1:
        dtypes = dtypes * len(fields)
    if len(dtypes) != len(fields):
        raise ValueError(
            f"'{definition.name}' has {_count(len(fields), 'field')} ({', '.join(fields)}), "
            f"but {_count(len(dtypes), 'type')} were given."
        )
    return dtypes


def _parted(
    definition: Definition, given: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The fields, or their types, and by name the small arrays that stand among them."""
    fields, small = definition.fields, definition.options.standard_indexing
    names = [n for n in definition.parameters if n in fields or n in small]
    if len(given) <= len(fields) or len(given) != len(names):
        return tuple(given), {}
    values = dict(zip(names, given, strict=True))
    arrays = {n: _small(v, n) for n, v in values.items() if n not in fields}
    return tuple(values[name] for name in fields), arrays


def _dtype(given: Any) -> np.dtype:
    """The dtype of an array, or what stands for one."""
    if isinstance(given, str | type | np.dtype):
        return np.dtype(given)
    found = getattr(given, "dtype", None)
    dtype: np.dtype = accepted.as_field(given).dtype if found is None else np.dtype(found)
    accepted.check_dtype(dtype)
    return dtype


def _small(value: Any, name: str) -> Any:
    """A small array, of which more than the type is needed."""
    if isinstance(value, str | type | np.dtype):
        raise TypeError(
            f"'{name}' is indexed absolutely, so its shape counts: give an array, such as "
            f"numpy.zeros(256, {np.dtype(value).name!r}), not a dtype."
        )
    return value


def _count(number: int, word: str) -> str:
    """Give a number with its word: 1 field, 2 fields."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
