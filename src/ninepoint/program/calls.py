"""Calls: what is done with fields, whichever they are: a definition, its scalars and options."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ..arrays import spacings
from ..arrays.accepted import storage_types
from ..arrays.borders import Boundary
from ..arrays.every import Every, per_axis, steps_of
from ..arrays.keys import Key, kinds
from ..backends.compiled import Compiled
from ..base.remembered import digest
from ..language.positions import Spacing
from ..lowering.schedule import Request, Schedule
from .definition import Definition
from .options import as_it_is, check_grid, overflow_rule

_NUMBERS = (int, float, complex, np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call without its fields.  Pickles, so that workers can have it.

    Equal calls give equal results; a call with an array among its scalars equals no other one,
    and has no hash, for the elements of the array may change.
    """

    definition: Definition
    scalars: Mapping[str, Any]
    boundary: Boundary
    cval: Any
    dtypes: tuple[np.dtype, ...] | None
    overflow: str | None
    every: Every = 1

    @staticmethod
    def of(
        definition: Definition,
        values: Mapping[str, Any],
        boundary: Any = None,
        cval: Any = None,
        dtype: Any = None,
        overflow: str | None = None,
        every: Any = None,
        upsample: Any = None,
    ) -> Call:
        """A call with these values, checked; options that are None are the definition's."""
        if upsample is not None:
            definition = definition.upsampled(per_axis("upsample", upsample))
        options = definition.options
        given = options.boundary if boundary is None else Boundary.of(boundary)
        given, cval = given.named(options.cval if cval is None else as_it_is(cval))
        steps = options.every if every is None else per_axis("every", every)
        check_grid(steps, options.upsample)
        for name, value in values.items():
            if definition.pointwise and isinstance(value, Spacing):
                raise TypeError(
                    f"'{name}' of the ufunc '{definition.name}' cannot be {value!r}: a ufunc has "
                    "no axes; give a number."
                )
        return Call(
            definition,
            {name: as_it_is(values[name]) for name in definition.scalars},
            given,
            cval,
            options.dtypes if dtype is None else storage_types(dtype),
            options.overflow if overflow is None else overflow_rule(overflow),
            steps,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Call):
            return NotImplemented
        return self is other or (self.is_plain and other.is_plain and self.key == other.key)

    def __hash__(self) -> int:
        if not self.is_plain:
            raise TypeError("a call that is given an array has no hash.")
        return hash(self.key)

    @property
    def is_plain(self) -> bool:
        """Whether it is given numbers only, which never change."""
        return not self.boundary.conditions and all(
            isinstance(value, _NUMBERS) for value in self.scalars.values()
        )

    @property
    def key(self) -> Any:
        """What tells this call from others, for as long as the arrays it is given are there."""
        scalars = tuple((name, identity(value)) for name, value in self.scalars.items())
        return *self.kind, scalars

    @property
    def kind(self) -> Any:
        """What tells calls like this one, which have other numbers, from all others."""
        cval = type(self.cval), repr(self.cval)
        return self.definition, self.boundary, cval, self.dtypes, self.overflow, self.every

    @property
    def token(self) -> str:
        """Names the meaning of the call: equal tokens, equal results."""
        border = self.boundary.meaning if self.boundary.conditions else repr(self.boundary)
        given = self.dtypes, self.overflow, (border, repr(self.cval)), self.every
        return digest((self.definition.token, dict(self.scalars), *given))

    @property
    def spacings(self) -> dict[str, Spacing]:
        """The scalars that the coordinates of the fields give."""
        return {n: one for n, one in self.scalars.items() if isinstance(one, Spacing)}

    def check_spaced(self) -> None:
        """Raise where there are no coordinates from which a spacing could be taken."""
        for name in self.spacings:
            raise spacings.unknown(name, self.definition.name)

    def spaced(self, found: Mapping[str, float] | None = None) -> Call:
        """The call with these spacings; without them with some number, which is of their type."""
        found = dict.fromkeys(self.spacings, 1.0) if found is None else found
        return replace(self, scalars={**self.scalars, **found}) if found else self

    def compiled(self, types: Sequence[np.dtype], schedule: Schedule | None = None) -> Compiled:
        """What the definition is compiled to, with a schedule of its own or another one."""
        definition, options = self.definition, self.definition.options
        request = Request(
            options.neighborhood,
            self.dtypes,
            self.overflow,
            definition.kept if self.boundary.uses("keep") else 0,
            options.fastmath,
            schedule or definition.schedule_for(types),
            definition.factors,
            () if self.every == 1 else steps_of(self.every, definition.rank),
        )
        found = definition.compiled(types, self.scalars, request)
        if request.every and len(found.out_dtypes) > 1 and self.boundary.uses("valid"):
            # Each result may have a first point of its own: all points are made, and then cut.
            return definition.compiled(types, self.scalars, replace(request, every=()))
        return found

    def settled(self) -> Call:
        """The call with the values as they are now: arrays may change before a task reads them."""
        scalars = {n: np.array(v) if np.ndim(v) else v for n, v in self.scalars.items()}
        boundary = self.boundary
        if boundary.conditions:
            boundary = boundary.with_conditions(lambda one, *_: one.of(_now))
        return replace(self, scalars=scalars, boundary=boundary)


