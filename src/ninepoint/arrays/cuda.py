"""Apply a compiled stencil to arrays on a GPU.

    fields -> broadcast -> core axes last -> stack of few axes -> launches, on the current stream

The kernels of a GPU take whole arrays with any steps and know the border's rule, so a call is an
allocation and a few launches.  Nothing waits for the GPU, and nothing is copied to it or from it
but numbers.

What a call does is settled once for arrays that lie alike; then it is done again with other
pointers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from ninepoint.arrays import accepted
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.arranging import Run, listed
from ninepoint.arrays.borders import Border, fitting_cval
from ninepoint.arrays.keys import number_key
from ninepoint.arrays.layout import Region, Shape, layout
from ninepoint.arrays.merging import looks_at_points
from ninepoint.arrays.prepared import Options
from ninepoint.arrays.recognise import is_cupy, is_device
from ninepoint.arrays.strided import (
    Strided,
    apart,
    contiguous,
    memory_order,
    merged,
    strided,
)
from ninepoint.backends.compiled import Bound, Compiled
from ninepoint.backends.cuda import cubins, driver
from ninepoint.backends.cuda.driver import DeviceArray
from ninepoint.backends.cuda.filling import tile_for
from ninepoint.backends.cuda.source import STACK, Launch, Source
from ninepoint.backends.cuda.writing import written
from ninepoint.language import errors
from ninepoint.remembered import Remembered

# What a GPU fetches from memory at once [bytes]: columns that are farther apart are put side by
# side before, for else each of them would be fetched alone.
SECTOR = 32

# As many blocks as one launch may have.
MOST_BLOCKS = 2**31 - 1

# Elements of a frame from which on distances in it are of 64 bits.
FAR_ELEMENTS = 2**30

_Key: TypeAlias = tuple[Any, ...]


# Arrays.


def as_fields(values: Sequence[Any], names: Sequence[str]) -> list[DeviceArray]:
    """Give the fields of a call, one of which lies on a GPU, as arrays of CuPy on one GPU.

    Numbers are taken there; arrays are never copied.

    Raises
    ------
    TypeError
        If a field is an array that does not lie on a GPU, or is none of numbers.
    ValueError
        If they lie on different GPUs.
    """
    found = [
        driver.as_array(value, name) if is_device(value) else None
        for value, name in zip(values, names, strict=True)
    ]
    first = next(k for k, array in enumerate(found) if array is not None)
    device = driver.device_of(found[first])
    fields: list[DeviceArray] = []
    for value, array, name in zip(values, found, names, strict=True):
        if array is None:
            array = _number(value, name, names[first], device)
        accepted.check_dtype(array.dtype, name)
        if not array.dtype.isnative:
            raise TypeError(
                f"'{name}' lies on a GPU with the bytes of its numbers turned round; give "
                f"{name}.astype({name}.dtype.newbyteorder('='))."
            )
        if driver.device_of(array) != device:
            raise ValueError(
                f"'{names[first]}' lies on GPU {device} and '{name}' on GPU "
                f"{driver.device_of(array)}; take one to the other, as "
                f"'with cupy.cuda.Device({device}): {name} = cupy.asarray({name})' does."
            )
        fields.append(array)
    return fields


def _number(value: Any, name: str, other: str, device: int) -> DeviceArray:
    if isinstance(value, np.ndarray) or not isinstance(value, np.generic | int | float | complex):
        # Says what is wrong with anything that is no array of numbers.
        accepted.as_field(value, name)
        raise TypeError(
            f"'{other}' lies on a GPU and '{name}' in the memory of the CPU, and a stencil takes "
            f"neither to the other: give cupy.asarray({name}), or cupy.asnumpy({other})."
        )
    number = accepted.as_field(value, name)
    with driver.on(device):
        return driver.uploaded(number)


def checked_out(
    out: object,
    shapes: Sequence[Shape],
    dtypes: Sequence[np.dtype[Any]],
    order: tuple[int, ...] | None,
    device: int,
) -> list[DeviceArray]:
    """Check that `out` holds an array on this GPU for each result; core axes come last."""
    found: list[DeviceArray] = []
    for one, shape, dtype in zip(on_numpy.each_out(out, len(shapes)), shapes, dtypes, strict=True):
        if not is_device(one):
            raise TypeError(
                f"out must be an array on a GPU, as the fields are, not {type(one).__name__} in "
                "the memory of the CPU."
            )
        array = driver.as_array(one, "out")
        on_numpy.check_target(array, dtype, on_numpy.in_place(shape, order))
        if driver.device_of(array) != device:
            raise ValueError(
                f"out lies on GPU {driver.device_of(array)}, and the fields on GPU {device}; give "
                "an array of the same GPU."
            )
        if _is_read_only(one):
            raise ValueError("out is read-only.")
        lies = strided(array)
        if lies is None or lies.overlaps_itself:
            raise on_numpy.shares_elements(array)
        if any(overlap(array, other) for other in found):
            raise ValueError("two of the arrays in out share memory; give each its own.")
        found.append(array)
    return found


def _is_read_only(array: Any) -> bool:
    shown = None if type(array) is driver.cupy().ndarray else _shown(array)
    return shown is not None and bool(shown["data"][1])


def _shown(array: Any) -> Any:
    return getattr(array, "__cuda_array_interface__", None)


def overlap(one: DeviceArray, other: DeviceArray) -> bool:
    """Whether two arrays may share memory, judged by their bounds."""
    (a, b), (c, d) = _bounds(one), _bounds(other)
    first: int = one.data.ptr
    second: int = other.data.ptr
    return first + a < second + d and second + c < first + b


def are_apart(outs: Sequence[DeviceArray], fields: Sequence[DeviceArray]) -> bool:
    """Whether outputs can be written as they are, none of them sharing memory with another."""
    return not any(
        overlap(out, other) for k, out in enumerate(outs) for other in (*fields, *outs[:k])
    )


def empties(shape: Shape, dtypes: Sequence[np.dtype[Any]]) -> list[DeviceArray]:
    """Give arrays of one shape on the current GPU, of any numbers."""
    return [driver.empty(shape, dtype) for dtype in dtypes]


def change(after: DeviceArray, before: DeviceArray) -> float:
    """Find the greatest change of an element; NaN where one is no number.  Waits for the GPU."""
    if not after.size:
        return 0.0
    kind = after.dtype.kind
    if kind == "b":
        return float((after != before).any())
    if kind in "iu":
        # The difference of two integers may need a bit more than they have: it wraps, and is
        # right as an unsigned number.
        wide = np.maximum(after, before) - np.minimum(after, before)
        return float(wide.view(f"u{after.dtype.itemsize}").max())
    far = abs(after - before)
    # Equal infinities have not changed.
    far[after == before] = 0
    return float(far.max())


def current() -> Callable[[], int]:
    """Give what tells the number of the current GPU: CuPy's own, which takes no time."""
    return driver.current_of()


