"""Settled calls: what is started for arrays that lie alike, done again with other pointers.

fields  ->  broadcast  ->  core axes last  ->  stack of few axes  ->  launches
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, TypeAlias

import numpy as np

from ninepoint import limits
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.cuda.fields import bounds
from ninepoint.arrays.cuda.work import Work
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
from ninepoint.backends.cuda.source import STACK, Launch, Source

# What a GPU fetches from memory at once [bytes]: columns that are farther apart are put side by
# side before, for else each of them would be fetched alone.
SECTOR = 32

# As many blocks as one launch may have.
MOST_BLOCKS = 2**31 - 1


# Starts one launch, on arrays with these addresses (fields, outputs, scratch), with these numbers.
_Start: TypeAlias = Callable[[Sequence[int], Sequence[Any]], None]


def bind(work: Work, fields: Sequence[DeviceArray], out: Any = None, axes: Any = None) -> Run:
    """What does calls on fields and an `out` that lie just like these, on the current GPU.

    The core axes are `axes`, or the last.  What is made is there once all is done that was begun
    on the current stream.

    Raises
    ------
    ValueError
        If the border's constant does not fit, or there are too few axes.
    """
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    ndim = work.ndim
    if len(shape) < ndim:
        raise on_numpy.too_few_axes(ndim, shape)
    spread = [_lies(field, shape) for field in fields]
    outs = [_lies(one, one.shape) for one in out or ()]
    order = _order(work, shape, axes, [one for one in (*spread, *outs) if one is not None])
    lying: list[Strided] = []
    # The fields that are copied before they are read, and the order of their axes then.
    copied: list[tuple[int, list[int]]] = []
    for k, (one, field) in enumerate(zip(spread, fields, strict=True)):
        turned = None if one is None else one.turned(order)
        if turned is None or _is_scattered(turned, field.dtype.itemsize):
            missing = len(shape) - field.ndim
            own = [axis - missing for axis in order if axis >= missing]
            copy = contiguous(tuple(field.shape[axis] for axis in own))
            turned = copy.turned(_inverse(own)).spread(shape).turned(order)
            copied.append((k, own))
        lying.append(turned)
    lengths = tuple(shape[axis] for axis in order)
    lead, core = lengths[: len(lengths) - ndim], lengths[len(lengths) - ndim :]
    regions = list(work.extents(core))
    shapes = [(*lead, *one.shape) for one in regions]
    made = list(zip(shapes, work.out_dtypes, strict=True))
    # What is written must be of the result's own type.
    fits = None not in outs and all(
        one.dtype == dtype for one, dtype in zip(out or (), work.out_dtypes, strict=False)
    )
    written = [one.turned(order) for one in outs if one is not None] if fits else []
    written = written or [contiguous(lengths) for lengths in shapes]
    scratch: list[tuple[Shape, np.dtype[Any]]] = []
    starts: list[_Start] = []
    constants: tuple[Any, ...] = ()
    if math.prod(shape) and any(map(math.prod, shapes)):
        source, constants = work.source()
        for between in source.scratch:
            high = tuple(map(operator.add, core, between.high))
            regions.append(Region(between.low, high))
            scratch.append(((*lead, *regions[-1].shape), between.dtype))
            written.append(contiguous(scratch[-1][0]))
        starts = _starts(work, source, regions, lying, written, lead, core)
    reached = [bounds(one) for one in (*fields, *(out or ()))]
    back = _inverse(order)
    moved = back != sorted(back)
    empty = driver.empty

    def run(fields: Sequence[DeviceArray], numbers: Sequence[Any], out: Any) -> Any:
        if out is None:
            results = list(starmap(empty, made))
        else:
            results = listed(out)
            if not fits or _meet([*fields, *results], len(fields), reached):
                # It is computed elsewhere, and copied there afterwards.
                anew = bind(work, fields, None, axes)(fields, numbers, None)
                for target, one in zip(results, listed(anew), strict=True):
                    target[...] = one
                return out
        arrays = [*fields, *results]
        # All that is made here lives until everything is started: the pool knows the stream.
        for k, own in copied:
            arrays[k] = driver.contiguous(driver.aligned(arrays[k]).transpose(own))
        if scratch:
            arrays += starmap(empty, scratch)
        pointers = list(map(_address, arrays))
        more = (*work.numbers(numbers), *constants) if numbers else constants
        for start in starts:
            start(pointers, more)
        if moved and out is None:
            results = [result.transpose(back) for result in results]
        return results[0] if len(results) == 1 else tuple(results)

    return run


# Where an array begins.
_address = operator.attrgetter("data.ptr")


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


def _meet(arrays: Sequence[DeviceArray], count: int, reached: Sequence[tuple[int, int]]) -> bool:
    """Whether what is written shares memory with one of `count` fields, or among itself.

    `reached` is from where to where the elements of each lie.
    """
    spans = []
    for begin, (first, last) in zip(map(_address, arrays), reached, strict=True):
        spans.append((begin + first, begin + last))
    for k, (first, last) in enumerate(spans[count:], count):
        for other, end in spans[:k]:
            if first < end and other < last:
                return True
    return False


def _order(work: Work, shape: Shape, axes: Any, lying: Sequence[Strided]) -> tuple[int, ...]:
    """Find the order in which the axes are taken: core axes last."""
    count = len(shape)
    core = tuple(range(count - work.ndim, count))
    if axes is not None:
        core = on_numpy.core_axes(axes, count, work.ndim)
    known = [one for one in lying if one.lengths == shape]
    if work.points and known:
        return memory_order(known)
    return (*(axis for axis in range(count) if axis not in core), *core)


def _starts(
    work: Work,
    source: Source,
    regions: Sequence[Region],
    fields: Sequence[Strided],
    results: Sequence[Strided],
    lead: Shape,
    core: Shape,
) -> list[_Start]:
    """Say what is started, for arrays that lie so.

    `results` are those of the call, and after them what is between its launches; along the core
    axes they have the points of these `regions`.
    """
    ndim = len(core)
    names = [f"field{k}" for k in range(len(fields))]
    names += [f"out{k}" for k in range(len(results) - len(source.scratch))]
    names += [one.name for one in source.scratch]
    lying = [*fields, *results]
    dtypes = (*work.field_dtypes, *work.out_dtypes, *(one.dtype for one in source.scratch))
    sizes = [dtype.itemsize for dtype in dtypes]
    # Where the point 0 of each core axis stands, in elements.
    origins = [0] * len(fields) + [
        -sum(map(operator.mul, region.start, one.steps[len(lead) :]))
        for one, region in zip(results, regions, strict=True)
    ]
    if work.points:
        # All axes are alike: they are as few as can be.
        whole = merged(lying)
        whole = [one if one.lengths else Strided((1,), (1,)) for one in whole]
        core = whole[0].lengths[-1:]
        stacks = [Strided(one.lengths[:-1], one.steps[:-1]) for one in whole]
        cores = [one.steps[-1:] for one in whole]
    else:
        stacks = merged([Strided(lead, one.steps[: len(one.steps) - ndim]) for one in lying])
        cores = [one.steps[len(one.steps) - ndim :] for one in lying]
    far = any(_is_far(core, steps, work.reach) for steps in cores)
    functions = cubins.functions(source.text, work.name, work.fastmath, far, driver.current())
    starts: list[_Start] = []
    for offsets, frames in apart(stacks, STACK):
        places = [
            (origin + offset) * size
            for origin, offset, size in zip(origins, offsets, sizes, strict=True)
        ]
        for launch in source.launches:
            used = [names.index(name) for name in launch.arrays]
            arrays = [_Lying(k, places[k], sizes[k], cores[k], frames[k].steps) for k in used]
            starts.append(_start(launch, functions, core, frames[0].lengths, arrays))
    return starts


@dataclass(frozen=True, slots=True)
class _Lying:
    """An array of a launch: its number, what is added to its address, and its steps."""

    number: int
    place: int
    itemsize: int
    core: tuple[int, ...]
    frames: tuple[int, ...]


def _start(
    launch: Launch,
    functions: cubins.Functions,
    core: Shape,
    stack: Shape,
    arrays: Sequence[_Lying],
) -> _Start:
    """One launch for arrays that lie so, in the order in which it names them."""
    missing = STACK - len(stack)
    told = [*core, *((1,) * missing), *stack]
    told += [step for one in arrays for step in one.core]
    told += [step for one in arrays for step in ((0,) * missing + one.frames)]
    points = [
        max(0, n + high - low) for n, low, high in zip(core, launch.low, launch.high, strict=True)
    ]
    frames = math.prod(stack)
    tile = launch.tile_for(points, frames, driver.processors(driver.current()))
    count = frames * math.prod(-(-n // size) for n, size in zip(points, tile, strict=True))
    if count > MOST_BLOCKS:
        raise ValueError(
            f"an array of {core} and a stack of {stack} is more than one launch on a GPU can do; "
            "give parts of the stack."
        )
    wide = [(launch.arrays.index(name), width) for name, width in launch.wide]
    can = all(
        arrays[k].core[-1] == 1
        and not any(
            step * arrays[k].itemsize % width for step in (*arrays[k].core[:-1], *arrays[k].frames)
        )
        for k, width in wide
    )
    plain: Any = functions[launch.plain] if launch.plain else None
    chosen: Any = functions[launch.function] if can else plain
    # What an address must be a multiple of, less 1; where one is not, `plain` is started.
    masks = [(k, width - 1) for k, width in wide] if can else []
    grid, block, geometry = (count,), launch.threads, driver.by_value(np.array(told, np.int64))
    places = [(one.number, one.place) for one in arrays]
    as_they_are = places == [(k, 0) for k in range(len(places))]

    def start(pointers: Sequence[int], more: Sequence[Any]) -> None:
        given = pointers if as_they_are else [pointers[k] + place for k, place in places]
        function = chosen
        for k, mask in masks:
            if given[k] & mask:
                function = plain
        function(grid, block, (*given, *more, geometry))

    return start


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
