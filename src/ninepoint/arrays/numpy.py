"""Apply a compiled stencil to NumPy arrays.

    fields -> broadcast -> core axes last -> stack as one axis -> pieces -> program.run

A `Program` computes points whose neighbours all exist, on arrays with one stack axis. All the
rest is here: the points near the border are run on small padded copies, everything else on
views of the caller's arrays. An array that cannot be read as it is (foreign byte order, odd
strides, another dtype) is copied one block at a time, never as a whole: it may be a memmap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from ninepoint.arrays.borders import Array, Border, fitting_cval
from ninepoint.arrays.ends import columns_of, compute_ends
from ninepoint.arrays.layout import Ends, Layout, Piece, Shape, layout
from ninepoint.arrays.recognise import refuse_foreign
from ninepoint.backends.memory import empty
from ninepoint.backends.threads import HANDOFF, run_parallel, thread_count
from ninepoint.language.box import Box

# Elements of float64 of a block that is copied before it is read: 2 MB, which stays near.
# Sizes from 64k to 512k were within 5 % of each other; of smaller types, a block has as many
# more (1000x1000 uint8, maximum of 31x31: 262 us in one block, 291 us in four; Zen 4).
BLOCK = 262_144

# What takes longer than this [s] is shared among threads so that it can be interrupted.
LASTING = 0.1

# Points below which that is not even tried: looking up the number of cores takes 1.5 us.
SPLIT_POINTS = 16_384

# Parts for each thread: enough that a thread which starts late takes less of the work.
PARTS = 4

ALL = slice(None)


class Program(Protocol):
    """A compiled stencil, its scalars bound, for fields of certain dtypes."""

    @property
    def ndim(self) -> int:
        """How many core axes it has."""

    @property
    def reaches(self) -> tuple[Box, ...]:
        """Where each output looks."""

    @property
    def field_dtypes(self) -> tuple[np.dtype[Any], ...]:
        """What the fields must be, in native byte order."""

    @property
    def out_dtypes(self) -> tuple[np.dtype[Any], ...]:
        """What the outputs are."""

    @property
    def seams(self) -> bool:
        """Whether it ends and raises nothing, whatever the neighbours are."""

    @property
    def warm(self) -> int:
        """Rows that are made before the first row of a result."""

    def within(self, core: Shape) -> Program:
        """Give the same program for a whole array of this shape, where it asks for that."""

    def with_numbers(self, numbers: Sequence[Any]) -> Program:
        """Give the same program with other coefficient arrays and scalars."""

    @property
    def pace(self) -> list[float]:
        """How long a point took when that was last measured [s], or nothing; may be changed."""

    @property
    def handoff(self) -> float:
        """How long it takes to share parts among threads [s]."""

    def run(self, fields: list[Array], outs: list[Array]) -> None:
        """Compute ``outs[b, i] from fields[b, i + o - lo]``, serially, holding no lock."""

    def run_parts(
        self, parts: Sequence[tuple[Sequence[Array], Sequence[Array]]], threads: int
    ) -> None:
        """Run on the fields and outputs of each part, on threads, not to be interrupted."""


def as_field(value: object, name: str = "") -> Array:
    """Give `value` as a plain array that a stencil can read, without copying an array.

    `name` is the parameter's, for messages.

    Raises
    ------
    TypeError
        If it is masked, or its dtype is not a number or bool.
    """
    array: Array
    if type(value) is np.ndarray:
        array = value
    else:
        refuse_mask(value)
        refuse_foreign(value, f"'{name}'" if name else "a field")
        array = np.asarray(value)
        if array.ndim == 0 and array.dtype.kind not in "biufc":
            what = f"'{name}'" if name else "a field"
            words = (
                repr(value) if value is None or isinstance(value, str) else type(value).__name__
            )
            raise TypeError(f"{what} must be an array of numbers, not {words}.")
    check_dtype(array.dtype, name)
    return array


def refuse_mask(value: object) -> None:
    """Raise a TypeError with the cure if `value` is masked."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            "a masked array would lose its mask; fill it first with .filled(value), "
            "or pass .data to ignore the mask."
        )


