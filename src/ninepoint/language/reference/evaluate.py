"""The user's function, called at every point."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from .arguments import argument, call_arguments, python_function, results
from .borders import NOTHING_OUTSIDE, Array, Reach, Rules, bordered, neighbour, parsed_rules
from .footprints import dimensions, reaches
from .number import Number, elsewhere, place, see
from .position import Position
from .views import Field
from .world import rebound

_DOMAIN_ERRORS = ("math domain error", "math range error", "expected a ")


def evaluate(
    function: Callable[..., Any],
    arrays: Mapping[str, Array] | Sequence[Array],
    *,
    scalars: Mapping[str, Any] | None = None,
    standard: Iterable[str] = (),
    boundary: Any = "fill",
    cval: Any = 0,
    ndim: int | None = None,
    shape: tuple[int, ...] | None = None,
    neighborhood: Sequence[tuple[int, int]] | None = None,
    footprints: Sequence[Reach] | None = None,
    every: Sequence[int] = (),
    upsample: Sequence[int] = (),
) -> tuple[Array, ...]:
    """Call `function` at every point.

    Parameters
    ----------
    function : callable
        The user's function, undecorated.
    arrays : mapping or sequence of arrays
        The fields, and the arrays named in `standard`; a sequence is in the order of the
        parameters that are not in `scalars`.
    scalars : mapping, optional
        Values of other parameters, numbers or small arrays; those left out take their
        defaults.
    standard : iterable of str
        Parameters that are indexed absolutely.
    boundary, cval
        The border rule: a name or a condition, or one for each axis, each of these or
        (before, after).
    ndim : int, optional
        Number of core axes; by default the number of indices of the first read.
    shape : tuple of int, optional
        The points at which it is called; by default those of all fields.  A field of another
        shape can only be given to other stencils.
    neighborhood : sequence of (int, int), optional
        For each axis the least and greatest offset; takes the place of `footprints`.
    footprints : sequence of (lo, hi), optional
        The reach of each output, where it cannot be found by running the function.
    every : sequence of int, optional
        The step along each core axis; of the results all other points are left out.
    upsample : sequence of int, optional
        How many results there are for each element, along each axis: the result p is what the
        function gives at the element p // k.

    Returns
    -------
    tuple of arrays of object
        One for each output, holding exact Python integers, truth values, or NumPy's
        float and complex scalars.

    Raises
    ------
    IndexError
        If the function reads outside `neighborhood`.
    """
    standard = (standard,) if isinstance(standard, str) else tuple(standard)
    given = dict(scalars or {})
    if not isinstance(arrays, Mapping):
        names = inspect.signature(python_function(function)).parameters
        arrays = dict(zip([name for name in names if name not in given], arrays, strict=False))
    given |= {name: np.asarray(array) for name, array in arrays.items() if name in standard}
    whole = {name: np.asarray(array) for name, array in arrays.items() if name not in standard}
    if shape is None:
        shape = np.broadcast_shapes(*(array.shape for array in whole.values()))
    fields = [_broadcast(array, shape) for array in whole.values()]

    known: tuple[Reach, ...] | None = tuple(footprints) if footprints is not None else None
    if neighborhood is not None:
        lo, hi = zip(*[(int(lo), int(hi)) for lo, hi in neighborhood], strict=True)
        known = ((lo, hi),)
    if upsample:
        ndim = len(upsample)
    if ndim is None:
        ndim = len(known[0][0]) if known else dimensions(function, given, standard)
    rules = parsed_rules(boundary, ndim)
    bounded = any(rule in NOTHING_OUTSIDE for pair in rules for rule in pair)
    if known is None and (bounded or 0 in shape):
        known = reaches(function, ndim, given, standard, upsample)

    kernel = _Kernel(
        function,
        whole,
        shape,
        given,
        rules,
        cval,
        known[0] if neighborhood and known else None,
        known or (),
        every,
        tuple(upsample) or (1,) * ndim,
    )
    factors = (1,) * (len(shape) - ndim) + kernel.factors
    fine = tuple(n * k for n, k in zip(shape, factors, strict=True))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # NumPy's functions of arrays warn of what a kernel has as a number: a mean of nothing.
        warnings.simplefilter("ignore", RuntimeWarning)
        points = [kernel.at(point) for point in np.ndindex(fine)]
    count = max([len(point) for point in points if point] or [len(known or [0])])
    undefined = (np.float64(np.nan),) * count
    outputs = np.empty((count, *fine), object)
    for point, values in zip(np.ndindex(fine), points, strict=True):
        outputs[(slice(None), *point)] = values or undefined
    kept_points: Any = (..., *(slice(None, None, step) for step in every))
    if not bounded or known is None:
        return tuple(values[kept_points] for values in outputs)
    own = known if neighborhood is None else known * count
    kept: Iterator[Array | None] = iter([*fields, *[None] * count])
    return tuple(
        _bordered(values, factors, reach, rules, cval, field)[kept_points]
        for values, reach, field in zip(outputs, own, kept, strict=False)
    )


def _bordered(
    values: Array, factors: tuple[int, ...], reach: Reach, rules: Rules, cval: Any, field: Any
) -> Array:
    """One output by the rule of the border, which is that of the elements around which it is."""
    parts = {
        phase: bordered(values[_every(phase, factors)], reach, rules, cval, field)
        for phase in np.ndindex(factors)
    }
    shape = parts[(0,) * len(factors)].shape
    result = np.empty([n * k for n, k in zip(shape, factors, strict=True)], object)
    for phase, part in parts.items():
        result[_every(phase, factors)] = part
    return result


def _every(phase: tuple[int, ...], factors: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(r, None, k) for r, k in zip(phase, factors, strict=True))


def _broadcast(array: Array, shape: tuple[int, ...]) -> Array | None:
    """The array in this shape, or None where it does not fit."""
    lacking = len(shape) - array.ndim
    fits = lacking >= 0 and all(
        own in (1, length) for own, length in zip(array.shape, shape[lacking:], strict=True)
    )
    return np.broadcast_to(array, shape) if fits else None


def results_if_any(
    function: Callable[..., Any],
    positional: Sequence[Any],
    named: Mapping[str, Any],
    original: Callable[..., Any] | None = None,
) -> tuple[Any, ...] | None:
    """What a function of numbers gives; None where Python has no number, as NumPy's NaN is.

    Where it divides integers of its text by 0, it is made of the `original` once more.
    """
    try:
        return results(function(*positional, **named))
    except ArithmeticError:
        if original is None:
            return None
        return results_if_any(rebound(original, numbers=True), positional, named)
    except ValueError as error:
        if str(error).startswith(_DOMAIN_ERRORS):
            return None
        raise


class _Reached(Exception):
    """The function came to the expression whose value is asked for."""

    def __init__(self, value: Number) -> None:
        super().__init__()
        self.value = value


class _Kernel:
    """The function with its arrays, to be called at one point after another."""

    def __init__(
        self,
        function: Any,
        fields: Mapping[str, Array],
        shape: tuple[int, ...],
        given: Mapping[str, Any],
        rules: Rules,
        cval: Any,
        reach: Reach | None,
        reaches: Sequence[Reach],
        every: Sequence[int],
        factors: tuple[int, ...],
    ) -> None:
        self._rules, self._cval, self._reach = rules, cval, reach
        self._reaches, self._every = reaches, every
        # How many results there are for each element; the point is that of the result.
        self.factors = factors
        self._shape = shape
        views = {name: self._field(name, array) for name, array in fields.items()}
        others = {name: argument(value) for name, value in given.items()}
        self._original, self._function = function, rebound(function)
        self._arguments = call_arguments(function, others | views)
        self._point: tuple[int, ...] = ()
        # How often each place of the text indexed an expression in this run, and which of these
        # is asked for.
        self._indexed: Counter[Any] = Counter()
        self._wanted: Any = None
        # What indexed expressions were at the points that the function came to.
        self._known: dict[Any, Any] = {}

    def at(self, point: tuple[int, ...]) -> tuple[Any, ...] | None:
        """The outputs at `point`; None where Python has no number for them."""
        self._point, self._indexed = point, Counter()
        positional, named = self._arguments
        token, beside = elsewhere.set(self._elsewhere), place.set(self._among_results)
        try:
            return results_if_any(self._function, positional, named, self._original)
        finally:
            elsewhere.reset(token)
            place.reset(beside)

    def _elsewhere(self, value: Number, index: Any) -> Any:
        """The value of an indexed expression at other points: a number, or a window.

        The function is run again there, until it comes to the same index.
        """
        frame = sys._getframe(2)
        # Not the instruction itself, which Python exchanges for quicker ones as it runs.
        place = frame.f_code, next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
        self._indexed[place] += 1
        found = place, self._indexed[place]
        self._known[self._point, found] = value
        if found == self._wanted:
            raise _Reached(value)
        point, ndim = self._point, len(self._rules)

        def read(offset: tuple[int, ...]) -> Any:
            if len(offset) != ndim:
                raise IndexError(f"an expression is read with {len(offset)} indices, not {ndim}")
            moves = zip(point[-ndim:], offset, self.factors, strict=True)
            there = *point[:-ndim], *(p + o * k for p, o, k in moves)
            if (there, found) in self._known:
                return see(self._known[there, found])
            before = self._point, self._indexed, self._wanted
            self._point, self._indexed, self._wanted = there, Counter(), found
            positional, named = self._arguments
            try:
                self._function(*positional, **named)
            except _Reached as reached:
                return see(reached.value)
            finally:
                self._point, self._indexed, self._wanted = before
            raise RuntimeError(
                "debug runs the function at another point to find what an expression is there, "
                "and it takes another branch, which does not read it; read it before the choice, "
                "as in 'before = d[-1]'. The compiled call needs no such help."
            )

        return Field("an expression", read, see(value))[index]

    def _field(self, name: str, array: Array, finer: Sequence[int] = ()) -> Field:
        beside = array
        for axis, k in enumerate(finer, -len(finer)):
            if 0 < array.shape[axis] - self._shape[axis] < k:
                # The finer result of a field whose length was rounded up.
                beside = np.take(beside, range(self._shape[axis]), axis)
        seen = _broadcast(beside, self._shape)
        like = partial(self._field, name)
        blank = see(array.dtype.type(0))
        core = self._shape[len(self._shape) - len(self._rules) :]
        shape = tuple(map(argument, core))
        return Field(
            name, self._reader(name, seen), blank, array, like, lambda: shape, self._place, beside
        )

    def _place(self) -> Any:
        """Where the point is in the whole array: a number for each axis, or for one axis that."""
        core = self._point[len(self._point) - len(self._rules) :]
        found = []
        for p, k in zip(core, self.factors, strict=True):
            fine = max(self.factors) > 1
            found.append(Position(p // k, 1, p // k) if fine else argument(p))
        return tuple(found) if len(found) > 1 else found[0]

    def _among_results(self) -> Any:
        """Where it is among the results, which may be fewer than the elements."""
        core = self._point[len(self._point) - len(self._rules) :]
        found = []
        for axis, position in enumerate(core):
            first = {0}
            if self._rules[axis][0] == "valid":
                first = {max(0, -low[axis]) for low, _ in self._reaches}
            if len(first) > 1 and max(self.factors) == 1:
                raise ValueError("the results have different shapes: ask for npt.index(x)")
            step = self._every[axis] if self._every else 1
            k, least = self.factors[axis], min(first)
            place = position - k * least
            fine = max(self.factors) > 1
            found.append(Position(place, k, place // k) if fine else argument(place // step))
        return tuple(found) if len(found) > 1 else found[0]

    def _reader(self, name: str, array: Array | None) -> Callable[[tuple[int, ...]], Any]:
        def read(offset: tuple[int, ...]) -> Any:
            if array is None:
                raise ValueError(f"{name!r} has not the shape of what is computed")
            ndim = len(self._rules)
            if len(offset) != ndim:
                raise IndexError(f"{name!r} is read with {len(offset)} indices, not {ndim}")
            if self._reach is not None:
                inside = zip(self._reach[0], offset, self._reach[1], strict=True)
                if not all(lo <= o <= hi for lo, o, hi in inside):
                    raise IndexError(f"{name}{list(offset)} is outside the neighborhood")
            stack, at = self._point[:-ndim], self._point[-ndim:]
            at = tuple(p // k for p, k in zip(at, self.factors, strict=True))
            place = *stack, *(p + o for p, o in zip(at, offset, strict=True))
            return see(neighbour(array, place, self._rules, self._cval))

        return read
