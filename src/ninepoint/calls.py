"""Calls: what is done with fields, whichever they are: a definition, its scalars and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .arrays.accepted import storage_types
from .arrays.borders import Boundary
from .arrays.every import Every, per_axis
from .backends.compiled import Compiled
from .definition import Definition
from .language.positions import Spacing
from .lowering.schedule import Schedule
from .options import as_it_is, check_grid, overflow_rule
from .tokens import digest

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
        cval = type(self.cval), repr(self.cval)
        options = self.boundary, cval, self.dtypes, self.overflow, self.every
        return self.definition, scalars, *options

    @property
    def token(self) -> str:
        """Names the meaning of the call: equal tokens, equal results."""
        border: tuple[Any, str] = repr(self.boundary), repr(self.cval)
        if self.boundary.conditions:
            border = self.boundary.meaning, border[1]
        given = self.dtypes, self.overflow, border, self.every
        return digest((self.definition.token, dict(self.scalars), *given))

    @property
    def spacings(self) -> dict[str, Spacing]:
        """The scalars that the coordinates of the fields give."""
        return {n: one for n, one in self.scalars.items() if isinstance(one, Spacing)}

    def spaced(self, found: Mapping[str, float] | None = None) -> Call:
        """The call with these spacings; without them with some number, which is of their type."""
        found = dict.fromkeys(self.spacings, 1.0) if found is None else found
        return replace(self, scalars={**self.scalars, **found}) if found else self

    def compiled(self, types: Sequence[np.dtype], schedule: Schedule | None = None) -> Compiled:
        """What the definition is compiled to, with a schedule of its own or another one."""
        compile = partial(
            self.definition.compiled,
            types, self.scalars, self.boundary.keeps, self.dtypes, self.overflow, schedule,
        )  # fmt: skip
        found = compile(self.every)
        if len(found.out_dtypes) > 1 and self.boundary.uses("valid"):
            # Each result may have a first point of its own: all points are made, and then cut.
            return compile()
        return found

    def settled(self) -> Call:
        """The call with the values as they are now: arrays may change before a task reads them."""
        scalars = {n: np.array(v) if np.ndim(v) else v for n, v in self.scalars.items()}
        boundary = self.boundary
        if boundary.conditions:
            boundary = boundary.with_conditions(lambda one: one.of(_now))
        return replace(self, scalars=scalars, boundary=boundary)


def _now(value: Any) -> Any:
    """The value as it is now."""
    return np.array(value) if isinstance(value, np.ndarray) else value


def identity(value: Any) -> Any:
    """What tells a number from others, or one array from others while it is there."""
    return (type(value), repr(value)) if isinstance(value, _NUMBERS) else id(value)