def check_dtype(dtype: np.dtype[Any], name: str = "") -> None:
    """Raise a TypeError with the cure unless `dtype` is one that stencils compute with."""
    if dtype.kind not in "biufc" or dtype.char in "gG":
        raise TypeError(_refusal(dtype, f"'{name}'" if name else "an array"))


def _refusal(dtype: np.dtype[Any], what: str) -> str:
    match dtype.kind:
        case "O":
            cure = 'convert it first, for example with .astype("float64")'
        case "M" | "m":
            cure = 'use .astype("int64") for the counts of its unit'
        case "V":
            cure = "pass one of its members, array[name]" if dtype.names else "use .view(dtype)"
        case "f" | "c":
            smaller = "float64" if dtype.kind == "f" else "complex128"
            cure = f'use .astype("{smaller}")'
        case _:
            cure = 'convert it to numbers first, for example with .astype("float64")'
    return f"a stencil cannot compute with {what} of dtype {dtype}; {cure}."


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give `dtype` in this machine's byte order."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def apply(
    program: Program,
    fields: Sequence[object],
    *,
    border: Border,
    cval: Any = 0,
    axes: Sequence[int] | None = None,
    out: object = None,
    threads: int | None = None,
    whole_bytes: int | None = None,
) -> Array | tuple[Array, ...]:
    """Run `program` at every point of `fields`.

    Parameters
    ----------
    program : Program
        What to compute, for the dtypes of these fields.
    fields : sequence of array_like
        Broadcast against each other as NumPy does; never modified.
    border : Border
        What a neighbour outside is.
    cval : number
        Value of outputs under "fill" and of neighbours under "constant".
    axes : sequence of int, optional
        The core axes of the broadcast fields; the last ones if left out.
    out : array or tuple of arrays, optional
        Where to write; may overlap the fields.
    threads : int, optional
        At most this many threads.
    whole_bytes : int, optional
        Up to which size an array is copied as a whole to pad it; by default as was measured.

    Returns
    -------
    array or tuple of arrays
        One array for each output, bare if there is one.

    Raises
    ------
    ValueError
        If shapes do not broadcast, `axes` or `out` do not fit, or `cval` does not fit a dtype.
    TypeError
        If a field or `out` is no array of numbers.
    """
    arrays = _broadcast([as_field(value) for value in fields], program.ndim)
    order = None
    if axes is not None:
        order = core_axes(axes, arrays[0].ndim, program.ndim)
        arrays = [np.moveaxis(array, order, range(-program.ndim, 0)) for array in arrays]
    lead, core = arrays[0].shape[: -program.ndim], arrays[0].shape[-program.ndim :]
    program = program.within(core)
    itemsize = sum(dtype.itemsize for dtype in program.field_dtypes)
    plan = layout(core, program.reaches, border, itemsize, program.seams, whole_bytes)
    values = check_values(plan, cval, program.field_dtypes, program.out_dtypes)
    shapes = [(*lead, *shape) for shape in plan.out_shapes]
    if threads is not None or plan.points * math.prod(lead) >= SPLIT_POINTS:
        threads = thread_count(threads)
    count = threads or 1
    if out is not None:
        given = checked_out(out, shapes, program.out_dtypes, order)
        inner = given
        if order is not None:
            inner = [np.moveaxis(array, order, range(-program.ndim, 0)) for array in given]
        # An exact answer about overlap can take for ever; bounds are enough to decide on a copy.
        shared = any(np.may_share_memory(o, array) for o in inner for array in arrays)
        results = [empty(o.shape, native(o.dtype)) for o in inner] if shared else inner
        over_stack(program, plan, values, arrays, results, count)
        if shared:
            for o, result in zip(inner, results, strict=True):
                write(o, result)
        return given[0] if len(given) == 1 else tuple(given)
    results = [empty(s, dtype) for s, dtype in zip(shapes, program.out_dtypes, strict=True)]
    over_stack(program, plan, values, arrays, results, count)
    if order is not None:
        results = [np.moveaxis(array, range(-program.ndim, 0), order) for array in results]
    return results[0] if len(results) == 1 else tuple(results)


