"""Options: what a stencil is decorated with and what a call overrides, checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

from ..arrays.accepted import (
    Arrays,
    Every,
    as_it_is,
    is_chunked,
    is_dataset,
    is_whole,
    is_xarray,
    per_axis,
    storage_types,
)
from ..arrays.borders import Boundary
from ..backends.threads import thread_count
from ..base.frozen import frozen
from ..language.definitions import Function, Spacing
from ..language.errors import hint
from ..language.ir import FAR, Neighborhood
from ..language.signature import OPTIONS, give_defaults, signature

if TYPE_CHECKING:
    from ..lowering.schedule import Schedule

# Values by the names of their parameters.
ByName: TypeAlias = Mapping[str, Any]


class UfuncOptions(TypedDict, total=False):
    """What `@ufunc` takes besides the function, by keyword.

    Attributes
    ----------
    dtype : dtype or sequence of dtype
        The type of the result, or of each; by default the smallest that holds every result.
    overflow : {"saturate", "wrap"}
        What happens to an integer that `dtype` cannot hold.
    fastmath : bool
        Let floats be reordered, as if their arithmetic were exact.
    schedule : Schedule
        Choices of the compiler, such as `Stencil.schedule` gives; they change the speed only.
    """

    dtype: Any
    overflow: str | None
    fastmath: bool
    schedule: Schedule | None


class StencilOptions(UfuncOptions, total=False):
    """What `@stencil` takes besides the function, by keyword.

    Attributes
    ----------
    boundary : str, Condition or sequence
        What a neighbour outside the array is: "fill", "keep", "valid", "constant", "nearest",
        "reflect", "mirror" or "wrap", or a value there (`dirichlet`, `neumann`, `robin`).  One
        for all sides, or for each axis one, or a pair (before, after).  This and the options
        that follow are defaults, which a call may override; `Stencil.__call__` has more.
    cval : number
        The value of "fill" and "constant".
    neighborhood : sequence of (int, int)
        For each axis the least and the greatest offset the function reads, where that cannot
        be read off its text.
    standard_indexing : str or sequence of str
        Parameters that are small arrays indexed absolutely.
    every : int or sequence of int
        Of how many points along each axis one is made.
    upsample : int or sequence of int
        How many times as many points the result has, along all axes or along each.
    performance_warnings : bool
        Whether a `PerformanceWarning` may tell that this stencil is slow, and what to do.
    """

    boundary: Any
    cval: Any
    neighborhood: Any
    standard_indexing: Any
    every: Any
    upsample: Any
    performance_warnings: bool


# The options of a call that say where it works; the others say what it gives.
PLACE = ("axes", "dims", "out", "threads", "device")

# The names of the options of a call; no parameter can be called so.
CALL_OPTIONS = frozenset((*OPTIONS, *PLACE))


def check_parameters(function: Function, kind: str, options: Collection[str]) -> None:
    """Raise where a parameter is called as an option is, or has a default that is no number."""
    for name in function.parameters:
        if name in options:
            cure = "return the result, and leave it out" if name == "out" else "rename it"
            raise ValueError(
                f"'{name}' is an option of every call, so no parameter of '{function.name}' "
                f"can have that name; {cure}."
            )
    for name, default in function.defaults.items():
        if default is None:
            raise ValueError(
                f"'{name}' of '{function.name}' has the default None, which is no number: a "
                "kernel is compiled for the types of its numbers. Give it a number that changes "
                "nothing, such as 0 or 1, or write two kernels."
            )
        if isinstance(default, Spacing) and kind != "stencil":
            raise ValueError(
                f"'{name}' of the {kind} '{function.name}' is {default!r}, and a {kind} has no "
                "axes that are counted so; use a stencil, or another default."
            )


@frozen
class Options:
    """What a stencil was decorated with.

    A ufunc is a function of numbers (`pointwise`), and its neighborhood is the point: of as many
    axes as it is to be done along.  `performance_warnings` may be given where it is slow.
    """

    boundary: Boundary
    # To be told apart by its type and its words: as numbers 1 is True, and 0.0 is -0.0.
    cval: Any = field(compare=False)
    neighborhood: Neighborhood | None
    standard_indexing: tuple[str, ...]
    dtype: tuple[np.dtype, ...] | None
    overflow: str | None
    every: Every
    upsample: Every
    fastmath: bool
    schedule: Schedule
    performance_warnings: bool
    pointwise: bool = False

    @staticmethod
    def of(kind: str, given: ByName) -> Options:
        """What a decorator was given by name, checked."""
        known = UFUNC if kind == "ufunc" else STENCIL
        refuse_unknown(kind, [name for name in given if name not in known], known)
        checked = {n: check(given.get(n, default)) for n, (default, check) in _CHECKS.items()}
        check_grid(checked["every"], checked["upsample"])
        if kind == "ufunc":
            checked |= {"neighborhood": ((0, 0),), "pointwise": True}
        return Options(**checked)

    def called(self, given: ByName) -> Options:
        """The options of a call that is given some of them by name, checked; None is not given."""
        checked = {n: _CHECKS[n][1](value) for n, value in given.items() if value is not None}
        # To make others takes a third as long as a call on a list of four numbers.
        made = replace(self, **checked) if checked else self
        check_grid(made.every, made.upsample)
        boundary, cval = made.boundary.named(made.cval)
        return made if boundary is made.boundary else replace(made, boundary=boundary, cval=cval)

    @property
    def meaning(self) -> Options:
        """The same with names in the place of functions at the border, which pickles."""
        return replace(self, boundary=self.boundary.meaning)


@frozen
class Place:
    """Where a call works, where its results go, how many threads there may be, or which GPU."""

    axes: Any = None
    dims: Any = None
    out: Any = None
    threads: int | None = None
    device: str | None = None

    def check(self, fields: Arrays) -> None:
        """Raise where an option is given that fields of this kind do not have.

        Everything that takes these options asks here, so that all refuse them alike.

        Raises
        ------
        TypeError
            If the kind has no such option, or `threads` is no whole number.
        ValueError
            If `threads` is less than 1, or `device` is unknown.
        """
        datasets = any(map(is_dataset, fields))
        named = datasets or any(map(is_xarray, fields))
        if datasets and self.axes is not None:
            raise TypeError("the variables of a Dataset have axes of their own; use dims= here.")
        if self.dims is not None and not named:
            raise TypeError("dims= names the dimensions of xarray objects; use axes= here.")
        if self.out is not None and (named or any(map(is_chunked, fields))):
            words = "xarray objects" if named else "Dask arrays"
            raise TypeError(f"out= is for NumPy arrays; the result of {words} is made anew.")
        if self.threads is not None:
            thread_count(self.threads)
        if self.device is not None and self.device != "cuda":
            raise ValueError(
                f'device={self.device!r} is unknown; use "cuda", or leave it out to compute where '
                "the arrays are."
            )


def overflow_rule(overflow: str | None) -> str | None:
    """What happens to an integer that the dtype cannot hold; None forbids it."""
    if overflow not in (None, "saturate", "wrap"):
        raise ValueError(f'overflow={overflow!r} is unknown; use "saturate" or "wrap".')
    return overflow


def check_grid(every: Every, upsample: Every) -> None:
    """Raise where a result would have both fewer and more points."""
    if every != 1 and upsample != 1:
        raise ValueError(
            f"every={every} takes fewer points and upsample={upsample} makes more; give one of "
            "them, and the other to a call of its own."
        )


def parameter_names(standard_indexing: Any) -> tuple[str, ...]:
    """The parameters that are indexed absolutely."""
    names = (standard_indexing,) if isinstance(standard_indexing, str) else standard_indexing
    if not isinstance(names, tuple | list | set | frozenset) or not all(
        isinstance(name, str) for name in names
    ):
        raise TypeError(f"standard_indexing holds names of parameters, not {standard_indexing!r}.")
    return tuple(sorted(names))


def checked_neighborhood(given: Any) -> Neighborhood | None:
    """For each axis the least and the greatest offset."""
    if given is None:
        return None
    cure = "write one (least, greatest) pair of integers for each axis, such as ((-1, 1), (0, 2))"
    try:
        pairs = [tuple(pair) for pair in given]
    except TypeError:
        raise TypeError(f"neighborhood={given!r} holds no pairs; {cure}.") from None
    for pair in pairs:
        if len(pair) != 2 or not all(map(is_whole, pair)):
            raise ValueError(f"neighborhood={given!r}: {pair!r} is no pair of integers; {cure}.")
        if pair[0] > pair[1]:
            raise ValueError(f"neighborhood={given!r}: {pair!r} ends before it begins; {cure}.")
        if pair[0] < -FAR or pair[1] > FAR:
            raise ValueError(
                f"neighborhood={given!r}: {pair!r} reaches farther than any array, more than "
                f"{FAR} elements; {cure}."
            )
    if not pairs:
        raise ValueError(f"neighborhood={given!r} is empty; {cure}.")
    return tuple((int(low), int(high)) for low, high in pairs)


def refuse_unknown(kind: str, unknown: Iterable[str], known: Sequence[str]) -> None:
    """Raise for options that a decorator does not have."""
    for name in unknown:
        words = f"{', '.join(known[:-1])} and {known[-1]}"
        raise TypeError(f"{kind}() has no option '{name}'; it has {words}{hint(name, known)}.")


def _schedule(given: Schedule | None) -> Schedule:
    # Imported here: gufuncs, whose options are others, import nothing of the compiler.
    from ..lowering.schedule import Schedule

    return given or Schedule()


# The default of each option of a decorator, and what checks it.
_CHECKS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "boundary": ("fill", Boundary.of),
    "cval": (0, as_it_is),
    "neighborhood": (None, checked_neighborhood),
    "standard_indexing": ((), parameter_names),
    "dtype": (None, storage_types),
    "overflow": (None, overflow_rule),
    "every": (1, partial(per_axis, "every")),
    "upsample": (1, partial(per_axis, "upsample")),
    "fastmath": (False, bool),
    "schedule": (None, _schedule),
    "performance_warnings": (True, bool),
}


# The names of the options of decorators, in the order in which they are shown.
STENCIL, UFUNC = tuple(_CHECKS), tuple(UfuncOptions.__annotations__)


def defaults(known: Iterable[str]) -> dict[str, Any]:
    """The defaults of options of a decorator."""
    return {name: _CHECKS[name][0] for name in known}


class Parameters:
    """The parameters of a function: puts arguments in their order, however they were given."""

    def __init__(self, function: Function, defaults: ByName) -> None:
        self.names = names = function.parameters
        # Python binds them itself: a call of a small array takes no longer than that.
        text = str(signature(function.definition, dict.fromkeys(defaults)))[1:-1]
        self._bind = bind = eval(f"lambda {text}: ({''.join(f'{name}, ' for name in names)})")
        # It is called so where Python itself says what is wrong.
        bind.__qualname__ = function.name
        give_defaults(bind, defaults)
        # How many can be given by position.
        self._positional = bind.__code__.co_argcount

    def bound(
        self,
        args: tuple[Any, ...],
        named: ByName,
        options: Collection[str] = CALL_OPTIONS,
    ) -> tuple[Any, ...]:
        """Give a value for every parameter.

        Raises
        ------
        TypeError
            If the arguments do not fit, and are no `options`.
        """
        try:
            found: tuple[Any, ...] = self._bind(*args, **named)
        except TypeError as error:
            raise self._unfit(args, named, options) or error from None
        return found

    def given(self, values: ByName) -> tuple[list[Any], dict[str, Any]]:
        """What a call with these values is given, by position and by name."""
        names, count = self.names, self._positional
        return [values[n] for n in names[:count]], {n: values[n] for n in names[count:]}

    def _unfit(
        self, args: tuple[Any, ...], named: ByName, options: Collection[str]
    ) -> TypeError | None:
        """What is wrong with arguments, where there is more to say than Python does."""
        function, names = self._bind.__qualname__, self.names
        positional, named_only = names[: self._positional], names[self._positional :]
        if len(args) > len(positional):
            words = f"; {', '.join(named_only)} must be given by name" if named_only else ""
            count = "1 argument" if len(positional) == 1 else f"{len(positional)} arguments"
            return TypeError(
                f"{function}() takes {count} ({', '.join(positional)}), but {len(args)} were "
                f"given{words}."
            )
        for given in named:
            if given in options:
                return TypeError(f"'{given}=' is an option of calls only; leave it out here.")
            if given not in names:
                return TypeError(
                    f"{function}() has no parameter '{given}'; it has "
                    f"{', '.join(names)}{hint(given, (*names, *sorted(options)))}."
                )
        return None
