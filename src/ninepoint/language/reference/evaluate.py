"""The user's function, called at every point: with fields, or with one element of each array."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ..definitions import Function
from .borders import Reach, Rules, bordered, neighbour
from .number import Array, Number, Point, number, running, see
from .views import Field, Position, neighbours
from .world import argument, live

_DOMAIN_ERRORS = ("math domain error", "math range error", "expected a ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a function is called, and what it is given besides its fields.

    Attributes
    ----------
    boundary : sequence of pairs
        The rules before and after each axis: names, or conditions.  A function of numbers has no
        axes: at each point it is given the elements that stand there in its arrays, which
        broadcast.
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
    shape: Point
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
    kernel = _Kernel(function, setting)
    fields = {name: Field(kernel, name, array) for name, array in arrays.items()}
    seen = dict(enumerate(field.seen for field in fields.values()))
    outputs, rules, cval = kernel.outputs(fields), setting.boundary, setting.cval
    kept: Any = (..., *(slice(None, None, step) for step in setting.every))
    return tuple(
        bordered(outputs[k, ...], reach, rules, cval, seen.get(k), kernel.factors)[kept]
        for k, reach in enumerate(setting.footprints)
    )


class _Reached(Exception):
    """The function came to the expression whose value is asked for."""


class _Kernel:
    """The function with its arrays, to be called at one point after another."""

    def __init__(self, function: Function, setting: Setting) -> None:
        self.setting, self.rules = setting, setting.boundary
        # How many results there are for each element; a point is that of a result.
        ones = (1,) * len(self.rules)
        self.factors, self.every = tuple(setting.upsample) or ones, setting.every or ones
        self._function, self._names = live(function), function.parameters
        self._by_name = {one.arg for one in function.definition.args.kwonlyargs}
        # Defaults are numbers of the kernel too.
        given = {**function.defaults, **setting.scalars}
        self._values = {name: argument(value) for name, value in given.items()}
        self._point: Point = ()
        # How often each place of the text indexed an expression in this run, and which of these
        # is asked for.
        self._indexed: Counter[Any] = Counter()
        self._wanted: Any = None
        # What indexed expressions were at the points that the function came to.
        self._known: dict[Any, Any] = {}

    def outputs(self, fields: Mapping[str, Field]) -> Array:
        """What there is at every point, a number for each output; NaN where there is nothing.

        A function of numbers is given the elements of the fields at the point.
        """
        shape, stack = self.setting.shape, len(self.setting.shape) - len(self.rules)
        points = (n * k for n, k in zip(shape, (1,) * stack + self.factors, strict=True))
        outputs = np.empty((len(self.setting.footprints), *points), object)
        token = running.set(self)
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                # NumPy's functions of arrays warn of what a kernel has as a number: a mean of
                # nothing.
                warnings.simplefilter("ignore", RuntimeWarning)
                self._values |= fields
                for point in np.ndindex(outputs.shape[1:]):
                    if not self.rules:
                        self._values |= {
                            name: see(one.seen[point]) for name, one in fields.items()
                        }
                    outputs[(slice(None), *point)] = self._results(point)
        finally:
            running.reset(token)
        return outputs

    def _results(self, point: Point) -> tuple[Any, ...]:
        """The outputs at a point: NaN where Python has no number for them, as NumPy has."""
        try:
            found = self._called(point)
            return tuple(map(number, found if isinstance(found, tuple) else (found,)))
        except ArithmeticError:
            pass
        except ValueError as error:
            if not str(error).startswith(_DOMAIN_ERRORS):
                raise
        return (np.float64(np.nan),) * len(self.setting.footprints)

    def _called(self, point: Point, wanted: Any = None) -> Any:
        """What the function gives at a point, if it does not come to what is wanted before."""
        before = self._point, self._indexed, self._wanted
        self._point, self._indexed, self._wanted = point, Counter(), wanted
        values = self._values
        positional = [values[name] for name in self._names if name not in self._by_name]
        try:
            return self._function(*positional, **{name: values[name] for name in self._by_name})
        finally:
            self._point, self._indexed, self._wanted = before

    def elsewhere(self, value: Number, index: Any) -> Any:
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

        def read(offset: Point) -> Any:
            if len(offset) != ndim:
                raise IndexError(f"an expression is read with {len(offset)} indices, not {ndim}")
            moves = zip(point[-ndim:], offset, self.factors, strict=True)
            there = *point[:-ndim], *(p + o * k for p, o, k in moves)
            if (there, found) not in self._known:
                with contextlib.suppress(_Reached):
                    # Where each point asks for another, there is no end.
                    with contextlib.suppress(RecursionError):
                        self._called(there, found)
                    raise RuntimeError(
                        "debug runs the function at another point to find what an expression is "
                        "there, and it takes another branch, which does not read it; read it "
                        "before the choice, as in 'before = d[-1]'. The compiled call needs no "
                        "such help."
                    )
            return see(self._known[there, found])

        return neighbours(read, index)

    @property
    def shape(self) -> tuple[Any, ...]:
        """How long the whole array is along each axis of the kernel: no stack is seen."""
        return tuple(map(argument, self.setting.shape[-len(self.rules) :]))

    def position(self, *fields: Any) -> Any:
        """Where the point is in a field: a number for each axis, or for one axis that.

        Without a field, where it is among the results, which may be fewer than the elements, or
        more.
        """
        if len(fields) > 1:
            raise TypeError("npt.index takes one field, or nothing")
        found = []
        for axis, (point, k) in enumerate(zip(self._core, self.factors, strict=True)):
            if fields:
                found.append(Position(point // k, 1, point // k))
                continue
            first = {0}
            if self.rules[axis][0] == "valid":
                first = {max(0, -low[axis]) for low, _ in self.setting.footprints}
            if len(first) > 1 and max(self.factors) == 1:
                raise ValueError("the results have different shapes: ask for npt.index(x)")
            place = (point - k * min(first)) // self.every[axis]
            found.append(Position(place, k, place // k))
        return tuple(found) if len(found) > 1 else found[0]

    @property
    def _core(self) -> Point:
        """The point along the axes of the kernel."""
        return self._point[-len(self.rules) :]

    def read(self, field: Field, offset: Point) -> Any:
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