def core_shape(fields: Sequence[Array], ndim: int, axes: Any) -> Shape:
    """Give the lengths of the fields along the axes that a program of `ndim` axes works on."""
    shape = broadcast_shape([field.shape for field in fields])
    if axes is None:
        return shape[len(shape) - ndim :]
    return tuple(shape[axis] for axis in core_axes(axes, len(shape), ndim))


def core_axes(axes: Any, ndim: int, core: int) -> tuple[int, ...]:
    """Check an `axes=` option and count its axes from the front."""
    if isinstance(axes, int | np.integer) and not isinstance(axes, bool):
        axes = (axes,)
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        raise TypeError(f"axes must be a tuple of {core} integers, not {axes!r}.")
    if len(axes) != core:
        raise ValueError(f"axes={tuple(axes)} names {len(axes)} axes; the stencil has {core}.")
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
            raise TypeError(f"axes must be integers, not {axis!r}.")
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} does not exist in an array of {ndim} dimensions.")
    order = tuple(int(axis) % ndim for axis in axes)
    if len(set(order)) != core:
        raise ValueError(f"axes={tuple(axes)} names one axis twice.")
    return order


def _broadcast(arrays: list[Array], ndim: int) -> list[Array]:
    shape = arrays[0].shape
    for array in arrays:
        if array.shape != shape:
            shape = broadcast_shape([other.shape for other in arrays])
            arrays = [
                other if other.shape == shape else np.broadcast_to(other, shape)
                for other in arrays
            ]
            break
    if len(shape) < ndim:
        raise too_few_axes(ndim, shape)
    return arrays


def too_few_axes(ndim: int, shape: Shape) -> ValueError:
    """The error for arrays of fewer axes than the stencil has."""
    return ValueError(
        f"a stencil of {ndim} {'axis' if ndim == 1 else 'axes'} needs an array of at least "
        f"{ndim} {'dimension' if ndim == 1 else 'dimensions'}, not of shape {shape}."
    )


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """Give the common shape, as NumPy's broadcasting makes it."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError as error:
        named = " and ".join(map(str, shapes))
        raise ValueError(
            f"the fields' shapes {named} do not broadcast; "
            "each pair of lengths, counted from the last axis, must be equal or contain a 1."
        ) from error


def checked_out(
    out: object,
    shapes: Sequence[Shape],
    dtypes: Sequence[np.dtype[Any]],
    order: tuple[int, ...] | None,
) -> list[Array]:
    """Check that `out` holds an array for each result; core axes come last in `shapes`."""
    given: list[Any] = list(out) if isinstance(out, tuple | list) else [out]
    if len(given) != len(shapes):
        raise ValueError(
            f"out has {len(given)} arrays, but the stencil has {len(shapes)} outputs."
        )
    for array, shape, dtype in zip(given, shapes, dtypes, strict=True):
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"out must be a NumPy array, not {type(array).__name__}.")
        wanted = shape
        if order is not None:
            rest = iter(shape[: -len(order)])
            places = [axis % len(shape) for axis in order]
            ends = dict(zip(places, shape[-len(order) :], strict=True))
            wanted = tuple(ends[k] if k in ends else next(rest) for k in range(len(shape)))
        if array.shape != wanted:
            raise ValueError(f"out has shape {array.shape}, but the result has {wanted}.")
        if not storable(dtype, array.dtype):
            raise _unstorable(dtype, native(array.dtype))
        if not array.flags.writeable:
            raise ValueError("out is read-only.")
        if _overlaps_itself(array):
            raise ValueError(
                f"elements of out share memory: it has shape {array.shape} and strides "
                f"{array.strides}; give an array whose elements are all its own."
            )
    for k, one in enumerate(given):
        if any(np.may_share_memory(one, other) for other in given[:k]):
            raise ValueError("two of the arrays in out share memory; give each its own.")
    return given


def _unstorable(result: np.dtype[Any], out: np.dtype[Any]) -> TypeError:
    """The error for an `out` that cannot take the result as it is."""
    cure = f"give an array of {result}"
    if out.kind in "iu" and result.kind != "c":
        cure += f', or ask for {out} with dtype="{out}" and overflow='
    return TypeError(f"out has dtype {out}, but the result has {result}; {cure}.")


def storable(values: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether values of one dtype are stored as another without being asked for it.

    A float is rounded to a shorter float; an integer is never wrapped, nor a float cut to one.
    """
    if target.kind not in "biufc":
        return False
    return np.can_cast(values, target, "same_kind" if target.kind in "fc" else "safe")