def _bounds(array: DeviceArray) -> tuple[int, int]:
    """From where to where its elements lie, in bytes from the first of them."""
    reached = [s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)]
    if not array.size:
        return 0, 0
    size: int = array.dtype.itemsize
    return sum(r for r in reached if r < 0), size + sum(r for r in reached if r > 0)


@contextmanager
def beside(fields: Sequence[Any]) -> Iterator[int]:
    """Make the GPU on which arrays lie the current one for a while; gives its number."""
    device = driver.device_of(next(filter(is_cupy, fields)))
    with driver.on(device):
        yield device


# Calls.


def apply(
    program: Bound,
    fields: Sequence[DeviceArray],
    *,
    border: Border,
    cval: Any = 0,
    axes: Sequence[int] | None = None,
    out: object = None,
    threads: int | None = None,
) -> DeviceArray | tuple[DeviceArray, ...]:
    """Run `program` at every point of `fields`, which lie on one GPU.

    Parameters
    ----------
    program : Bound
        What to compute, for the dtypes of these fields.
    fields : sequence of array
        Of CuPy; broadcast against each other, never modified.
    border : Border
        What a neighbour outside is.
    cval : number
        Value of outputs under "fill" and of neighbours under "constant".
    axes : sequence of int, optional
        The core axes of the broadcast fields; the last ones if left out.
    out : array or tuple of arrays, optional
        Where to write; may overlap the fields.
    threads : int, optional
        Means nothing on a GPU.

    Returns
    -------
    array or tuple of arrays
        One of CuPy for each output, bare if there is one; they are there once all is done that
        was begun on the current stream.

    Raises
    ------
    StencilError
        If the kernel takes the general path, which leads to the CPU only.
    ValueError, TypeError
        As for arrays of NumPy.
    MemoryError
        If the GPU has no room for the results.
    """
    device = driver.device_of(fields[0])
    with driver.on(device):
        targets: Any = None
        if out is not None:
            shapes, order = _result_shapes(program, fields, border, axes)
            targets = checked_out(out, shapes, program.out_dtypes, order, device)
        given = None if targets is None else tuple(targets)
        run = _run(program, fields, Options(border, cval, threads), given, axes)
        known = program.within(on_numpy.core_shape(fields, program.ndim, axes))
        numbers = (*known.coefficients, *known.scalars)
        made = run(fields, numbers, given)
        if made is None:
            # What is to be written overlaps what is read, or is of another type.
            made = _run(program, fields, Options(border, cval, threads), None, axes)(
                fields, numbers, None
            )
            for target, one in zip(targets, listed(made), strict=True):
                target[...] = one
    if out is None:
        return made
    kept = on_numpy.each_out(out, len(targets))
    return kept[0] if len(kept) == 1 else tuple(kept)


