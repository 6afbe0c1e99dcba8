"""Calls: what is done with fields, whichever they are: a definition, its scalars and options."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ..arrays import spacings
from ..arrays.accepted import storage_types
from ..arrays.borders import Boundary
from ..arrays.every import Every, per_axis
from ..arrays.keys import Key, kinds
from ..base.remembered import digest
from ..language.positions import Spacing
from .definition import Definition
from .options import as_it_is, check_grid, overflow_rule

_NUMBERS = (int, float, complex, np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call without its fields.  Pickles, so that workers can have it.

    Calls with equal keys give equal results, if they are plain: elements of arrays may change.
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


# How the numbers of a call come to the calls that its definition makes:
#
#     def twice(x, r):                 twice(x, 0.25)
#         s = heat(x, r)         ->        heat    r = 0.25
#         return s[1] - r * s[0]           rest    r = 0.25
#
# A program of these calls is bound for the types of their numbers.  What a number comes to is
# evaluated in each call; as long as its type stays the same, the program does as well.


def leaves_of(definition: Definition, scalars: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The numbers of all calls, for values of the scalars by name."""
    found: list[Mapping[str, Any]] = []
    for one in definition.calls:
        given = definition.evaluated(one.scalars, scalars)
        numbers = {n: given.get(n, one.callee.defaults.get(n)) for n in one.callee.scalars}
        found += leaves_of(one.callee, numbers)
    return [*found, scalars]


@lru_cache(maxsize=256)
def options_stay(definition: Definition) -> bool:
    """Whether no option of a call that it makes depends on numbers.

    Others would have to be compared each time.
    """
    names = {
        name.id
        for call in definition.calls
        for option in call.options.values()
        for name in ast.walk(option)
        if isinstance(name, ast.Name)
    }
    calls = definition.calls
    return names.isdisjoint(definition.scalars) and all(options_stay(c.callee) for c in calls)


def numbers_key(leaves: Leaves) -> Key | None:
    """Give what a program depends on of the numbers of its calls; None if it cannot.

    Some calls may be equal, but for their numbers: then they are done once.
    """
    key = kinds([value for leaf in leaves for value in leaf.values()])
    if not key or len(leaves) == 1:
        return key
    told = [tuple([(n, identity(v)) for n, v in leaf.items()]) for leaf in leaves]
    return key + tuple([told.index(one) for one in told])