def write(target: Array, values: Array) -> None:
    """Write values to an array that may be of another dtype; like a kernel, without warnings."""
    if target.dtype == values.dtype:
        target[...] = values
        return
    with np.errstate(over="ignore", invalid="ignore"):
        target[...] = values


def _overlaps_itself(array: Array) -> bool:
    """Whether two elements may be one: an axis does not step over all that shorter steps reach."""
    if not array.size or array.flags.c_contiguous:
        return False
    reached = array.itemsize
    for step, length in sorted(
        (abs(step), n) for step, n in zip(array.strides, array.shape, strict=True) if n > 1
    ):
        if step < reached:
            return True
        reached += step * (length - 1)
    return False


class Values:
    """`cval` as every field and every output holds it."""

    __slots__ = ("fields", "outs")

    def __init__(self, fields: list[Any], outs: list[Any]) -> None:
        self.fields = fields
        self.outs = outs


def check_values(
    plan: Layout, cval: Any, fields: Sequence[np.dtype[Any]], outs: Sequence[np.dtype[Any]]
) -> Values:
    """Check that `cval` fits, and what "keep" keeps, before anything runs."""
    values = Values([cval] * len(fields), [cval] * len(outs))
    if plan.has_keep:
        for k, dtype in enumerate(outs):
            if k >= len(fields):
                raise ValueError(
                    f'boundary "keep" needs a field for each output, but output {k + 1} has '
                    "none; choose another boundary."
                )
            if not storable(fields[k], dtype):
                raise ValueError(
                    f'boundary "keep" cannot hold {fields[k]} values in a {dtype} result; '
                    "choose another boundary or dtype."
                )
    if type(cval) is int and cval == 0:
        return values
    if plan.has_constant:
        values.fields = [
            fitting_cval(cval, dtype, f"field {k + 1}") for k, dtype in enumerate(fields)
        ]
    if plan.has_fill:
        values.outs = [fitting_cval(cval, dtype, "the result") for dtype in outs]
    return values