def _result_shapes(
    program: Bound, fields: Sequence[DeviceArray], border: Border, axes: Any
) -> tuple[list[Shape], tuple[int, ...] | None]:
    """Give the shapes of the results, core axes last, and where these are, if that is said."""
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    order = None if axes is None else on_numpy.core_axes(axes, len(shape), program.ndim)
    core = tuple(shape[axis] for axis in order or range(len(shape) - program.ndim, len(shape)))
    rest = set(range(len(shape))) - set(order or range(len(shape) - program.ndim, len(shape)))
    lead = tuple(shape[axis] for axis in sorted(rest))
    plan = layout(core, program.reaches, border)
    return [(*lead, *one) for one in plan.out_shapes], order


# Settled calls, by what they depend on.
_runs: Remembered[_Key, tuple[Compiled, Run]] = Remembered(256)


def _run(
    program: Bound, fields: Sequence[DeviceArray], options: Options, out: Any, axes: Any
) -> Run:
    """Find how arrays such as these are done; settled once."""
    compiled = program.compiled
    key = (
        id(compiled),
        options.border,
        options.cval if type(options.cval) is int else number_key(options.cval),
        None if axes is None else tuple(axes),
        tuple([array_key(field) for field in fields]),
        None if out is None else tuple([array_key(one) for one in out]),
    )
    found = _runs.get(key)
    if found is None:
        found = compiled, prepare(program, fields, options, out, axes)
        _runs[key] = found
    return found[1]


def array_key(array: DeviceArray) -> _Key:
    """Give what a call depends on of an array of CuPy, save for its elements and its place."""
    return array.shape, array.strides, array.dtype, array.data.device_id


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
    shared: int
    arrays: _Arrays
    geometry: Any


def prepare(
    program: Bound, fields: Sequence[DeviceArray], options: Options, out: Any, axes: Any = None
) -> Settled:
    """Settle calls on fields and an `out` that lie just like these, on the current GPU.

    Raises
    ------
    StencilError
        If the kernel takes the general path.
    ValueError
        If the border's constant does not fit, or there are too few axes.
    """
    understood(program.compiled)
    return Settled(_work(program, options), fields, out, axes)


def understood(compiled: Compiled) -> None:
    """Raise where a kernel takes the general path, which leads to the CPU only."""
    if not compiled.forms:
        assert compiled.unread is not None
        raise errors.gpu_general(compiled.unread, compiled.name, compiled.reason)


@dataclass(frozen=True, slots=True)
class Work:
    """What a text does: with which arrays and numbers it is called, and what it gives.

    `coefficients` are the types of small arrays, and `scalars` make of numbers what a function is
    given.  It looks `reach` elements away at most.  For the lengths along the core axes `source`
    gives the text with its constants, and `extents` the points that each output has.
    """

    name: str
    fastmath: bool
    ndim: int
    reach: int
    points: bool
    field_dtypes: tuple[np.dtype[Any], ...]
    out_dtypes: tuple[np.dtype[Any], ...]
    coefficients: tuple[np.dtype[Any], ...]
    scalars: tuple[Callable[[Any], Any], ...]
    source: Callable[[], tuple[Source, tuple[Any, ...]]]
    extents: Callable[[Shape], Sequence[Region]]


def one_pass(
    name: str,
    source: Source,
    fields: Sequence[np.dtype[Any]],
    outs: Sequence[np.dtype[Any]],
    coefficients: Sequence[np.ndarray[Any, Any]],
    scalar_types: Sequence[Any],
    borders: Sequence[tuple[Border, Any]],
    fastmath: bool,
) -> Work:
    """Say what calls do that are done at once, on fields of one shape."""
    constants = tuple(
        storage.type(fitting_cval(borders[number][1], storage, "the result"))
        for number, storage, _ in source.constants
    )
    return Work(
        name,
        fastmath,
        len(source.launches[0].tile),
        0,  # What rolls in registers looks no farther than a few warps.
        False,
        tuple(fields),
        tuple(outs),
        tuple(array.dtype for array in coefficients),
        tuple(map(_converter, scalar_types)),
        lambda: (source, constants),
        lambda core: [Region((0,) * len(core), core)] * len(outs),
    )


