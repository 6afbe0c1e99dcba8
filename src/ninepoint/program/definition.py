"""Definitions: what a stencil means, checked; calls: with scalars and options, without fields.

    def corners(x, k):                    Definition     fields x, scalars k
        xx = square(x, 2 * k)      ->       calls()      xx = square(x, 2 * k)
        return xx[0, 1] - k                 left(...)    what it is given after these: xx

Equal tokens mean the same.  A definition whose function calls other stencils knows those calls,
and the arrays that it is given where they are done: its own, and what they make.
"""

from __future__ import annotations

import ast
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..arrays.accepted import (
    DTypes,
    Every,
    as_field,
    as_it_is,
    check_dtype,
    has_no_axes,
    is_chunked,
    is_number,
    is_xarray,
    native,
    refuse_foreign,
    steps_of,
)
from ..arrays.keys import Key, kinds
from ..backends import cache
from ..backends.compiled import Compiled, is_known
from ..base.remembered import Registry, Remembered, cached_property, digest
from ..base.undisturbed import Later
from ..language.decorated import with_room
from ..language.definitions import (
    ArrayFunction,
    Function,
    Spacing,
    Unusable,
    array_parameters,
    array_uses,
    asks_position,
    dotted,
    indexed_parameters,
    indices,
)
from ..language.dtypes import value_type
from ..language.errors import SLOWER, PerformanceWarning, StencilError, mistake, warn
from ..language.ir import Argument, Coefficients, DType, Field, Scalar
from ..lowering.schedule import Schedule
from .options import (
    CALL_OPTIONS,
    ByName,
    Options,
    Parameters,
    check_parameters,
)

if TYPE_CHECKING:
    from ..language import control, parse, values
    from ..language.calls import StageCall
