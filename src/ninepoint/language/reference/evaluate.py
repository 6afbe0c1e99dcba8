"""The user's function, called at every point: with fields, or with one element of each array."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ..source import Function
from .borders import NOTHING_OUTSIDE, Array, Reach, Rules, bordered, neighbour
from .number import Number, elsewhere, place, results, see
from .views import Field, Position, neighbours
from .world import argument, call_arguments, live

_DOMAIN_ERRORS = ("math domain error", "math range error", "expected a ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a function is called, and what it is given besides its fields.

    Attributes
    ----------
    boundary : sequence of pairs
        The rules before and after each axis: names, or conditions.
    cval
        The value of the rules "fill" and "constant".
    footprints : sequence of (lo, hi)
        The reach of each output.
    shape : tuple of int
        The points at which it is called.  A field of another shape can only be given to other
        stencils.
    scalars : mapping
        Values of other parameters, numbers or small arrays; those left out take their
        defaults.
    neighborhood : sequence of (int, int)
        For each axis the least and greatest offset that may be read, where that is declared.
    every : sequence of int
        The step along each core axis; of the results all other points are left out.
    upsample : sequence of int
        How many results there are for each element, along each axis: the result p is what the
        function gives at the element p // k.
    """

    boundary: Rules
    footprints: Sequence[Reach]
    shape: tuple[int, ...]
    cval: Any = 0
    scalars: Mapping[str, Any] = field(default_factory=dict)
    neighborhood: Sequence[tuple[int, int]] = ()
    every: Sequence[int] = ()
    upsample: Sequence[int] = ()


def evaluate(
    function: Function, arrays: Mapping[str, Array], setting: Setting
) -> tuple[Array, ...]:
    """Call `function` at every point.

    Parameters
    ----------
    function : Function
        The user's function.
    arrays : mapping of arrays
        The fields.
    setting : Setting
        What else it is given.

    Returns
    -------
    tuple of arrays of object
        One for each output, holding exact Python integers, truth values, or NumPy's
        float and complex scalars.

    Raises
    ------
    IndexError
        If the function reads outside its neighborhood.
    """
    kernel = _Kernel(function, arrays, setting)
    stack = len(setting.shape) - len(kernel.factors)
    pairs = zip(setting.shape, (1,) * stack + kernel.factors, strict=True)
    outputs = _gathered(kernel.at, tuple(n * k for n, k in pairs), len(setting.footprints))
    return tuple(kernel.bordered(values, k) for k, values in enumerate(outputs))


def _gathered(
    at: Callable[[tuple[int, ...]], tuple[Any, ...] | None], shape: tuple[int, ...], count: int
) -> Array:
    """What there is at every point, a number for each output, and NaN where there is nothing."""
    outputs = np.empty((count, *shape), object)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # NumPy's functions of arrays warn of what a kernel has as a number: a mean of nothing.
        warnings.simplefilter("ignore", RuntimeWarning)
        for point in np.ndindex(shape):
            outputs[(slice(None), *point)] = at(point) or (np.float64(np.nan),) * count
    return outputs


def points(
    function: Function, arrays: Mapping[str, Array], scalars: Mapping[str, Any], count: int
) -> tuple[Array, ...]:
    """Call a function of numbers for every point of the arrays, which broadcast.

    This is all that a ufunc means: the result at a point is what the user's function gives for
    the elements that stand there.

    Parameters
    ----------
    function : Function
        The user's function.
    arrays : mapping of arrays
        One for each parameter that is an element.
    scalars : mapping
        Values of other parameters, numbers or small arrays; those left out take their defaults.
    count : int
        How many results there are.

    Returns
    -------
    tuple of arrays of object
        One for each result, as `evaluate` gives them.
    """
    called = live(function)
    whole = np.broadcast_arrays(*map(np.asarray, arrays.values()))
    others = {name: argument(value) for name, value in scalars.items()}

    def at(point: tuple[int, ...]) -> tuple[Any, ...] | None:
        elements = (see(array[point]) for array in whole)
        given = others | dict(zip(arrays, elements, strict=True))
        return _results_if_any(called, *call_arguments(function, given))

    outputs = _gathered(at, whole[0].shape, count)
    # Not `outputs` itself, of which a result without axes would be a bare number.
    return tuple(outputs[k, ...] for k in range(len(outputs)))