def _now(value: Any) -> Any:
    """The value as it is now."""
    return np.array(value) if isinstance(value, np.ndarray) else value


def identity(value: Any) -> Any:
    """What tells a number from others, or one array from others while it is there."""
    return (type(value), repr(value)) if isinstance(value, _NUMBERS) else id(value)


# For each recorded call, in order, the values of its scalars by name.
Leaves: TypeAlias = Sequence[Mapping[str, Any]]


class Flow:
    """How the numbers of a call come to the calls that its definition makes.

        def twice(x, r):                 twice(x, 0.25)
            s = heat(x, r)         ->        heat    r = 0.25
            return s[1] - r * s[0]           rest    r = 0.25

    A program of these calls is bound for the types of their numbers.  What a number comes to is
    evaluated in each call; as long as its type stays the same, the program does as well.  Options
    of these calls that depend on numbers would have to be compared each time; it is `settled` if
    there are none.
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._places = tuple(
            (name, definition.parameters.index(name)) for name in definition.scalars
        )
        self.settled = not any(map(_asks_numbers, _called(definition)))
        self._known: tuple[Leaves, Key | None] | None = None

    def of(self, values: Sequence[Any]) -> tuple[Leaves, Key | None]:
        """Give the numbers of all calls, and what programs depend on of them, for arguments.

        The latter is None if programs cannot depend on them.
        """
        if self._known is not None:
            return self._known
        leaves = self.told({name: values[k] for name, k in self._places})
        found = leaves, numbers_key(leaves)
        if not self._places:
            self._known = found
        return found

    def told(self, scalars: Mapping[str, Any]) -> Leaves:
        """The numbers of all calls, for values of the scalars by name."""
        return list(_leaves(self._definition, scalars))


@lru_cache(maxsize=256)
def flow_of(definition: Definition) -> Flow:
    """Give the flow of a definition, from memory if it was asked for before."""
    return Flow(definition)


def numbers_key(leaves: Leaves) -> Key | None:
    """Give what a program depends on of the numbers of its calls; None if it cannot.

    Some calls may be equal, but for their numbers: then they are done once.
    """
    key = kinds([value for leaf in leaves for value in leaf.values()])
    if not key or len(leaves) == 1:
        return key
    told = [tuple([(n, identity(v)) for n, v in leaf.items()]) for leaf in leaves]
    return key + tuple([told.index(one) for one in told])


def _leaves(definition: Definition, scalars: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    stages = definition.stages
    for one in () if stages is None else stages.calls:
        callee = one.callee
        given = stages.values(one.scalars, scalars) if stages and one.scalars else {}
        yield from _leaves(
            callee, {n: given[n] if n in given else callee.defaults[n] for n in callee.scalars}
        )
    yield scalars


def _called(definition: Definition) -> Iterator[Definition]:
    """The definitions of all calls, in order."""
    for one in () if definition.stages is None else definition.stages.calls:
        yield from _called(one.callee)
    yield definition


def _asks_numbers(definition: Definition) -> bool:
    """Whether an option of a call that it makes depends on numbers."""
    return any(
        name.id in definition.scalars
        for call in (() if definition.stages is None else definition.stages.calls)
        for option in call.options.values()
        for name in ast.walk(option)
        if isinstance(name, ast.Name)
    )