def _work(program: Bound, options: Options) -> Work:
    """Say what a call does."""
    compiled, border, cval = program.compiled, options.border, options.cval

    def source() -> tuple[Source, tuple[Any, ...]]:
        found = source_of(compiled, border)
        return found, tuple(
            dtype.type(fitting_cval(cval, dtype, "the result")) for _, dtype, _ in found.constants
        )

    def extents(core: Shape) -> list[Region]:
        plan = layout(core, program.reaches, border)
        on_numpy.check_values(plan, cval, program.field_dtypes, program.out_dtypes)
        return [output.extent for output in plan.outputs]

    return Work(
        compiled.name,
        compiled.fastmath,
        program.ndim,
        max(abs(end) for box in program.reaches for end in (*box.lo, *box.hi)),
        looks_at_points(program),
        program.field_dtypes,
        program.out_dtypes,
        tuple(dtype for dtype, _ in compiled.coefficient_types),
        tuple(map(_converter, compiled.scalar_types)),
        source,
        extents,
    )


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
        self._bounds = [_bounds(field) for field in fields]
        self._out_bounds = _bounds(out[0]) if out else (0, 0)
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
        grid, block, shared, geometry = start.grid, start.block, start.shared, start.geometry
        offsets = [offset for _, offset in start.arrays]
        moved, numbered = any(offsets), bool(self._scalars or self._coefficients)
        empty, fits, bounds = driver.empty, self._fits, self._bounds
        first, last = self._out_bounds

        def meets(pointer: int, bounds: tuple[int, int], out: int) -> bool:
            return pointer + bounds[0] < out + last and out + first < pointer + bounds[1]

        def run(fields: Sequence[DeviceArray], numbers: Sequence[Any], out: Any) -> Any:
            given = [field.data.ptr for field in fields]
            if out is None:
                result = empty(shape, dtype)
                given.append(result.data.ptr)
            else:
                (result,) = listed(out)
                given.append(result.data.ptr)
                if not fits or any(map(meets, given[:-1], bounds, repeat(given[-1]))):
                    return None
            if moved:
                given = list(map(operator.add, given, offsets))
            chosen = function
            for k, mask in wide:
                if given[k] & mask:
                    chosen = plain
            if numbered:
                given += self._numbers(numbers)
            chosen(grid, block, (*given, *constants, geometry), shared)
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
            driver.contiguous(field.transpose(order)) if copied else field
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
            function(start.grid, start.block, (*given, *more, start.geometry), start.shared)
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
        launch.shared,
        tuple((k, places[k]) for k in used),
        driver.by_value(np.array(told, np.int64)),
    )


def _is_far(core: Shape, steps: Sequence[int], reach: int) -> bool:
    """Whether distances in a frame, or places looked at along an axis, do not fit in 32 bits."""
    reached = sum(abs(step) * n for step, n in zip(steps, core, strict=True))
    return max(reached, math.prod(core), max(core) + reach) >= FAR_ELEMENTS


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


def _converter(scalar: Any) -> Callable[[Any], Any]:
    """Give what makes of a number an argument of its type."""
    found: Callable[[Any], Any] = scalar.numpy.type
    return found


# Coefficient arrays by their elements, and by the GPU and the stream on which they are there.
_uploaded: Remembered[_Key, DeviceArray] = Remembered(256)


def coefficient(array: np.ndarray[Any, Any]) -> DeviceArray:
    """Give a small array on the current GPU; taken there once."""
    key = array.dtype.str, array.shape, array.tobytes(), driver.current(), driver.stream()
    found = _uploaded.get(key)
    if found is None:
        found = _uploaded[key] = driver.uploaded(array)
    return found


# Texts, by the kernel and the border.
_sources: Remembered[_Key, tuple[Compiled, Source]] = Remembered(256)


def source_of(compiled: Compiled, border: Border) -> Source:
    """Give the text of a kernel for one border, written once."""
    key = id(compiled), border
    found = _sources.get(key)
    if found is None:
        found = _sources[key] = compiled, written(compiled.forms[0], border.rules)
    return found[1]
