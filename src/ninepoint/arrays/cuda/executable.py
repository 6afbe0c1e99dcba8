"""Executables on a GPU: what a text does on arrays of one kind, bound once, called often.

    work, fields, along, out      --bind-->     Executable
    executable(fields, numbers, out)      ->    results

    fields  ->  broadcast  ->  core axes last  ->  stack of few axes  ->  launches

The kernels of a GPU take whole arrays with any steps and know the border's rule, so a call is an
allocation and a few launches.  Nothing waits for the GPU, and nothing is copied to it or from it
but numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import Any, TypeAlias

import numpy as np

from ...backends.compiled import Compiled
from ...backends.cuda import driver
from ...backends.cuda.driver import DeviceArray
from ...backends.cuda.patches import STACK, Launch, Source
from ...backends.cuda.printing import Array
from ...base import limits
from ...base.frozen import frozen
from ...base.remembered import Remembered
from ...language.errors import mistake
from .. import accepted
from ..accepted import listed
from ..arranging import SOMEWHERE, Turned, core_last, memory_order, standing, together
from ..layout import Axes, Border, Region, Shape, layout
from ..regions import Node
from . import lying

# What a GPU fetches from memory at once [bytes]: columns that are farther apart are put side by
# side before, for else each of them would be fetched alone.
SECTOR = 32

# As many blocks as one launch may have.
MOST_BLOCKS = 2**31 - 1

# Starts one launch, on arrays with these addresses (fields, outputs, scratch), with these numbers.
_Start: TypeAlias = Callable[[Sequence[int], Sequence[Any]], None]


def understood(compiled: Compiled) -> None:
    """Raise where a kernel is one for the CPU only."""
    if found := compiled.cpu_only:
        place, reason = found
        raise mistake("gpu-general", place, compiled.name, reason)


class Executable:
    """What a call of one kernel under a border does on arrays that lie like these, on this GPU.

    The core axes lie `along` some.  It is called with fields and an `out` like those that
    it was bound to, which share no memory, and with numbers: coefficient arrays, then scalars.
    What it makes is there once all is done that was begun on the current stream.

    Raises
    ------
    ValueError
        If the border's constant does not fit, or there are too few axes.
    StencilError
        If the kernel takes the general path, for the CPU only.
    """

    def __init__(
        self,
        node: Node,
        border: Border,
        fields: Sequence[DeviceArray],
        along: Axes,
        out: Any = None,
    ) -> None:
        program = node.compiled
        understood(program)
        source, ndim = node.text(border), program.ndim
        shape = accepted.broadcast_shape([field.shape for field in fields])
        if len(shape) < ndim:
            raise accepted.too_few_axes(ndim, shape)
        read = [_lies(field, shape) for field in fields]
        targets = [_lies(one, one.shape) for one in listed(out)]
        order = core_last(len(shape), along)
        known = [one for one in (*read, *targets) if one is not None and one.shape == shape]
        if program.at_points and known:
            order = memory_order(shape, [one.strides for one in known])
        self._back = _inverse(order)
        # The fields that are copied before they are read, and the order of their axes then.
        self._copied = list[tuple[int, list[int]]]()
        arrays = list[_Array]()
        for k, (one, field) in enumerate(zip(read, fields, strict=True)):
            lies = None if one is None else one.transpose(order)
            # Neighbours along the last axis may be so far apart that they are fetched one by one.
            if lies is None or (lies.shape[-1] > 1 and abs(lies.strides[-1]) > SECTOR):
                own, lies = _copy_of(field, shape, order)
                self._copied.append((k, own))
            arrays.append(_Array(f"f{k}", lies, (0,) * ndim))
        lengths = tuple(shape[axis] for axis in order)
        lead, core = lengths[: len(lengths) - ndim], lengths[len(lengths) - ndim :]
        self._constants = _constants(node, border)
        regions = layout(core, program.reaches, border).extents
        self._made = [
            ((*lead, *region.shape), dtype)
            for region, dtype in zip(regions, program.out_dtypes, strict=True)
        ]
        written = [one.transpose(order) for one in targets if one is not None]
        # What is written must be of the result's own type; else the caller copies it there.
        types = [one.dtype for one in listed(out)]
        self._in_place = types == list(program.out_dtypes) and len(written) == len(types)
        if not self._in_place:
            written = [standing(SOMEWHERE, *one) for one in self._made]
        for k, (lies, region) in enumerate(zip(written, regions, strict=True)):
            arrays.append(_Array(f"o{k}", lies, region.start))
        self._scratch = list[tuple[Shape, np.dtype]]()
        self._starts = list[_Start]()
        if math.prod(shape) and any(math.prod(one) for one, _ in self._made):
            between = [_between(one, lead, core) for one in source.scratch]
            self._scratch = [(one.lies.shape, one.lies.dtype) for one in between]
            self._starts = _starts(program, source, [*arrays, *between], lead, core)
        # What makes of numbers what a function is given.
        self._given: list[Callable[[Any], Any]] = [
            partial(_coefficient, dtype) for dtype, _ in program.coefficient_types
        ]
        self._given += [one.numpy.type for one in program.scalar_types]

    def __call__(
        self, fields: Sequence[DeviceArray], numbers: Sequence[Any], out: Any, *given: Any
    ) -> list[DeviceArray]:
        """What a call gives: one array for each output.

        They are others than `out` where this is of other types, or lies where no kernel writes.
        """
        results = listed(out) if self._in_place else list(starmap(driver.empty, self._made))
        arrays = [*fields, *results]
        # All that is made here lives until everything is started: the pool knows the stream.
        for k, own in self._copied:
            arrays[k] = driver.contiguous(arrays[k], own)
        arrays += starmap(driver.empty, self._scratch)
        pointers = [array.data.ptr for array in arrays]
        told = [to(value) for to, value in zip(self._given, numbers, strict=True)]
        for start in self._starts:
            start(pointers, (*told, *self._constants))
        if not self._in_place and self._back != sorted(self._back):
            results = [result.transpose(self._back) for result in results]
        return results


def _constants(node: Node, border: Border) -> list[Any]:
    """The constants of the text; raises where one does not fit."""
    program = node.compiled
    found = accepted.check_values(border, node.cval, program)
    asked = [border.uses("constant")] * len(program.field_dtypes)
    asked += [border.uses("fill")] * len(program.out_dtypes)
    return [one[()] for is_asked, one in zip(asked, found, strict=True) if is_asked]


# How arrays lie.


@frozen
class _Array:
    """An array of a text: how it is called there, where its elements lie, and its first point."""

    name: str
    lies: np.ndarray
    start: Shape

    @property
    def steps(self) -> Shape:
        """The elements from one to the next along each axis."""
        return tuple(step // self.lies.itemsize for step in self.lies.strides)

    @property
    def origin(self) -> int:
        """How far from its begin the point 0 of each core axis is [bytes]."""
        steps = self.lies.strides[-len(self.start) :]
        return -sum(at * step for at, step in zip(self.start, steps, strict=True))


def _between(one: Array, lead: Shape, core: Shape) -> _Array:
    """An array between two launches."""
    low, high = one.region
    region = Region(zip(low, map(operator.add, core, high), strict=True))
    lies = standing(SOMEWHERE, (*lead, *region.shape), one.dtype)
    return _Array(one.name, lies, region.start)


def _lies(array: DeviceArray, shape: Shape) -> np.ndarray | None:
    """Where the elements of an array lie, broadcast; None if it must be copied to be read."""
    size = array.dtype.itemsize
    if array.data.ptr % size or any(step % size for step in array.strides):
        return None
    found = lying(array)
    return found if array.shape == shape else np.broadcast_to(found, shape)


def _copy_of(
    field: DeviceArray, shape: Shape, order: Sequence[int]
) -> tuple[list[int], np.ndarray]:
    """The order of the axes of a copy of a field, and how this lies, broadcast and in order."""
    missing = len(shape) - field.ndim
    own = [axis - missing for axis in order if axis >= missing]
    copy = standing(SOMEWHERE, tuple(field.shape[axis] for axis in own), field.dtype)
    return own, np.broadcast_to(copy.transpose(_inverse(own)), shape).transpose(order)


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


# Launches.


def _starts(
    program: Compiled, source: Source, arrays: Sequence[_Array], lead: Shape, core: Shape
) -> list[_Start]:
    """Say what is started, for arrays that lie so: with so long a stack, and core axes."""
    ndim = program.ndim
    # All axes are alike at points: they are as few as can be.
    free = len(lead) + len(core) if program.at_points else len(lead)
    lengths = *lead, *core
    few = together(lengths[:free], [one.steps[:free] for one in arrays])
    how = Turned(tuple(range(len(lengths))), (*few, *[()] * len(lengths[free:])))
    merged = [replace(one, lies=how.of(one.lies)) for one in arrays]
    axes = merged[0].lies.shape or (1,)
    steps = [one.steps or (1,) for one in merged]
    core = axes[-ndim:]
    # Whether distances in a frame, or places looked at along an axis, do not fit in 32 bits.
    reaches = [max(core) + max(map(abs, (*program.reach.lo, *program.reach.hi))), math.prod(core)]
    reaches += [sum(map(abs, map(operator.mul, one[-ndim:], core))) for one in steps]
    far = max(reaches) >= limits.current.far_elements
    functions = driver.functions(source.text, program.name, program.fastmath, far)
    starts = list[_Start]()
    # The first axes of a long stack are gone through one by one.
    extra = max(0, len(axes) - ndim - STACK)
    for frame in np.ndindex(*axes[:extra]):
        placed = {}
        for k, (one, own) in enumerate(zip(arrays, steps, strict=True)):
            size = one.lies.itemsize
            place = one.origin + sum(map(operator.mul, frame, own)) * size
            placed[one.name] = _Placed(k, place, size, own[extra:])
        for launch in source.launches:
            used = [placed[name] for name in launch.arrays]
            starts.append(_start(launch, functions, axes[extra:], used))
    return starts


@frozen
class _Placed:
    """An array of a launch: its number, what is added to its address, and its steps."""

    number: int
    place: int
    itemsize: int
    steps: Shape


def _start(
    launch: Launch, functions: driver.Functions, axes: Shape, arrays: Sequence[_Placed]
) -> _Start:
    """One launch for arrays that lie so, in the order in which it names them."""
    missing = STACK + len(launch.tile) - len(axes)
    lengths = (*(1,) * missing, *axes)
    stack, core = lengths[:STACK], lengths[STACK:]
    steps = [(*(0,) * missing, *one.steps) for one in arrays]
    told = [*core, *stack]
    told += [step for one in steps for step in one[STACK:]]
    told += [step for one in steps for step in one[:STACK]]
    points = [
        max(0, n + high - low) for n, low, high in zip(core, launch.low, launch.high, strict=True)
    ]
    count = math.prod(stack)
    count *= math.prod(-(-n // size) for n, size in zip(points, launch.tile, strict=True))
    if count > MOST_BLOCKS:
        raise ValueError(
            f"an array of {core} and a stack of {stack} is more than one launch on a GPU can do; "
            "give parts of the stack."
        )
    wide = [
        (k, one, size)
        for k, (one, size) in enumerate(zip(arrays, launch.wide, strict=False))
        if size
    ]
    can = all(
        one.steps[-1] == 1 and not any(step * one.itemsize % size for step in one.steps[:-1])
        for _, one, size in wide
    )
    plain: Any = driver.function(functions.module, launch.plain) if launch.plain else None
    chosen: Any = driver.function(functions.module, launch.function) if can else plain
    geometry = driver.by_value(np.array(told, np.int64))

    def start(pointers: Sequence[int], more: Sequence[Any]) -> None:
        given = [pointers[one.number] + one.place for one in arrays]
        uneven = any(given[k] % size for k, _, size in wide)
        (plain if uneven else chosen)((count,), launch.threads, (*given, *more, geometry))

    return start


# Coefficient arrays by their elements, and by the GPU and the stream on which they are there.
_uploaded: Remembered[DeviceArray] = Remembered(256)


def _coefficient(dtype: np.dtype, values: np.ndarray) -> int:
    """Where a small array is on the current GPU; it is taken there once, and stays."""
    array = np.ascontiguousarray(values, dtype)
    where = driver.current(), driver.current_stream().ptr
    key = array.dtype.str, array.shape, array.tobytes(), *where
    found = _uploaded.get(key)
    if found is None:
        found = _uploaded[key] = driver.uploaded(array)
    return int(found.data.ptr)
