"""Definitions: what a stencil means, checked; calls: with scalars and options, without fields.

    def corners(x, k):                    Definition     fields x, scalars k
        xx = square(x, 2 * k)      ->       calls()      xx = square(x, 2 * k)
        return xx[0, 1] - k                 rest(...)    a definition with the fields x, xx

Equal tokens mean the same.  A definition whose function calls other stencils knows those calls,
and the definition to which what they make is given; only definitions without calls are compiled.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..arrays.accepted import (
    DTypes,
    as_field,
    as_it_is,
    check_dtype,
    has_no_axes,
    is_chunked,
    is_number,
    is_xarray,
    native,
    refuse_foreign,
    storage_types,
)
from ..arrays.borders import Boundary
from ..arrays.every import Every, per_axis, steps_of
from ..arrays.keys import Key, kinds
from ..backends import cache
from ..backends.compiled import Compiled
from ..base.remembered import Registry, Remembered, digest
from ..base.undisturbed import Later
from ..language.definitions import ArrayFunction, Function
from ..language.dtypes import Argument, Coefficients, Field, Scalar, value_type
from ..language.errors import SLOWER, PerformanceWarning, StencilError, mistake, warn
from ..language.ir import DType
from ..language.parameters import (
    array_parameters,
    array_uses,
    divides_position,
    indexed_parameters,
    indices,
)
from ..language.positions import Spacing
from ..language.readable import with_room
from ..lowering.schedule import Schedule
from .options import (
    CALL_OPTIONS,
    ByName,
    Options,
    Parameters,
    check_grid,
    check_parameters,
    overflow_rule,
)

if TYPE_CHECKING:
    from ..language import expressions, parse, values
    from ..language import stages as stages
else:
    # What was compiled before is neither read nor lowered.
    parse = Later("..language.parse", __package__)
    expressions = Later("..language.expressions", __package__)
    stages = Later("..language.stages", __package__)
    values = Later("..language.values", __package__)

# Mistakes that do not depend on the types of the arguments, so that they are raised when the
# kernel is decorated. Any other is raised at the first call.
_CERTAIN = frozenset(
    "offset-not-constant offset-outside offset-far offset-count offset-type window-open "
    "window-step window-empty assigned-field assigned-constant recursion undefined-name "
    "maybe-undefined no-return not-a-number return-mismatch choice-mismatch no-field unsupported "
    "bad-constant offset-position position-field stage-use mask-empty mask-shape mask-type "
    "window-index ufunc-index ufunc-position ufunc-stage stage-arguments stage-field "
    "stage-general stage-place stage-scalar parameter-kind".split()
)

# What fields are while only calls are asked for: the first of which the text understands.
_TRIED = tuple(map(np.dtype, ("int64", "float64", "uint64", "complex128")))

# Those that a call may mend which makes more results.
_WITH_FACTORS = ("offset-not-constant", "offset-position")

# The most results around each element: more would take minutes to compile.
MOST_RESULTS = 256

_definitions: Registry[Definition] = Registry()

# The definitions that a `PerformanceWarning` told of.
_told: set[str] = set()


class Definition:
    """What a stencil means: a function of a point and its neighbours, and its options.

    With `whole` it is that definition without its calls, given what these make, and if it is
    `keeping`, it has all fields of `whole`, in their order, though it may not read some.

    Attributes
    ----------
    function : Function
        The user's function.
    options : Options
        What the stencil was decorated with.
    known_by_token : bool
        That its token says all of it, functions included.
    live : function or None
        The function itself, in the process where it was decorated.
    name, parameters, defaults
        What the function is called, its parameters in their order, and the values of some.
    kind : str
        What it is, in messages.
    fields, scalars : tuple of str
        The parameters that are read relative to the point, and all others.
    arguments : Parameters
        Puts the arguments of a call in their order.
    may_call : bool
        Whether it calls other stencils, as far as that is known.
    token : str
        Names the meaning, in any process.
    programs : dict
        Programs of its calls that differ in nothing but the data; emptied when it is tuned.
    compiled, compiling
        What it was compiled to, and the lock of those who compile it.
    """

    known_by_token = True

    def __init__(
        self,
        function: Function,
        options: Options,
        live: Any = None,
        whole: Definition | None = None,
        keeping: bool = False,
    ) -> None:
        self.function, self.options, self.live = function, options, live
        self.name, self.defaults = function.name, function.defaults
        # To a function of numbers the others that it calls are functions of numbers too.
        self.pointwise = options.pointwise
        self.kind = "ufunc" if self.pointwise else "stencil"
        self.programs: Remembered[Any] = Remembered(16)
        self.arguments = Parameters(function, self.defaults)
        self._whole, self._keeping = whole, keeping
        self.compiled: dict[Any, Compiled] = {}
        self.compiling = threading.Lock()
        self._schedules: Remembered[Schedule] = Remembered(256)
        self._variants: Remembered[Definition] = Remembered(256)
        # What was met of other stencils by the kinds of the arguments, and for the first of these.
        self._met: Remembered[values.Met] = Remembered(256)
        self._stages: values.Met | None = None
        self.parameters, self.may_call = function.parameters, False
        self.token: str
        # The parameters that are arrays: read with an index, or given to a call as a field; of a
        # ufunc those by position, unless their default is a number.
        if whole is not None:
            self.parameters = whole._remaining(keeping)
            arrays = {*self.parameters} - {*whole.scalars}
            self.token = f"{whole.token}-{'keeping' if keeping else 'rest'}"
        else:
            arrays = indexed_parameters(function)
            meant = replace(options, boundary=options.boundary.meaning)
            self.token = digest((function, meant))
        if self.pointwise:
            arrays |= set(array_parameters(function)) - set(options.numbers)
        elif whole is None:
            called = function.constants.values()
            self.may_call = any(isinstance(value, ArrayFunction) for value in called)
        self._standard: set[str] = (
            whole._standard if whole else arrays & {*options.standard_indexing}
        )
        self.fields = tuple(p for p in self.parameters if p in arrays - self._standard)
        self.scalars: tuple[str, ...] = tuple(p for p in self.parameters if p not in self.fields)
        if whole is not None:
            return
        self._check_names()
        self._check_factors()
        if self.may_call or not cache.noted(self.name, self.token):
            with_room(self._check_body, function)
        _definitions.add(self.token, self)

    def __reduce__(self) -> Any:
        if self._whole is not None:
            return Definition.rest, (self._whole, self._keeping)
        stages = self._stages if self.may_call else None
        return _restored, (self.token, self.function, self.options, stages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Definition) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    @cached_property
    def rank(self) -> int:
        """Along how many axes it works, as far as its text shows."""
        if self.options.neighborhood is not None:
            return len(self.options.neighborhood)
        return indices(self.function, self.fields) or 1

    def along(self, rank: int) -> Definition:
        """A ufunc done along so many axes at once, as a part of what works along these."""
        if not self.pointwise or rank == self.rank:
            return self
        return self._variant(neighborhood=((0, 0),) * rank)

    def upsampled(self, factors: Every) -> Definition:
        """The same with so many times as many points."""
        if self.pointwise and factors != 1:
            raise TypeError(
                f"the ufunc '{self.name}' gives one result for each element; leave 'upsample=' "
                "out."
            )
        return self if factors == self.options.upsample else self._variant(upsample=factors)

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """By how much a result is longer than the fields, axis by axis; nothing if it is not."""
        upsample = self.options.upsample
        return () if upsample == 1 else steps_of(upsample, self.rank)

    def with_numbers(self, names: Collection[str]) -> Definition:
        """A ufunc some of whose fields are given numbers: to it they are scalars."""
        if not names:
            return self
        return self._variant(numbers=tuple(sorted({*self.options.numbers, *names})))

    def _variant(self, **changes: Any) -> Definition:
        """The same function with other options, made once."""
        return self._variants.made(
            tuple(changes.items()),
            lambda: Definition(self.function, replace(self.options, **changes), self.live),
        )

    @property
    def is_known(self) -> bool:
        """Whether it is known which calls it makes."""
        return self._stages is not None or not self.may_call

    def calls(self, scalars: ByName | None = None) -> Sequence[stages.StageCall]:
        """The calls of other stencils that it makes, in order, for scalars such as these.

        Without scalars there are none of what is not known.
        """
        if not self.may_call:
            return ()
        if scalars is None:
            return self._stages.calls if self._stages else ()

        def met() -> values.Met:
            return with_room(lambda: self._read(scalars, _TRIED), self.function)

        key = kinds([*scalars.values()])
        found = met() if key is None else self._met.made(key, met)
        self._stages = self._stages or found
        self.may_call = bool(found.calls)
        return found.calls

    def _read(self, scalars: ByName, tried: DTypes) -> values.Met:
        """What the text calls for scalars such as these, as far as it is understood."""
        found: list[values.Met] = []
        for storage in tried:
            kinds = self.kinds([storage] * len(self.fields), scalars)
            arguments = {one.name: one for one in kinds}
            try:
                parse.read(
                    self.function, arguments, self.options.neighborhood, self.factors, calls=True
                )
            except values.NotUnderstood:
                return values.Met()
            except StencilError as error:
                if error.diagnostic.code in _CERTAIN or not tried[1:]:
                    raise
                found.append(values.reading.stages)
            else:
                return values.reading.stages
        # It is for fields of different types: what it reads is not known beyond its mistake.
        met = max(found, key=lambda one: len(one.calls))
        met.read.update(self.fields, *(call.made for call in met.calls))
        return met

    def rest(self, keeping: bool) -> Definition:
        """Give it without the calls; `keeping` all fields, for the rule "keep"."""
        if not self.calls():
            return self
        return self._variants.made(
            keeping, lambda: Definition(self.function, self.options, None, self, keeping)
        )

    def _remaining(self, keeping: bool) -> tuple[str, ...]:
        """The parameters without the fields that only other stencils read, and what these make."""
        assert self._stages is not None
        read = self._stages.read
        kept = {*self.scalars, *(self.fields if keeping else read)}
        made = [name for call in self._stages.calls for name in call.made if name in read]
        return *(name for name in self.parameters if name in kept), *made

    # Mistakes that can be seen without knowing the arguments.

    def _check_names(self) -> None:
        function, options = self.function, self.options
        check_parameters(function, self.kind, CALL_OPTIONS)
        for name, default in function.defaults.items():
            if isinstance(default, Spacing) and (name in self.fields or name in self._standard):
                raise ValueError(
                    f"'{name}' of '{function.name}' is read with an index, and {default!r} is one "
                    f"number; compute with '{name}' as it is, or leave the default out."
                )
        for name in options.standard_indexing:
            if name not in function.parameters:
                raise ValueError(
                    f"standard_indexing names '{name}', which is no parameter of "
                    f"'{function.name}' ({', '.join(function.parameters)})."
                )
        first = function.parameters[:1]
        if first in (("self",), ("cls",)) and (self.pointwise or first[0] not in self.fields):
            raise mistake("method", function.place, function.name, first[0])
        if self.pointwise:
            arrays = array_parameters(function)
            for place, name, whole in array_uses(function, arrays):
                raise mistake("ufunc-whole" if whole else "ufunc-index", place, name)
            if not arrays:
                raise mistake("ufunc-no-field", function.place, function.name)
        elif not self.fields:
            raise mistake("no-field", function.place, function.name)

    def _check_factors(self) -> None:
        factors, rank = self.options.upsample, self.rank
        if isinstance(factors, tuple) and len(factors) != rank:
            raise ValueError(
                f"upsample={factors} has {len(factors)} factors, but '{self.name}' works along "
                f"{rank} {'axis' if rank == 1 else 'axes'}."
            )
        if (results := math.prod(self.factors)) > MOST_RESULTS:
            raise ValueError(
                f"upsample={factors} makes {results} results around each element, more than a "
                f"stencil is compiled for ({MOST_RESULTS}); make finer results by a part of it, "
                "and finer ones of these, or of one axis after the other."
            )

    def _check_body(self) -> None:
        expressions.refuse(self.function)
        if self.options.standard_indexing:
            return
        given = dict.fromkeys(self.scalars, 1)
        try:
            self._stages = self._read(given, _TRIED[:1])
            self.may_call = bool(self._stages.calls)
        except StencilError as error:
            code = error.diagnostic.code
            if code in _WITH_FACTORS and divides_position(self.function):
                # What is left of a position may be constant with the factors of a call.
                return
            if code in _CERTAIN:
                raise

    # What is compiled.

    @property
    def kept(self) -> int:
        """How many fields the rule "keep" may keep values of: what a stage made is not kept."""
        return len((self._whole or self).fields)

    def kinds(self, types: DTypes, scalars: ByName) -> tuple[Argument, ...]:
        """The kinds of all arguments, for fields of these types and scalars such as these.

        Raises for a value that is no scalar, whether anything uses it or not.
        """
        fields = dict(zip(self.fields, types, strict=True))
        return tuple(
            Field(name, fields[name], self.pointwise)
            if name in fields
            else kind_of(name, scalars[name], name in self._standard)
            for name in self.parameters
        )

    def warn(self, compiled: Compiled) -> None:
        """Say once that the kernel takes the general path.

        Not in a process that was sent the stencil: whoever sent it has been told.  Nor of a ufunc,
        whose elements are at hand on either path.
        """
        if compiled.unread is None or self.pointwise:
            return
        told = self._whole or self
        if told.live is None or told.token in _told or not told.options.performance_warnings:
            return
        found = mistake("slow-kernel", compiled.unread, told.name, compiled.reason, SLOWER)
        warn(str(found), PerformanceWarning)
        _told.add(told.token)

    def schedule_for(self, types: DTypes) -> Schedule:
        """What the stencil was decorated with, or what was found by tuning for these types."""
        if self.options.schedule != Schedule():
            return self.options.schedule
        kinds = tuple(types)
        return self._schedules.made(kinds, lambda: cache.tuned(self.token, kinds) or Schedule())

    def tune(self, types: DTypes, schedule: Schedule) -> Any:
        """Use a schedule for these types from now on; gives the file that keeps it."""
        path = cache.keep_tuned(self.token, types, schedule)
        self._schedules[tuple(types)] = schedule
        # What was compiled is of the schedule before.
        self.compiled.clear()
        self.programs.clear()
        return path

    def with_schedule(self, types: DTypes, schedule: Schedule) -> Definition:
        """Give the same meaning with another schedule, whatever tuning found for these types."""
        other = Definition(self.function, replace(self.options, schedule=schedule), self.live)
        other._schedules[tuple(types)] = schedule
        return other


def _restored(
    token: str, function: Function, options: Options, stages: values.Met | None
) -> Definition:
    found = _definitions.restored(token, lambda: Definition(function, options))
    found._stages = found._stages or stages
    return found


def kind_of(name: str, value: Any, standard: bool) -> Argument:
    """The kind of a parameter that is no field, from its value."""
    if is_chunked(value) or is_xarray(value):
        raise TypeError(f"'{name}' is a scalar or a small array; compute it first.")
    refuse_foreign(value, f"'{name}'")
    if standard and np.ndim(value) == 0:
        raise TypeError(
            f"'{name}' is indexed absolutely (standard_indexing), so it must be an array, "
            f"not {value!r}."
        )
    # Before Python's numbers: some of NumPy's are such as well.
    if isinstance(value, np.generic):
        check_dtype(value.dtype, name)
        return Scalar(name, value_type(value.dtype))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        cure = "pass np.uint64 of it, or" if 0 <= value < 2**64 else "pass"
        raise ValueError(f"'{name}'={value} does not fit into int64; {cure} a float.")
    for kind, dtype in _WEAK:
        if isinstance(value, kind):
            return Scalar(name, dtype, weak=True)
    if value is None or isinstance(value, str | bytes):
        raise TypeError(f"'{name}' must be a number or an array of numbers, not {value!r}.")
    array = as_field(value, name)
    if array.ndim == 0:
        return Scalar(name, value_type(array.dtype))
    return Coefficients(name, native(array.dtype), array.shape)


# Python's numbers, which take the type of what is beside them: a bool is an int too.
_WEAK = (bool, DType.BOOL), (int, DType.INT), (float, DType.F64), (complex, DType.C128)


# Calls.

_NUMBERS = (int, float, complex, np.generic)


@dataclass(frozen=True, eq=False)
class Call:
    """One call without its fields.  Pickles, so that workers can have it.

    Calls with equal keys give equal results, if they are plain: elements of arrays may change.
    """

    definition: Definition
    scalars: ByName
    boundary: Boundary
    cval: Any
    dtypes: tuple[np.dtype, ...] | None
    overflow: str | None
    every: Every = 1

    @staticmethod
    def of(
        definition: Definition,
        values: ByName,
        boundary: Any = None,
        cval: Any = None,
        dtype: Any = None,
        overflow: str | None = None,
        every: Any = None,
        upsample: Any = None,
    ) -> Call:
        """A call with these values, checked; options that are None are the definition's.

        To a ufunc that is given arrays, numbers beside them are scalars.
        """
        if definition.pointwise:
            fields = {n: values[n] for n in definition.fields if n in values}
            if not all(map(has_no_axes, fields.values())):
                numbers = [n for n, value in fields.items() if is_number(value)]
                definition = definition.with_numbers(numbers)
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

    @cached_property
    def token(self) -> str:
        """Names the meaning of the call, arrays of it included: equal tokens, equal results."""
        border = self.boundary.meaning, repr(self.cval)
        given = self.dtypes, self.overflow, border, self.every
        return digest((self.definition.token, dict(self.scalars), *given))

    @property
    def spacings(self) -> dict[str, Spacing]:
        """The scalars that the coordinates of the fields give."""
        return {n: one for n, one in self.scalars.items() if isinstance(one, Spacing)}

    def check_spaced(self) -> None:
        """Raise where there are no coordinates from which a spacing could be taken."""
        for name in self.spacings:
            raise TypeError(
                f"{self.definition.name}() needs a value for '{name}': npt.spacing takes it from "
                "the coordinates of xarray objects, in calls and in iterate; give "
                f"{name}=... here."
            )

    def spaced(self, found: Mapping[str, float] | None = None) -> Call:
        """The call with these spacings; without them with some number, which is of their type."""
        found = dict.fromkeys(self.spacings, 1.0) if found is None else found
        return replace(self, scalars={**self.scalars, **found}) if found else self

    def settled(self) -> Call:
        """The call with the values as they are now: arrays may change before a task reads them."""
        scalars = {n: np.array(v) if np.ndim(v) else v for n, v in self.scalars.items()}
        boundary = self.boundary.with_conditions(
            lambda one, *_: one.of(lambda v: np.array(v) if isinstance(v, np.ndarray) else v)
        )
        return replace(self, scalars=scalars, boundary=boundary)


def identity(value: Any) -> Any:
    """What tells a number from others, or one array from others while it is there."""
    return (type(value), repr(value)) if isinstance(value, _NUMBERS) else id(value)


# For each recorded call, in order, the values of its scalars by name.
Leaves: TypeAlias = Sequence[ByName]


# How the numbers of a call come to the calls that its definition makes:
#
#     def twice(x, r):                 twice(x, 0.25)
#         s = heat(x, r)         ->        heat    r = 0.25
#         return s[1] - r * s[0]           rest    r = 0.25
#
# A program of these calls is bound for the types of their numbers.  What a number comes to is
# evaluated in each call; as long as its type stays the same, the program does as well.


def leaves_of(definition: Definition, scalars: ByName) -> list[ByName]:
    """The numbers of all calls, for values of the scalars by name."""
    found: list[ByName] = []
    for one in definition.calls(scalars):
        found += leaves_of(one.callee, stages.evaluated(one.scalars, scalars))
    return [*found, scalars]


def options_stay(definition: Definition) -> bool:
    """Whether no option of a call that it makes depends on numbers.

    Others would have to be compared each time.
    """
    return definition.is_known and all(
        not any(map(stages.is_told, call.options.values())) and options_stay(call.callee)
        for call in definition.calls()
    )


def numbers_key(leaves: Leaves) -> Key | None:
    """Give what a program depends on of the numbers of its calls; None if it cannot.

    Some calls may be equal, but for their numbers: then they are done once.
    """
    key = kinds([value for leaf in leaves for value in leaf.values()])
    if not key or len(leaves) == 1:
        return key
    told = [tuple([(n, identity(v)) for n, v in leaf.items()]) for leaf in leaves]
    return key + tuple([told.index(one) for one in told])
