"""Settled calls: what is started for arrays that lie alike, done again with other pointers.

fields  ->  broadcast  ->  core axes last  ->  stack of few axes  ->  launches
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from ninepoint import limits
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.cuda.fields import are_apart, bounds
from ninepoint.arrays.cuda.work import Work, coefficient
from ninepoint.arrays.executable import Run
from ninepoint.arrays.layout import Region, Shape
from ninepoint.arrays.recognise import listed
from ninepoint.arrays.strided import (
    Strided,
    apart,
    contiguous,
    memory_order,
    merged,
    strided,
)
from ninepoint.backends.cuda import cubins, driver
from ninepoint.backends.cuda.driver import DeviceArray
from ninepoint.backends.cuda.filling import tile_for
from ninepoint.backends.cuda.source import STACK, Launch, Source

# What a GPU fetches from memory at once [bytes]: columns that are farther apart are put side by
# side before, for else each of them would be fetched alone.
SECTOR = 32

# As many blocks as one launch may have.
MOST_BLOCKS = 2**31 - 1

# What a text is given first: the arrays by their numbers (fields, then outputs, then scratch),
# each with what is added to its address.
_Arrays: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Start:
    """One launch on arrays that lie in one way.

    `wide` are the numbers of arrays whose address must be a multiple, less 1; `plain` is started
    where one is not.
    """

    function: Any
    plain: Any
    wide: tuple[tuple[int, int], ...]
    grid: tuple[int]
    block: tuple[int, int, int]
    arrays: _Arrays
    geometry: Any


class Settled:
    """Calls on arrays that lie alike."""

    def __init__(
        self, work: Work, fields: Sequence[DeviceArray], out: Any = None, axes: Any = None
    ) -> None:
        shape = on_numpy.broadcast_shape([field.shape for field in fields])
        ndim = work.ndim
        if len(shape) < ndim:
            raise on_numpy.too_few_axes(ndim, shape)
        spread = [_lies(field, shape) for field in fields]
        outs = [] if out is None else [_lies(one, one.shape) for one in out]
        self._points = work.points
        order = self._order(shape, ndim, axes, [*spread, *outs])
        self._copied: list[bool] = []
        lying: list[Strided] = []
        for one, field in zip(spread, fields, strict=True):
            turned = None if one is None else one.turned(order)
            copied = turned is None or _is_scattered(turned, field.dtype.itemsize)
            self._copied.append(copied)
            if turned is None or copied:
                turned = _copied_lies(field.shape, shape, order)
            lying.append(turned)
        self._orders = [_own(order, len(shape), field.ndim) for field in fields]
        lengths = tuple(shape[axis] for axis in order)
        self._back = tuple(order.index(axis) for axis in range(len(order)))
        self._moved = self._back != tuple(range(len(order)))
        lead, core = lengths[: len(lengths) - ndim], lengths[len(lengths) - ndim :]
        extents = work.extents(core)
        self._shapes = [(*lead, *one.shape) for one in extents]
        self._dtypes = work.out_dtypes
        results = [contiguous(one) for one in self._shapes]
        self._bounds = [bounds(field) for field in fields]
        self._out_bounds = bounds(out[0]) if out else (0, 0)
        # What is written must be of the result's own type.
        self._fits = all(one is not None for one in outs) and all(
            one.dtype == dtype for one, dtype in zip(out or (), self._dtypes, strict=False)
        )
        if outs and self._fits:
            results = [one.turned(order) for one in outs if one is not None]
        self._scratch: list[tuple[Shape, np.dtype[Any]]] = []
        self._starts: list[_Start] = []
        self._constants: tuple[Any, ...] = ()
        self._scalars, self._coefficients = work.scalars, work.coefficients
        if not math.prod(shape) or not any(math.prod(one) for one in self._shapes):
            return
        source, self._constants = work.source()
        self._settle(work, source, extents, lying, results, lead, core)

    def _order(
        self, shape: Shape, ndim: int, axes: Any, lying: Sequence[Strided | None]
    ) -> tuple[int, ...]:
        """Find the order in which the axes are taken: core axes last."""
        count = len(shape)
        core = tuple(range(count - ndim, count))
        if axes is not None:
            core = on_numpy.core_axes(axes, count, ndim)
        known = [one for one in lying if one is not None and one.lengths == shape]
        if self._points and known:
            return memory_order(known)
        return (*(axis for axis in range(count) if axis not in core), *core)

    def _settle(
        self,
        work: Work,
        source: Source,
        extents: Sequence[Region],
        fields: Sequence[Strided],
        results: Sequence[Strided],
        lead: Shape,
        core: Shape,
    ) -> None:
        """Say what is started, for arrays that lie so."""
        ndim = len(core)
        names = [f"field{k}" for k in range(len(fields))]
        names += [f"out{k}" for k in range(len(results))]
        lying = [*fields, *results]
        sizes = [dtype.itemsize for dtype in (*work.field_dtypes, *work.out_dtypes)]
        # Where the point 0 of each core axis stands, in elements.
        origins = [0] * len(fields) + [
            -sum(map(operator.mul, extent.start, one.steps[len(lead) :]))
            for one, extent in zip(results, extents, strict=True)
        ]
        for one in source.scratch:
            lengths = tuple(
                n + high - low for n, low, high in zip(core, one.low, one.high, strict=True)
            )
            lies = contiguous((*lead, *lengths))
            self._scratch.append(((*lead, *lengths), one.dtype))
            names.append(one.name)
            lying.append(lies)
            sizes.append(one.dtype.itemsize)
            origins.append(
                -sum(
                    low * step for low, step in zip(one.low, lies.steps[len(lead) :], strict=True)
                )
            )
        if self._points:
            # All axes are alike: they are as few as can be.
            whole = merged(lying)
            whole = [one if one.lengths else Strided((1,), (1,)) for one in whole]
            core = whole[0].lengths[-1:]
            stacks = [Strided(one.lengths[:-1], one.steps[:-1]) for one in whole]
            cores = [one.steps[-1:] for one in whole]
        else:
            stacks = merged([Strided(lead, one.steps[: len(one.steps) - ndim]) for one in lying])
            cores = [one.steps[len(one.steps) - ndim :] for one in lying]
        numbers = {name: k for k, name in enumerate(names)}
        far = any(_is_far(core, steps, work.reach) for steps in cores)
        functions = cubins.functions(source.text, work.name, work.fastmath, far, driver.current())
        for offsets, frames in apart(stacks, STACK):
            places = [
                (origin + offset) * size
                for origin, offset, size in zip(origins, offsets, sizes, strict=True)
            ]
            for launch in source.launches:
                used = [numbers[name] for name in launch.arrays]
                self._starts.append(
                    _start(launch, functions, core, used, places, frames, cores, sizes)
                )

    def blank(self) -> Any:
        """Give results as a call makes them, of any numbers."""
        results = [result.transpose(self._back) for result in self._empty()]
        return results[0] if len(results) == 1 else tuple(results)

    def _empty(self) -> list[DeviceArray]:
        return [
            driver.empty(shape, dtype)
            for shape, dtype in zip(self._shapes, self._dtypes, strict=True)
        ]

    def _numbers(self, numbers: Sequence[Any]) -> list[Any]:
        """Give coefficients and scalars as a function takes them."""
        count = len(self._coefficients)
        # They stay on the GPU, for `coefficient` holds them.
        given = [
            coefficient(np.ascontiguousarray(array, dtype)).data.ptr
            for array, dtype in zip(numbers[:count], self._coefficients, strict=True)
        ]
        pairs = zip(self._scalars, numbers[count:], strict=True)
        return [*given, *[to(value) for to, value in pairs]]

    @property
    def quick(self) -> Run:
        """The same for calls that come often: of one launch, a third of the time beside it."""
        if len(self._starts) != 1 or len(self._shapes) > 1 or self._moved or self._scratch:
            return self
        (start,) = self._starts
        if any(self._copied) or [k for k, _ in start.arrays] != list(range(len(start.arrays))):
            return self
        (shape,), (dtype,), constants = self._shapes, self._dtypes, self._constants
        function, plain, wide = start.function, start.plain, start.wide
        grid, block, geometry = start.grid, start.block, start.geometry
        offsets = [offset for _, offset in start.arrays]
        moved, numbered = any(offsets), bool(self._scalars or self._coefficients)
        empty, fits, reached = driver.empty, self._fits, self._bounds
        first, last = self._out_bounds

        def meets(pointer: int, ends: tuple[int, int], out: int) -> bool:
            return pointer + ends[0] < out + last and out + first < pointer + ends[1]

        def run(fields: Sequence[DeviceArray], numbers: Sequence[Any], out: Any) -> Any:
            given = [field.data.ptr for field in fields]
            if out is None:
                result = empty(shape, dtype)
                given.append(result.data.ptr)
            else:
                (result,) = listed(out)
                given.append(result.data.ptr)
                if not fits or any(map(meets, given[:-1], reached, repeat(given[-1]))):
                    return None
            if moved:
                given = list(map(operator.add, given, offsets))
            chosen = function
            for k, mask in wide:
                if given[k] & mask:
                    chosen = plain
            if numbered:
                given += self._numbers(numbers)
            chosen(grid, block, (*given, *constants, geometry))
            return result

        return run

    def __call__(self, fields: Sequence[DeviceArray], numbers: Sequence[Any], out: Any) -> Any:
        """Do a call; None if what is to be written cannot be written as it is."""
        if out is not None:
            results = listed(out)
            if not self._fits or not are_apart(results, fields):
                return None
        else:
            results = self._empty()
        read = [
            driver.contiguous(driver.aligned(field).transpose(order)) if copied else field
            for field, copied, order in zip(fields, self._copied, self._orders, strict=True)
        ]
        scratch = [driver.empty(shape, dtype) for shape, dtype in self._scratch]
        pointers = [array.data.ptr for array in (*read, *results, *scratch)]
        more = (*self._numbers(numbers), *self._constants)
        for start in self._starts:
            given = [pointers[k] + offset for k, offset in start.arrays]
            function = start.function
            for k, mask in start.wide:
                if given[k] & mask:
                    function = start.plain
            function(start.grid, start.block, (*given, *more, start.geometry))
        if out is None and self._moved:
            results = [result.transpose(self._back) for result in results]
        return results[0] if len(results) == 1 else tuple(results)


def _start(
    launch: Launch,
    functions: cubins.Functions,
    core: Shape,
    used: Sequence[int],
    places: Sequence[int],
    frames: Sequence[Strided],
    cores: Sequence[tuple[int, ...]],
    sizes: Sequence[int],
) -> _Start:
    """One launch for arrays that lie so; `used` are the numbers of those that it names."""
    stack = frames[0].lengths
    missing = STACK - len(stack)
    told = [*core, *((1,) * missing), *stack]
    told += [step for k in used for step in cores[k]]
    told += [step for k in used for step in ((0,) * missing + frames[k].steps)]
    points = [
        max(0, n + high - low) for n, low, high in zip(core, launch.low, launch.high, strict=True)
    ]
    frames_there = math.prod(stack)
    tile = tile_for(launch, points, frames_there, driver.processors(driver.current()))
    blocks = math.prod(-(-n // size) for n, size in zip(points, tile, strict=True))
    count = blocks * frames_there
    if count > MOST_BLOCKS:
        raise ValueError(
            f"an array of {core} and a stack of {stack} is more than one launch on a GPU can do; "
            "give parts of the stack."
        )
    wide: list[tuple[int, int]] = []
    can = True
    for name, width in launch.wide:
        k = launch.arrays.index(name)
        number = used[k]
        steps = (*cores[number][:-1], *frames[number].steps)
        can = can and cores[number][-1] == 1
        can = can and not any(step * sizes[number] % width for step in steps)
        wide.append((k, width - 1))
    plain = functions[launch.plain] if launch.plain else None
    return _Start(
        functions[launch.function] if can else plain,
        plain,
        tuple(wide) if can else (),
        (count,),
        launch.threads,
        tuple((k, places[k]) for k in used),
        driver.by_value(np.array(told, np.int64)),
    )


def _is_far(core: Shape, steps: Sequence[int], reach: int) -> bool:
    """Whether distances in a frame, or places looked at along an axis, do not fit in 32 bits."""
    reached = sum(abs(step) * n for step, n in zip(steps, core, strict=True))
    return max(reached, math.prod(core), max(core) + reach) >= limits.current.far_elements


def _lies(array: DeviceArray, shape: Shape) -> Strided | None:
    """Where the elements of an array lie, broadcast; None if it must be copied to be read."""
    found = strided(array)
    if found is None or array.data.ptr % array.dtype.itemsize:
        return None
    return found.spread(shape)


def _is_scattered(array: Strided, itemsize: int) -> bool:
    """Whether neighbours along the last axis are so far apart that they are fetched one by one."""
    step, length = abs(array.steps[-1]), array.lengths[-1]
    return length > 1 and step * itemsize > SECTOR


def _own(order: Sequence[int], rank: int, ndim: int) -> tuple[int, ...]:
    """Give the order of the axes that a field has, of all that are there."""
    missing = rank - ndim
    return tuple(axis - missing for axis in order if axis >= missing)


def _copied_lies(own: Shape, shape: Shape, order: Sequence[int]) -> Strided:
    """Where a copy of a field lies whose axes are in this order."""
    missing = len(shape) - len(own)
    axes = [axis for axis in order if axis >= missing]
    lies = contiguous(tuple(own[axis - missing] for axis in axes))
    steps = {
        axis: step if own[axis - missing] == shape[axis] else 0
        for axis, step in zip(axes, lies.steps, strict=True)
    }
    return Strided(
        tuple(shape[axis] for axis in order), tuple(steps.get(axis, 0) for axis in order)
    )