else:
    # What was compiled before is neither read nor lowered.
    control, parse, values = (
        Later(f"..language.{name}", __package__) for name in "control parse values".split()
    )

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

    def __init__(self, function: Function, options: Options, live: Any = None) -> None:
        # The parameters that are arrays: read with an index, or given to a call as a field; of a
        # ufunc those by position, unless their default is a number, and the others are tables.
        arrays = indexed_parameters(function)
        if options.pointwise:
            tables = arrays - {*array_parameters(function)}
            options = replace(options, standard_indexing=tuple(sorted(tables)))
            arrays |= {*array_parameters(function)}
        self.function, self.options, self.live = function, options, live
        self.name, self.defaults = function.name, function.defaults
        # To a function of numbers the others that it calls are functions of numbers too.
        self.pointwise = options.pointwise
        self.kind = "ufunc" if self.pointwise else "stencil"
        self.programs: Remembered[Any] = Remembered(16)
        self.arguments = Parameters(function, self.defaults)
        self.compiled: dict[Any, Compiled] = {}
        self.compiling = threading.Lock()
        self._schedules: Remembered[Schedule] = Remembered(256)
        # What was met of other stencils by the kinds of the arguments, and for the first of these.
        self._met: Remembered[values.Met] = Remembered(256)
        self._stages: values.Met | None = None
        self.parameters, self.may_call = function.parameters, False
        self.token = digest((function, options.meaning))
        if not self.pointwise:
            called = function.constants.values()
            self.may_call = any(isinstance(value, ArrayFunction) for value in called)
        self._standard = arrays & {*options.standard_indexing}
        self.fields = tuple(p for p in self.parameters if p in arrays - self._standard)
        self.scalars: tuple[str, ...] = tuple(p for p in self.parameters if p not in self.fields)
        self._check_names()
        self._factors = self.factors(options.upsample)
        if self.may_call or not is_known(self.name, self.token):
            with_room(self._check_body, function)
        _definitions.add(self.token, self)

    def __reduce__(self) -> Any:
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

    def factors(self, upsample: Every) -> tuple[int, ...]:
        """By how much a result is longer than the fields, axis by axis; nothing if it is not."""
        if upsample == 1:
            return ()
        if self.pointwise:
            raise TypeError(
                f"the ufunc '{self.name}' gives one result for each element; leave 'upsample=' "
                "out."
            )
        rank = self.rank
        if isinstance(upsample, tuple) and len(upsample) != rank:
            raise ValueError(
                f"upsample={upsample} has {len(upsample)} factors, but '{self.name}' works along "
                f"{rank} {'axis' if rank == 1 else 'axes'}."
            )
        factors = steps_of(upsample, rank)
        if (results := math.prod(factors)) > MOST_RESULTS:
            raise ValueError(
                f"upsample={upsample} makes {results} results around each element, more than a "
                f"stencil is compiled for ({MOST_RESULTS}); make finer results by a part of it, "
                "and finer ones of these, or of one axis after the other."
            )
        return factors

    @property
    def is_known(self) -> bool:
        """Whether it is known which calls it makes."""
        return self._stages is not None or not self.may_call

    def calls(
        self, scalars: ByName | None = None, factors: tuple[int, ...] | None = None
    ) -> Sequence[StageCall]:
        """The calls of other stencils that it makes, in order, for scalars such as these.

        Without scalars there are none of what is not known.  They are the same for all factors,
        but some texts are understood with some `factors` only.
        """
        if not self.may_call:
            return ()
        if scalars is None:
            return self._stages.calls if self._stages else ()

        def met() -> values.Met:
            around = self._factors if factors is None else factors
            return with_room(lambda: self._read(scalars, _TRIED, around), self.function)

        key = kinds([*scalars.values()])
        found = met() if key is None else self._met.made(key, met)
        self._stages = self._stages or found
        self.may_call = bool(found.calls)
        return found.calls

    def _read(self, scalars: ByName, tried: DTypes, factors: tuple[int, ...]) -> values.Met:
        """What the text calls for scalars such as these, as far as it is understood."""
        found: list[values.Met] = []
        for storage in tried:
            kinds = self.kinds(self.fields, [storage] * len(self.fields), scalars)
            arguments = {one.name: one for one in kinds}
            try:
                parse.read(
                    self.function, arguments, self.options.neighborhood, factors, calls=True
                )
            except values.NotUnderstood:
                return values.Met()
            except StencilError as error:
                # Floats are no indices, for one: types that are tried make mistakes of their own.
                if (error.diagnostic.code in _CERTAIN and not found) or not tried[1:]:
                    raise
                found.append(values.reading.stages)
            else:
                return values.reading.stages
        # It is for fields of different types: what it reads is not known beyond its mistake.
        met = max(found, key=lambda one: len(one.calls))
        met.read.update(self.fields, *(call.made for call in met.calls))
        return met

    def left(self, keeping: bool) -> tuple[str, ...]:
        """The arrays that it is given where its calls are done: what of these it reads, and makes.

        If it is `keeping`, these are all its fields, in their order, though it may not read some.
        """
        assert self._stages is not None
        read, calls = self._stages.read, self._stages.calls
        own = (name for name in self.fields if keeping or name in read)
        return *own, *(name for call in calls for name in call.made if name in read)

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
            for node in ast.walk(function.definition):
                held = function.constants.get(dotted(node))
                if isinstance(held, Unusable):
                    # What was to look at neighbours, such as a filter.
                    raise mistake("bad-constant", function.span(node), dotted(node), held.words)
            raise mistake("no-field", function.place, function.name)

    def _check_body(self) -> None:
        control.refuse(self.function)
        if self.options.standard_indexing:
            return
        given = dict.fromkeys(self.scalars, 1)
        try:
            self._stages = self._read(given, _TRIED[:1], self._factors)
            self.may_call = bool(self._stages.calls)
        except StencilError as error:
            code = error.diagnostic.code
            nodes = ast.walk(self.function.definition)
            divides = any(isinstance(node, ast.FloorDiv | ast.Mod) for node in nodes)
            if code in _WITH_FACTORS and divides and asks_position(self.function):
                # What is left of a position may be constant with the factors of a call.
                return
            if code in _CERTAIN:
                raise

    # What is compiled.

    def kinds(self, fields: Sequence[str], types: DTypes, scalars: ByName) -> tuple[Argument, ...]:
        """The kinds of all arguments, for arrays of these types and scalars such as these.

        Raises for a value that is no scalar, whether anything uses it or not.
        """
        given = dict(zip(fields, types, strict=True))
        names = (n for n in self.parameters if n in given or n in scalars)
        return tuple(
            Field(name, given[name], self.pointwise)
            if name in given
            else kind_of(name, scalars[name], name in self._standard)
            for name in dict.fromkeys((*names, *fields))
        )

    def warn(self, compiled: Compiled) -> None:
        """Say once that the kernel takes the general path.

        Not in a process that was sent the stencil: whoever sent it has been told.  Nor of a ufunc,
        whose elements are at hand on either path.
        """
        if compiled.unread is None or self.pointwise:
            return
        if self.live is None or self.token in _told or not self.options.performance_warnings:
            return
        found = mistake("slow-kernel", compiled.unread, self.name, compiled.reason, SLOWER)
        warn(str(found), PerformanceWarning)
        _told.add(self.token)

    def schedule_for(self, types: DTypes) -> Schedule:
        """What the stencil was decorated with, or what was found by tuning for these types."""
        if self.options.schedule != Schedule():
            return self.options.schedule
        kinds = tuple(types)
        return self._schedules.made(
            kinds,
            lambda: cache.recalled(self._tuned(kinds), lambda found: found) or Schedule(),
        )

    def tune(self, types: DTypes, schedule: Schedule) -> Any:
        """Use a schedule for these types from now on; gives the file that keeps it."""
        path = cache.keep(self._tuned(types), schedule)
        self._schedules[tuple(types)] = schedule
        # What was compiled is of the schedule before.
        self.compiled.clear()
        self.programs.clear()
        return path

    def _tuned(self, types: DTypes) -> str:
        """The file of what tuning found on this machine, for choices as they are now."""
        meaning = self.token, *types, cache.machine(), Schedule()
        return cache.named("tuned", "\n".join(map(str, meaning)), "schedule")

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
    """One call, with its `options`, which names its `fields` and has all else.  Pickles.

    Where calls that the definition makes are done before, what they make is among the fields.
    Calls with equal keys give equal results, if they are plain: elements of arrays may change.
    """

    definition: Definition
    options: Options
    scalars: ByName
    fields: tuple[str, ...]
    factors: tuple[int, ...]

    @staticmethod
    def of(definition: Definition, values: ByName, **given: Any) -> Call:
        """A call with these values, checked; options that are None are the definition's.

        To a ufunc that is given arrays, numbers beside them are scalars.
        """
        fields = definition.fields
        if definition.pointwise:
            arrays = [values[name] for name in fields if name in values]
            if len(arrays) < len(fields) or not all(map(has_no_axes, arrays)):
                fields = tuple(n for n in fields if n not in values or not is_number(values[n]))
        options = definition.options.called(given)
        for name, value in values.items():
            if definition.pointwise and isinstance(value, Spacing):
                raise TypeError(
                    f"'{name}' of the ufunc '{definition.name}' cannot be {value!r}: a ufunc has "
                    "no axes; give a number."
                )
        scalars = {n: as_it_is(values[n]) for n in definition.parameters if n not in fields}
        return Call(definition, options, scalars, fields, definition.factors(options.upsample))

    def with_options(self, **changes: Any) -> Call:
        """The same call with other options, which are checked."""
        return replace(self, options=replace(self.options, **changes))

    def along(self, rank: int) -> Call:
        """A ufunc done along so many axes at once, as a part of what works along these."""
        pointwise = self.definition.pointwise
        return self.with_options(neighborhood=((0, 0),) * rank) if pointwise else self

    @property
    def is_plain(self) -> bool:
        """Whether it is given numbers only, which never change."""
        return not self.options.boundary.conditions and all(
            isinstance(value, _NUMBERS) for value in self.scalars.values()
        )

    @property
    def key(self) -> Any:
        """What tells this call from others, for as long as the arrays it is given are there."""
        return *self.kind, identities(self.scalars)

    @property
    def kind(self) -> Any:
        """What tells calls like this one, which have other numbers, from all others."""
        cval = self.options.cval
        return self.definition, self.options, type(cval), repr(cval), self.fields

    @cached_property
    def token(self) -> str:
        """Names the meaning of the call, arrays of it included: equal tokens, equal results."""
        meaning = self.options.meaning
        return digest((self.definition.token, meaning, dict(self.scalars), self.fields))

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
        boundary = self.options.boundary.with_conditions(
            lambda one, *_: one.of(lambda v: np.array(v) if isinstance(v, np.ndarray) else v)
        )
        return replace(self, scalars=scalars).with_options(boundary=boundary)


