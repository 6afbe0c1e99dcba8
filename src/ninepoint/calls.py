"""Calls: what is done with fields, whichever they are: a definition, its scalars and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from .arrays import numpy as on_numpy
from .arrays import prepared
from .arrays.borders import Boundary
from .backends.compiled import Bound, Compiled, readable
from .backends.pipeline import Stages
from .definition import Definition, digest
from .language import ir
from .language.dtypes import DType
from .lowering.schedule import Schedule
from .options import overflow_rule, storage_types

_NUMBERS = (int, float, complex, np.generic)

# Values of all parameters, out -> result, or None if the call must be done the ordinary way.
Prepared: TypeAlias = Callable[[Sequence[Any], Any], Any]


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

    @staticmethod
    def of(
        definition: Definition,
        values: Mapping[str, Any],
        boundary: Any = None,
        cval: Any = None,
        dtype: Any = None,
        overflow: str | None = None,
    ) -> Call:
        """A call with these values, checked; options that are None are the definition's."""
        options = definition.options
        return Call(
            definition,
            {name: values[name] for name in definition.scalars},
            options.boundary if boundary is None else Boundary.of(boundary),
            options.cval if cval is None else cval,
            storage_types(options.dtype if dtype is None else dtype),
            overflow_rule(options.overflow if overflow is None else overflow),
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
        return all(isinstance(value, _NUMBERS) for value in self.scalars.values())

    @property
    def key(self) -> Any:
        """What tells this call from others, for as long as the arrays it is given are there."""
        scalars = tuple((name, _identity(value)) for name, value in self.scalars.items())
        cval = type(self.cval), repr(self.cval)
        return self.definition, scalars, self.boundary, cval, self.dtypes, self.overflow

    @property
    def token(self) -> str:
        """Names the meaning of the call: equal tokens, equal results."""
        return digest((self.definition.token, dict(self.scalars), self.dtypes, self.overflow))

    def program(self, types: Sequence[np.dtype]) -> Bound:
        """What computes the call for fields of these types; warns once if it is slow."""
        compiled, _, reason = self.compiled(types)
        self.definition.warn(compiled, reason)
        return compiled.bind(self.scalars)

    def compiled(
        self, types: Sequence[np.dtype], schedule: Schedule | None = None
    ) -> tuple[Compiled, Stages | None, str]:
        """What the definition is compiled to, with a schedule of its own or another one."""
        return self.definition.compiled(
            types, self.scalars, self.boundary.keeps, self.dtypes, self.overflow, schedule
        )

    def settled(self) -> Call:
        """The call with the values as they are now: arrays may change before a task reads them."""
        scalars = {n: np.array(v) if np.ndim(v) else v for n, v in self.scalars.items()}
        return replace(self, scalars=scalars)

    def prepared(
        self, values: Sequence[Any], axes: Any, out: Any, threads: int | None
    ) -> Prepared:
        """How calls like this one, which went well, are done in short.

        They are given the values of all parameters, in the order of the function.
        """
        names = self.definition.parameters
        at = [names.index(name) for name in self.definition.fields]
        fields = [values[k] for k in at]
        program = self.program([on_numpy.native(field.dtype) for field in fields])
        compiled = program.compiled
        core = on_numpy.core_shape(fields, program.ndim, axes)
        taken: list[tuple[int, Callable[[Any], Any] | None]] = []
        for called, array in zip(compiled.coefficients, program.coefficients, strict=True):
            k = names.index(called)
            taken.append((k, _coefficients(values[k], array)))
        for name, dtype in zip(compiled.scalars, compiled.scalar_types, strict=True):
            if isinstance(name, ir.Length):
                taken.append((at[0], partial(_always, core[name.axis])))
                continue
            k = names.index(name)
            taken.append((k, _number(values[k], dtype)))
        # An array may change later.
        cval = np.array(self.cval)[()] if isinstance(self.cval, np.ndarray) else self.cval
        border = self.boundary.on(program.ndim)
        options = prepared.Options(border, cval, threads)
        run = prepared.prepare(program, compiled.entry, fields, options, out, axes)

        def call(values: Sequence[Any], out: Any) -> Any:
            numbers = [values[k] if to is None else to(values[k]) for k, to in taken]
            return run([values[k] for k in at], numbers, out)

        return call


def _number(value: Any, dtype: DType) -> Callable[[Any], Any] | None:
    """How to give values like this one to machine code; None if they are taken as they are."""
    kind: type = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[dtype.numpy.kind]
    return None if type(value) is kind else kind


def _always(number: int, value: Any) -> int:
    """Give a number that calls with equal keys have in common, whatever the value."""
    return number


def _coefficients(value: Any, array: np.ndarray) -> Callable[[Any], Any] | None:
    """The same for arrays like this one, of which the program has `array`."""
    return None if value is array else partial(readable, dtype=array.dtype)


def _identity(value: Any) -> Any:
    """What tells a number from others, or one array from others while it is there."""
    return (type(value), repr(value)) if isinstance(value, _NUMBERS) else id(value)
