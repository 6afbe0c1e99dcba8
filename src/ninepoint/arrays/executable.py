"""Executables: what does the calls of one program on arrays like some, bound once, called often.

    program, fields, along, border, out, threads  --bind-->  Executable
    executable(fields, numbers, out)              ->         results

All that does not depend on the data is found out once: how arrays are given to machine code, what
lies outside of them, what is checked.  A call then allocates its results and computes, which costs
1 us beside an array of 100x100 (Zen 4).  Whether `out` overlaps a field is looked at each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ..backends.compiled import Compiled
from ..backends.memory import LEAST, empty
from ..backends.threads import run_lists, run_parallel, thread_count
from ..base import limits
from ..language.dtypes import short
from .accepted import check_writable, listed, write
from .arranging import Arrangement, are_writable, core_last, may_overlap, rows_of
from .borders import Array, Border
from .commands import Commands, Part
from .layout import Extensions, Layout, Shape, cut, layout
from .numpy import Behind, check_values, checked_out, too_few_axes, whole_shape
from .strided import are_same, is_movable, is_readable, mergeable, stacked

# What takes longer than this [s] is shared among threads so that it can be interrupted.
LASTING = 0.1

# Fewer points are done by one thread, whatever they cost: to look up how many cores there are
# takes 1.5 us, of the 5 us of a small call (Zen 4).
SPLIT_POINTS = 16_384

# What Python goes through is shared if it takes longer [s]: each part costs half a millisecond.
BY_PYTHON = 20e-3

# Parts for each thread: enough that a thread which starts late takes less of the work.
PARTS = 4

# A part has at least as many points, as long as there is one for each thread: some begin with rows
# that others make as well.
PART_POINTS = 1 << 16

# What does calls: fields, numbers, out -> result.  The numbers are coefficient arrays and scalars.
Run: TypeAlias = Callable[[Sequence[Array], Sequence[Any], Any], Any]


class Executable:
    """The calls of a program on arrays of one kind: shapes, strides, types, border, threads.

    Called with fields and `out` like those that it was bound to, and with numbers: coefficient
    arrays, then scalars.

    Raises
    ------
    ValueError
        If shapes do not broadcast, `out` does not fit, or `cval` does not fit a dtype.
    TypeError
        If `out` is no array of NumPy, or cannot hold the results.
    """

    __slots__ = (
        "_apart", "_arrangement", "_bound", "_direct", "_entry", "_images", "_make", "_plan",
        "_points", "_program", "_shared", "_shares", "_specs", "_stack", "_threads", "_way",
    )  # fmt: skip

    def __init__(
        self,
        program: Compiled,
        fields: Sequence[Array],
        along: Behind,
        border: Border,
        cval: Any = 0,
        out: Any = None,
        threads: int | None = None,
        ghosts: tuple[Extensions, ...] = (),
    ) -> None:
        # What it was bound to, and what does the same without `out`, once that is asked for.
        self._bound = program, along, border, cval, ghosts
        self._apart: Executable | None = None
        shape, ndim = whole_shape(fields), program.ndim
        if len(shape) < ndim:
            raise too_few_axes(ndim, shape)
        order = core_last(len(shape), along)
        core = tuple(shape[axis] for axis in along)
        plan = _layout(program, core, border)
        constants = _constants(program, plan, cval)
        if out is not None:
            lead = tuple(shape[axis] for axis in order[:-ndim])
            shapes = [(*lead, *one) for one in plan.out_shapes]
            checked_out(out, shapes, program.out_dtypes, along)
        found = Arrangement(program, fields, order, out, lanes=not ghosts)
        self._arrangement = None if found.plain else found
        program, border = found.program, found.how.border(border)
        fields, out = found.fields(fields), found.out(out)
        shape, ndim = fields[0].shape, program.ndim
        lead, core = shape[: len(shape) - ndim], shape[len(shape) - ndim :]
        plan = _layout(program, core, border)
        self._program, self._plan, self._threads = program, plan, threads
        self._stack = math.prod(lead)
        self._points = self._stack * plan.points
        shapes = [(*lead, *one) for one in plan.out_shapes]
        self._specs = list(zip(shapes, program.out_dtypes, strict=True))
        most = max(math.prod(shape) * dtype.itemsize for shape, dtype in self._specs)
        self._make = np.empty if most < LEAST else empty
        self._shared = self._points >= SPLIT_POINTS and threads != 1
        outs = listed(out) or [np.empty(shape, dtype) for shape, dtype in self._specs]
        # Where images are that do not lie in memory as one axis would.
        self._images: list[Any] = []
        if self._stack and not all(mergeable(one, len(lead)) for one in (*fields, *outs)):
            self._images, self._stack = _images_of(lead), max(lead)
            fields, outs = ([one[self._images[0]] for one in some] for some in (fields, outs))
        arrays = self._stacked(fields), self._stacked(outs)
        self._way = _way_of(program, plan, constants, ghosts, *arrays)
        # Lists of commands, by how many threads share them.
        self._shares: dict[int, list[Array]] = {}
        self._entry = program.loaded.entry
        # The list of a call that takes all arrays as they are, and does all, on this thread.
        self._direct = self._lists(1)[0] if self._is_one and len(lead) < 2 else None

    def __call__(self, fields: Sequence[Array], numbers: Sequence[Any], out: Any = None) -> Any:
        """What a call gives: one array for each output, bare if there is one."""
        targets: Sequence[Array] = () if out is None else listed(out)
        if targets and not are_writable(targets, fields):
            return self._over(fields, numbers, targets)
        arranged = self._arrangement
        if arranged is not None:
            fields, out = arranged.fields(fields), arranged.out(out)
        if out is None:
            results = [self._make(shape, dtype) for shape, dtype in self._specs]
        else:
            results = listed(out)
        if self._shared or self._direct is None:
            self._compute(fields, results, numbers)
        else:
            self._entry(*fields, *results, *numbers, self._direct)
        if arranged is not None:
            results = list(arranged.given(results, targets))
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def _is_one(self) -> bool:
        """Whether machine code takes one list of commands for all images."""
        way = self._way
        return (
            way is not None
            and way.by_machine
            and not self._images
            and 0 < self._stack <= way.images
        )

    def _stacked(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The arrays with one axis for the stack."""
        return [stacked(one, self._program.ndim) for one in arrays]

    def _lists(self, threads: int) -> list[Array]:
        """The lists of commands of the parts that so many threads share."""
        found = self._shares.get(threads)
        if found is None:
            assert self._way is not None
            parts = _divided(self._plan, self._stack, threads)
            found = self._shares[threads] = list(map(self._way.of, parts))
        return found

    def _compute(
        self,
        fields: Sequence[Array],
        results: Sequence[Array],
        numbers: Sequence[Any],
        in_place: bool = False,
    ) -> None:
        """Compute on this thread or on several, by how long a point took the last time."""

        def compute(threads: int) -> None:
            if threads == 1 and self._direct is not None and not in_place:
                self._entry(*fields, *results, *numbers, self._direct)
            elif self._stack:
                way = None if in_place else self._way
                self._share(way, fields, results, numbers, threads)

        # To ask how many threads there are takes as long as a small call.
        if not self._shared:
            compute(1)
            return
        program, handoff = self._program, self._program.handoff
        if self._way is not None and not self._way.by_machine:
            handoff = BY_PYTHON
        paced(program.pace, self._points, self._threads, handoff, compute)

    def _share(
        self,
        way: Commands | None,
        fields: Sequence[Array],
        results: Sequence[Array],
        numbers: Sequence[Any],
        threads: int,
    ) -> None:
        """Compute on so many threads.

        What would keep somebody waiting who interrupts it is done part by part.
        """
        pace = self._program.pace
        lasts = not pace or pace[0] * self._points > LASTING
        if threads > 1 and self._is_one and way is self._way and not lasts:
            arguments = *self._stacked(fields), *self._stacked(results), *numbers
            run_lists(self._entry, arguments, self._lists(threads), threads)
            return
        parts = _divided(self._plan, self._stack, 1 if self._images else threads)
        tasks: list[Callable[[], object]] = []
        run = partial(_of_elements, self._program) if way is None else way.run
        for image in self._images or [...]:
            arrays = self._stacked([one[image] for one in (*fields, *results)])
            tasks += [partial(run, arrays, numbers, part) for part in parts]
        run_parallel(tasks, threads)

    def _over(
        self, fields: Sequence[Array], numbers: Sequence[Any], targets: Sequence[Array]
    ) -> Any:
        """The same where results may lie over fields: made in their place, or moved there."""
        check_writable(targets)
        if not self._takes_place(fields, numbers, targets):
            if self._apart is None:
                program, along, border, cval, ghosts = self._bound
                self._apart = Executable(
                    program, fields, along, border, cval, None, self._threads, ghosts
                )
            made = self._apart(fields, numbers)
            for target, one in zip(targets, listed(made), strict=True):
                write(target, one)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _takes_place(
        self, fields: Sequence[Array], numbers: Sequence[Any], targets: Sequence[Array]
    ) -> bool:
        """Compute into the place of fields, if each result depends on its own elements alone."""
        arranged, program, outs = self._arrangement, self._program, targets
        if program.elements is None or self._images:
            return False
        if arranged is not None:
            if not arranged.has_place:
                return False
            fields, outs = arranged.fields(fields), listed(arranged.out(tuple(targets)))
        dtypes = *program.field_dtypes, *program.out_dtypes
        if dtypes != tuple(array.dtype for array in (*fields, *outs)):
            return False
        for field in fields:
            if any(may_overlap(out, field) and not are_same(out, field) for out in outs):
                return False
        self._compute(fields, outs, numbers, in_place=True)
        return True