def identities(scalars: ByName) -> tuple[Any, ...]:
    """What tells numbers by name from others, and arrays from others while they are there."""
    return tuple(
        [
            (name, type(value), repr(value) if isinstance(value, _NUMBERS) else id(value))
            for name, value in scalars.items()
        ]
    )


# For each recorded call, in order, the values of its scalars by name.
Leaves: TypeAlias = Sequence[ByName]


# How the numbers of a call come to the calls that its definition makes:
#
#     def twice(x, r):                 twice(x, 0.25)
#         s = heat(x, r)         ->        heat    r = 0.25
#         return s[1] - r * s[0]           twice   r = 0.25
#
# A program of these calls is bound for the types of their numbers.  What a number comes to is
# evaluated in each call; as long as its type stays the same, the program does as well.


def leaves_of(definition: Definition, scalars: ByName) -> list[ByName]:
    """The numbers of all calls, for values of the scalars by name."""
    found: list[ByName] = []
    for one in definition.calls(scalars):
        found += leaves_of(one.callee, one.given(scalars)[0])
    return [*found, scalars]


def options_stay(definition: Definition) -> bool:
    """Whether no option of a call that it makes depends on numbers.

    Others would have to be compared each time.
    """
    return definition.is_known and all(
        not call.tells and options_stay(call.callee) for call in definition.calls()
    )


def numbers_key(leaves: Leaves) -> Key | None:
    """Give what a program depends on of the numbers of its calls; None if it cannot.

    Some calls may be equal, but for their numbers: then they are done once.
    """
    key = kinds([value for leaf in leaves for value in leaf.values()])
    if not key or len(leaves) == 1:
        return key
    told = list(map(identities, leaves))
    return key + tuple([told.index(one) for one in told])