def over_stack(
    program: Program,
    plan: Layout,
    values: Values,
    fields: list[Array],
    outs: list[Array],
    threads: int,
) -> None:
    """Make the stack one axis, without a copy where strides allow it, and run."""
    core = len(plan.shape)
    lead = fields[0].shape[:-core]
    if not lead:
        flat = [field[None] for field in fields], [out[None] for out in outs]
        return _over_pieces(program, plan, values, *flat, threads)
    if len(lead) == 1:
        return _over_pieces(program, plan, values, fields, outs, threads)
    if 0 in lead:
        return None
    if all(_mergeable(array, len(lead)) for array in (*fields, *outs)):
        flat = [_merged(field, core) for field in fields], [_merged(out, core) for out in outs]
        return _over_pieces(program, plan, values, *flat, threads)
    inner = math.prod(lead[1:]) * max(1, math.prod(plan.shape))
    if inner > BLOCK:
        for k in range(lead[0]):
            parts = [field[k] for field in fields], [out[k] for out in outs]
            over_stack(program, plan, values, *parts, threads)
        return None
    # Tiny images in a stack of odd strides: many of them at a time, through a copy.
    for k in range(0, lead[0], BLOCK // inner):
        cut = slice(k, k + BLOCK // inner)
        blocks = [_merged(field[cut], core) for field in fields]
        fresh = [empty((blocks[0].shape[0], *out.shape[-core:]), out.dtype) for out in outs]
        _over_pieces(program, plan, values, blocks, fresh, 1)
        for out, computed in zip(outs, fresh, strict=True):
            out[cut] = computed.reshape(out[cut].shape)
    return None


def _mergeable(array: Array, lead: int) -> bool:
    """Whether the first `lead` axes lie in memory as one axis would."""
    axes = [k for k in range(lead) if array.shape[k] != 1]
    return all(array.strides[a] == array.strides[b] * array.shape[b] for a, b in pairwise(axes))


def _merged(array: Array, core: int) -> Array:
    # Not -1: with a core axis of length 0 there would be no telling.
    lead = math.prod(array.shape[:-core])
    return array.reshape(lead, *array.shape[-core:])


def _over_pieces(
    program: Program,
    plan: Layout,
    values: Values,
    fields: list[Array],
    outs: list[Array],
    threads: int,
) -> None:
    """Compute every piece, then write the zones. Arrays have one stack axis."""
    stack = fields[0].shape[0]
    if stack == 0:
        return
    copied = [not is_readable(*pair) for pair in zip(fields, program.field_dtypes, strict=True)]
    staged = [not is_readable(*pair) for pair in zip(outs, program.out_dtypes, strict=True)]
    job = _Job(program, values, fields, outs, copied, staged)
    points = stack * plan.points
    if points <= BLOCK and (threads == 1 or points < SPLIT_POINTS):
        for piece in plan.pieces:
            job.run(piece, ALL)
    else:
        direct = not any(copied) and not any(staged)
        block = BLOCK * 8 // sum(dtype.itemsize for dtype in program.field_dtypes)
        for piece in plan.pieces:
            here = stack * piece.points
            limit = None if direct and piece.gather is None and piece.ends is None else block
            if here < SPLIT_POINTS or (threads == 1 and (limit is None or here <= limit)):
                job.run(piece, ALL)
                continue
            expected = program.pace[0] * here if limit is None and program.pace else None
            if expected is not None and expected <= 2 * program.handoff:
                _timed(job, piece, ALL, here)
                continue
            parts = plan.cut(piece, stack, threads * PARTS if threads > 1 else 1, limit)
            if threads > 1 and expected is not None and expected <= LASTING:
                job.run_parts(parts, here, threads)
                continue
            rest = plan.rest(piece, stack, parts) if limit is None else None
            _over_parts(job, iter(parts), rest, here, threads)
    for k, output in enumerate(plan.outputs):
        dtype = program.out_dtypes[k]
        for target, kept in output.zones:
            place = outs[k][target]
            if kept is not None:
                write(place, fields[k][kept].astype(dtype, copy=False))
            elif place.dtype == dtype:
                place.fill(values.outs[k])
            else:
                write(place, np.array(values.outs[k], dtype))


def _over_parts(
    job: _Job,
    parts: Iterator[tuple[Piece, slice]],
    rest: tuple[Piece, slice] | None,
    points: int,
    threads: int,
) -> None:
    """Run the parts on threads, unless the first shows that they end sooner on this one.

    `rest` is all parts but the first in one, if they may be run so.
    """
    if threads > 1:
        part, cut = next(parts)
        done = points if cut.stop is None else part.points * (cut.stop - cut.start)
        _timed(job, part, cut, done)
        if job.program.pace[0] * (points - done) > HANDOFF:
            run_parallel((partial(job.run, part, cut) for part, cut in parts), threads)
            return
        if rest is not None:
            job.run(*rest)
            return
    for part, cut in parts:
        job.run(part, cut)


def _timed(job: _Job, part: Piece, cut: slice, points: int) -> None:
    """Run a part, and remember its pace."""
    began = perf_counter()
    job.run(part, cut)
    took = perf_counter() - began
    region = part.region
    rows = region.stop[0] - region.start[0]
    # The rows of stages that are made before the first weigh more in a thin part.
    more = job.program.warm / rows if len(region.start) == 2 and rows else 0.0
    job.program.pace[:] = [took / max(1.0, points * (1.0 + more))]


def is_readable(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether a program can work on `array` itself."""
    return array.dtype == dtype and array.strides[-1] == dtype.itemsize and array.flags.aligned


class _Job:
    """One call's arrays; runs single pieces of it, in any thread."""

    __slots__ = ("copied", "fields", "outs", "program", "staged", "values")

    def __init__(
        self,
        program: Program,
        values: Values,
        fields: list[Array],
        outs: list[Array],
        copied: list[bool],
        staged: list[bool],
    ) -> None:
        self.program = program
        self.values = values
        self.fields = fields
        self.outs = outs
        self.copied = copied
        self.staged = staged

    def run(self, piece: Piece, cut: slice) -> None:
        """Compute a piece of some images of the stack."""
        if piece.ends is not None:
            self._run_ends(piece, piece.ends, cut)
            return
        dtypes = self.program.field_dtypes
        blocks: list[Array] = []
        for k, field in enumerate(self.fields):
            part = field if cut is ALL else field[cut]
            if piece.gather is not None:
                blocks.append(piece.gather(part, self.values.fields[k], dtypes[k]))
            elif self.copied[k]:
                blocks.append(np.array(part[piece.source], dtypes[k], order="C"))
            else:
                blocks.append(part[piece.source])
        results: list[Array] = []
        pending: list[tuple[Array, Array]] = []
        for k, out in enumerate(self.outs):
            target = piece.targets[k]
            place = (out if cut is ALL else out[cut])[target.place]
            if target.scratch is None and not self.staged[k]:
                results.append(place)
                continue
            shape = (blocks[0].shape[0], *(target.scratch or place.shape[1:]))
            fresh: Array = empty(shape, self.program.out_dtypes[k])
            results.append(fresh)
            pending.append((place, fresh[target.part]))
        self.program.run(blocks, results)
        for place, computed in pending:
            write(place, computed)

    def run_parts(self, parts: Iterable[tuple[Piece, slice]], points: int, threads: int) -> None:
        """Compute parts of a piece from the fields into the outputs, as they are."""
        began = perf_counter()
        self.program.run_parts(
            [
                (
                    [field[cut][part.source] for field in self.fields],
                    [
                        out[cut][target.place]
                        for out, target in zip(self.outs, part.targets, strict=True)
                    ],
                )
                for part, cut in parts
            ],
            threads,
        )
        # As if the threads had never waited for each other: it is then tried again.
        self.program.pace[:] = [(perf_counter() - began) * threads / points]

    def _run_ends(self, piece: Piece, ends: Ends, cut: slice) -> None:
        program, whole = self.program, cut is ALL
        blocks = [
            columns_of((field if whole else field[cut])[piece.source], ends, cval, dtype)
            for field, cval, dtype in zip(
                self.fields, self.values.fields, program.field_dtypes, strict=True
            )
        ]
        results = compute_ends(program.run, blocks, ends.spans, program.out_dtypes, program.warm)
        for k, place, part in ends.moves:
            out = self.outs[k] if whole else self.outs[k][cut]
            write(out[place], results[k][part])