def _results_if_any(
    function: Callable[..., Any], positional: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """What a function of numbers gives; None where Python has no number, as NumPy's NaN is."""
    try:
        return results(function(*positional, **named))
    except ArithmeticError:
        return None
    except ValueError as error:
        if str(error).startswith(_DOMAIN_ERRORS):
            return None
        raise


class _Reached(Exception):
    """The function came to the expression whose value is asked for."""


class _Kernel:
    """The function with its arrays, to be called at one point after another."""

    def __init__(self, function: Function, arrays: Mapping[str, Array], setting: Setting) -> None:
        self.setting, self.rules = setting, setting.boundary
        # How many results there are for each element; a point is that of a result.
        self.factors = tuple(setting.upsample) or (1,) * len(self.rules)
        self.fields = {name: self.field(name, array) for name, array in arrays.items()}
        given = {name: argument(value) for name, value in setting.scalars.items()}
        self._function = live(function)
        self._arguments = call_arguments(function, given | self.fields)
        self._point: tuple[int, ...] = ()
        # How often each place of the text indexed an expression in this run, and which of these
        # is asked for.
        self._indexed: Counter[Any] = Counter()
        self._wanted: Any = None
        # What indexed expressions were at the points that the function came to.
        self._known: dict[Any, Any] = {}

    def bordered(self, values: Array, number: int) -> Array:
        """An output by the rule of the border, at the points that are to be left of it."""
        if any(rule in NOTHING_OUTSIDE for pair in self.rules for rule in pair):
            seen = [field.seen for field in self.fields.values()]
            field = seen[number] if number < len(seen) else None
            reach, cval = self.setting.footprints[number], self.setting.cval
            values = bordered(values, reach, self.rules, cval, field, self.factors)
        kept: Any = (..., *(slice(None, None, step) for step in self.setting.every))
        left: Array = values[kept]
        return left

    def at(self, point: tuple[int, ...]) -> tuple[Any, ...] | None:
        """The outputs at `point`; None where Python has no number for them."""
        self._point, self._indexed = point, Counter()
        positional, named = self._arguments
        token, beside = elsewhere.set(self._elsewhere), place.set(self._among_results)
        try:
            return _results_if_any(self._function, positional, named)
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
            raise _Reached
        point, ndim = self._point, len(self.rules)

        def read(offset: tuple[int, ...]) -> Any:
            if len(offset) != ndim:
                raise IndexError(f"an expression is read with {len(offset)} indices, not {ndim}")
            moves = zip(point[-ndim:], offset, self.factors, strict=True)
            there = *point[:-ndim], *(p + o * k for p, o, k in moves)
            if (there, found) not in self._known:
                self._run_at(there, found)
            return see(self._known[there, found])

        return neighbours(read, index)

    def _run_at(self, point: tuple[int, ...], wanted: Any) -> None:
        """Run the function at another point, until it comes to an expression."""
        before = self._point, self._indexed, self._wanted
        self._point, self._indexed, self._wanted = point, Counter(), wanted
        positional, named = self._arguments
        try:
            self._function(*positional, **named)
        except _Reached:
            return
        finally:
            self._point, self._indexed, self._wanted = before
        raise RuntimeError(
            "debug runs the function at another point to find what an expression is there, "
            "and it takes another branch, which does not read it; read it before the choice, "
            "as in 'before = d[-1]'. The compiled call needs no such help."
        )

    def field(self, name: str, array: Array, finer: Sequence[int] = ()) -> Field:
        """An array as the function sees it; `finer` than the others by some factors."""
        shape, beside = self.setting.shape, array
        for axis, k in enumerate(finer, -len(finer)):
            if 0 < array.shape[axis] - shape[axis] < k:
                # The finer result of a field whose length was rounded up.
                beside = np.take(beside, range(shape[axis]), axis)
        try:
            seen: Array | None = np.broadcast_to(beside, shape)
        except ValueError:
            seen = None
        return Field(self, name, array, beside, seen)

    @property
    def shape(self) -> tuple[Any, ...]:
        """How long the whole array is along each axis of the kernel: no stack is seen."""
        return tuple(map(argument, self.setting.shape[-len(self.rules) :]))

    @property
    def place(self) -> Any:
        """Where the point is in the whole array: a number for each axis, or for one axis that."""
        core = zip(self._core, self.factors, strict=True)
        return _positions([p // k for p, k in core], [1] * len(self.factors))

    def _among_results(self) -> Any:
        """Where it is among the results, which may be fewer than the elements."""
        numbers, every = [], self.setting.every
        for axis, position in enumerate(self._core):
            first = {0}
            if self.rules[axis][0] == "valid":
                first = {max(0, -low[axis]) for low, _ in self.setting.footprints}
            if len(first) > 1 and max(self.factors) == 1:
                raise ValueError("the results have different shapes: ask for npt.index(x)")
            step = every[axis] if every and max(self.factors) == 1 else 1
            numbers.append((position - self.factors[axis] * min(first)) // step)
        return _positions(numbers, self.factors)

    @property
    def _core(self) -> tuple[int, ...]:
        """The point along the axes of the kernel."""
        return self._point[-len(self.rules) :]

    def read(self, field: Field, offset: tuple[int, ...]) -> Any:
        """The element of a field that is `offset` away from the point."""
        if field.seen is None:
            raise ValueError(f"{field.name!r} has not the shape of what is computed")
        ndim = len(self.rules)
        if len(offset) != ndim:
            raise IndexError(f"{field.name!r} is read with {len(offset)} indices, not {ndim}")
        for step, (least, most) in zip(offset, self.setting.neighborhood, strict=False):
            if not least <= step <= most:
                raise IndexError(f"{field.name}{list(offset)} is outside the neighborhood")
        moves = zip(self._core, self.factors, offset, strict=True)
        there = *self._point[:-ndim], *(p // k + o for p, k, o in moves)
        return see(neighbour(field.seen, there, self.rules, self.setting.cval))


def _positions(numbers: Sequence[int], scales: Sequence[int]) -> Any:
    """Numbers that grow so from element to element; along one axis that of this axis."""
    found = [Position(n, scale, n // scale) for n, scale in zip(numbers, scales, strict=True)]
    return tuple(found) if len(found) > 1 else found[0]