def _of_elements(
    program: Compiled, arrays: Sequence[Array], numbers: Sequence[Any], part: Part
) -> None:
    """Compute a part of elements that lie anywhere, in the place of fields too."""
    some = [one[part.start : part.stop, part.first : part.last] for one in arrays]
    fields, elements = len(program.field_dtypes), program.elements
    assert elements is not None
    elements.call(*some[:fields], *numbers, out=tuple(some[fields:]))
    elements.check()


def _layout(program: Compiled, core: Shape, border: Border) -> Layout:
    """The layout of a program on arrays of a core shape."""
    return layout(core, program.reaches, border, _itemsize_of(program), every=program.every)


def _images_of(lead: Shape) -> list[Any]:
    """Where the images of a stack are, those along its longest axis together."""
    longest = lead.index(max(lead))
    others = (range(1) if k == longest else range(n) for k, n in enumerate(lead))
    return [(*place[:longest], slice(None), *place[longest + 1 :]) for place in product(*others)]


def _constants(program: Compiled, plan: Layout, cval: Any) -> list[Array]:
    """What stands beside fields and results, checked."""
    # What phases keep, and fill in, is the same for all of them.
    phases, fields, outs = program.phases, program.field_dtypes, program.out_dtypes
    outs = outs[: len(outs) // phases]
    found = check_values(plan, cval, fields, outs, len(program.positions))
    return found[: len(fields)] + found[len(fields) :] * phases


def _way_of(
    program: Compiled,
    plan: Layout,
    constants: Sequence[Array],
    ghosts: tuple[Extensions, ...],
    fields: Sequence[Array],
    outs: Sequence[Array],
) -> Commands | None:
    """How a program is done on arrays like these; None for elements that lie anywhere."""
    arrays, rows = (*fields, *outs), rows_of(program)
    dtypes = *program.field_dtypes, *program.out_dtypes
    moved = tuple(
        k
        for k, (array, dtype) in enumerate(zip(arrays, dtypes, strict=True))
        # Of some one element a row is read, wherever the others lie.
        if not is_readable(array, dtype) and not (k in rows and array.dtype == dtype)
    )
    by_machine = (
        program.loaded.lists
        and all(is_movable(arrays[k], dtypes[k]) for k in moved)
        and _has_movable_zones(program, plan)
        and not (ghosts and any(map(short, program.field_dtypes)))
    )
    # Of elements that lie anywhere no copy is made where none is needed.
    exact = dtypes == tuple(array.dtype for array in arrays)
    if program.elements is not None and exact and (moved or not by_machine):
        return None
    images = 1 << 62
    if moved or not plan.inside:
        # Blocks of as many stay in cache.
        limit = limits.current.block_elements * 8 // max(1, _itemsize_of(program))
        images = max(1, limit // max(1, plan.points))
    strides = tuple(array.strides for array in arrays)
    made = Commands(program, plan, constants, ghosts, strides, moved, images, by_machine)
    if ghosts:
        return made
    # An iteration is bound each time that it is called.
    kept = tuple([one.tobytes() for one in constants])
    key = limits.current, plan, strides, moved, by_machine, kept
    ways = program.ways
    if key not in ways:
        ways[key] = made
    found: Commands = ways[key]
    return found


def _has_movable_zones(program: Compiled, plan: Layout) -> bool:
    """Whether what "keep" keeps needs no conversion."""
    count = len(program.out_dtypes) // program.phases
    pairs = zip(program.field_dtypes, program.out_dtypes[:count], strict=False)
    return not plan.border.uses("keep") or all(field == out for field, out in pairs)


# How many threads there are is said by how long a point took in an earlier call.


def threads_for(pace: Sequence[float], points: int, most: int | None, handoff: float) -> int:
    """How many threads do so many points, of the number that a call allows.

    One alone does what takes less long than to ask others.  How long a point takes was measured in
    an earlier call; what was not is taken to be slow.  (With one and two threads a mean of 3x3
    took 14 and 48 us where the others slept, 37 and 23 to 40, 82 and 42; a median of 3x3 77 and
    43, Zen 5.)
    """
    if pace and pace[0] * points <= handoff:
        return 1
    return thread_count(most)


def note_pace(known: list[float], points: float, took: float, threads: int) -> None:
    """Remember how long one thread takes for a point, of so many that took so long [s].

    What takes longer than before may do so for another reason, and counts four times as much at
    most.  To share costs time as well: what is shared is taken for a little faster each time, so
    that one thread is tried again, in one of fifty calls.
    """
    pace = took * threads / points
    if known:
        pace = min(pace, 4 * known[0]) if threads == 1 else 0.97 * min(pace, known[0])
    known[:] = [pace]


def paced(
    known: list[float],
    points: int,
    most: int | None,
    handoff: float,
    compute: Callable[[int], None],
) -> None:
    """Compute so many points on as many threads as they are worth; remember how long it took."""
    threads = threads_for(known, points, most, handoff)
    began = perf_counter()
    compute(threads)
    note_pace(known, points, perf_counter() - began, threads)


def _divided(plan: Layout, stack: int, threads: int) -> list[Part]:
    """Cut for so many threads, along the stack, else along the first axis."""
    if threads == 1:
        return [Part(0, stack, 0, plan.shape[0])]
    count = max(threads, min(threads * PARTS, stack * plan.points // PART_POINTS))
    if stack >= count:
        return [Part(a, b, 0, plan.shape[0]) for a, b in cut((0, stack), count)]
    bands = plan.bands(-(-count // stack))
    return [Part(k, k + 1, first, last) for k in range(stack) for first, last in bands]


def _itemsize_of(program: Compiled) -> int:
    """The bytes of one element of every field together; positions are no arrays of that size."""
    count = len(program.field_dtypes) - len(program.along)
    return sum(dtype.itemsize for dtype in program.field_dtypes[:count])
