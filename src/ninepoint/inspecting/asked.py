"""What is asked about: a call of a stencil on fields of given types, instead of a call on arrays.

explain("uint8", r=0.5)     ->     the call with r=0.5, and one uint8 for each field
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays import accepted
from ..arrays.accepted import Arrays
from ..backends.compiled import Compiled
from ..base.frozen import frozen
from ..language.errors import hint
from ..language.positions import Spacing
from ..language.signature import OPTIONS, many
from ..program.definition import Call, Definition
from ..program.graph import Node
from ..program.options import CALL_OPTIONS, PLACE, Place
from ..program.planning import Plan, plan
from ..program.program import Program, program_of


@frozen
class Asked:
    """A call, and the types of its fields; `given` are these, or arrays that have them."""

    call: Call
    types: tuple[np.dtype, ...]
    given: tuple[Any, ...]

    @property
    def program(self) -> Program:
        """The calls of which it consists, and which of their values are the results."""
        return program_of(self.call, self.types)

    @property
    def plan(self) -> Plan:
        """Which calls are done together."""
        return plan(self.program)

    @property
    def kernels(self) -> list[Compiled]:
        """What each pass is compiled to."""
        return [(group.chain or group.nodes[0]).compiled for group in self.plan.groups]

    @property
    def last(self) -> Node:
        """What gives the results."""
        return self.program.last

    @property
    def is_single(self) -> bool:
        """Whether it is one kernel, which calls no other stencils."""
        return not self.call.definition.calls()

    def arguments(self, fields: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """What a call on these fields is given, by position and by name."""
        values = {**dict(zip(self.call.fields, fields, strict=True)), **self.call.scalars}
        return self.call.definition.arguments.given(values)


def asked(
    definition: Definition, given: Sequence[Any] = (), named: Mapping[str, Any] | None = None
) -> Asked:
    """The call on fields of these types, or on arrays of them; float64 if there are none.

    The type of one field serves for all.  Where there is something for each array, small arrays
    stand among the fields as in a call.  A scalar that is neither in `named` nor has a default
    is 0.
    """
    fields, small = definition.fields, definition.options.standard_indexing
    named = dict(named or {})
    arrays = [n for n in definition.parameters if n in fields or n in small]
    if len(fields) < len(given) == len(arrays):
        values = dict(zip(arrays, given, strict=True))
        given = [values.pop(name) for name in fields]
        named = {name: _small(value, name) for name, value in values.items()} | named
    for name in named:
        if name not in definition.parameters and name not in CALL_OPTIONS:
            known = (*definition.parameters, *sorted(CALL_OPTIONS))
            raise TypeError(
                f"{definition.name}() has no parameter '{name}'; it has "
                f"{', '.join(definition.parameters)}{hint(name, known)}."
            )
    given = tuple(given) or ("float64",)
    types = [accepted.native(_dtype(one)) for one in given]
    if len(types) not in (1, len(fields)):
        raise ValueError(
            f"'{definition.name}' has {many(len(fields), 'field')} ({', '.join(fields)}), "
            f"but {many(len(types), 'type')} were given."
        )
    each = len(fields) // len(types)
    defaults = definition.defaults
    scalars = {n: named.get(n, defaults.get(n, 0)) for n in definition.scalars}
    # What coordinates would give is some float.
    scalars = {n: 1.0 if isinstance(v, Spacing) else v for n, v in scalars.items()}
    call = call_of(definition, scalars, named, given)
    return Asked(call, tuple(types) * each, given * each)


def call_of(
    definition: Definition, values: Mapping[str, Any], named: Mapping[str, Any], given: Arrays = ()
) -> Call:
    """The call with these values and the options among what is named, for fields of this kind."""
    Place(**{name: named[name] for name in PLACE if name in named}).check(given)
    return Call.of(definition, values, **{name: named[name] for name in OPTIONS if name in named})


def _dtype(given: Any) -> np.dtype:
    """The dtype of an array, or what stands for one."""
    if isinstance(given, str | type | np.dtype):
        return np.dtype(given)
    found = getattr(given, "dtype", None)
    dtype: np.dtype = accepted.as_field(given).dtype if found is None else np.dtype(found)
    accepted.check_dtype(dtype)
    return dtype


def no_array(what: str, name: str, value: Any) -> TypeError:
    """What is said of a value in the place of an array of NumPy, with what to give instead."""
    kind, cure = f"of type {type(value).__name__}", "give an array, as np.asarray(x) makes it"
    if accepted.is_chunked(value):
        kind, cure = "a Dask array", "give one chunk of it, as x.blocks[0].compute() makes it"
    elif accepted.is_xarray(value):
        cure = "give its array, x.values"
    return TypeError(f"{what} and '{name}' is {kind}; {cure}.")


def _small(value: Any, name: str) -> Any:
    """A small array, of which more than the type is needed."""
    if isinstance(value, str | type | np.dtype):
        raise TypeError(
            f"'{name}' is indexed absolutely, so its shape counts: give an array, such as "
            f"numpy.zeros(256, {np.dtype(value).name!r}), not a dtype."
        )
    return value
