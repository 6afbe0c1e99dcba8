"""Executables: what does calls like some, or several as one, bound once, called often.

    call, fields, along, out, threads     --bind-->  Executable
    executable(fields, numbers, out)      ->         results, one for each output

    call        a program and what is outside of its fields (`single`)
    chain       several calls, or steps, as one kernel (`chains`)

All that does not depend on the data is found out once: how arrays are given to machine code, what
lies outside of them, what is checked.  A call then allocates its results and computes.  Whether
`out` overlaps a field is looked at each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ..backends.memory import empty
from ..backends.threads import thread_count
from .accepted import check_writable, listed, write
from .arranging import Turned, are_writable, arranged, core_last, plain
from .chains import Chain, Passes
from .layout import Array, PlainArrays
from .numpy import Behind, checked_out, placed, whole_shape
from .single import Extensions, Single, Way

# Fewer points are done by one thread, whatever they cost: to look up how many cores there are
# takes 1.5 us, of the 5 us of a small call (Zen 4).
SPLIT_POINTS = 16_384

# What does calls: fields, numbers, out -> results.  The numbers are coefficient arrays, then
# scalars.
Run: TypeAlias = Callable[[PlainArrays, Sequence[Any], Any], PlainArrays]


class Executable:
    """Calls on arrays of one kind: shapes, strides, types; on so many threads at the most.

    Called with fields and `out` like those that it was bound to, and with numbers: coefficient
    arrays, then scalars.

    Raises
    ------
    ValueError
        If shapes do not broadcast, `out` does not fit, or `cval` does not fit a dtype.
    TypeError
        If `out` is no array of NumPy, or cannot hold the results.
    """

    def __init__(
        self,
        call: Single | Chain,
        fields: PlainArrays,
        along: Behind,
        out: Any = None,
        threads: int | None = None,
    ) -> None:
        self._pace, self._threads = call.compiled.pace, threads
        self._shape = shape = whole_shape(fields)
        outs = list[Array]()
        if out is not None:
            made = call.shapes(tuple(shape[axis] for axis in along))
            shapes = [placed(shape, along, one) for one in made]
            outs = checked_out(out, shapes, call.compiled.out_dtypes)
        does, how = arranged(call, fields, core_last(len(shape), along), outs)
        compiled = does.compiled
        # Results are made apart where the arrays for them cannot be written to as they lie.
        pairs = zip(map(how.of, outs), compiled.out_dtypes, strict=False)
        self._apart = not all(plain(one, dtype, compiled.ndim) for one, dtype in pairs)
        alike = all(field.shape == shape for field in fields)
        stays = does is call and how == Turned(tuple(range(len(shape))))
        self._how = None if stays and alike and not self._apart else how
        fields = self._laid(fields)
        split = fields[0].ndim - compiled.ndim
        lead, core = fields[0].shape[:split], fields[0].shape[split:]
        specs = zip(does.shapes(core), compiled.out_dtypes, strict=True)
        self._specs = [((*lead, *one), dtype) for one, dtype in specs]
        self._way: Way | Passes = does.way(fields)
        self._points = math.prod(lead) * self._way.points
        self._shared = self._points >= SPLIT_POINTS and threads != 1

    def __call__(
        self, fields: PlainArrays, numbers: Sequence[Any], out: Any = None
    ) -> PlainArrays:
        """What a call gives: one array for each output."""
        targets = [] if out is None else listed(out)
        results, how = targets, self._how
        if targets and not are_writable(targets, fields):
            # They may lie over fields: results are made apart, and moved there.
            check_writable(targets)
            results = []
        if how is not None:
            fields = self._laid(fields)
            results = [] if self._apart else list(map(how.of, results))
        made = results or [empty(shape, dtype) for shape, dtype in self._specs]
        # To ask how many threads there are takes as long as a small call.
        if not self._shared:
            self._way.run(numbers, fields, made, 1)
        else:
            self._paced(numbers, fields, made)
        if results:
            return targets
        if how is not None:
            made = list(map(how.back, made))
        if not targets:
            return made
        for target, one in zip(targets, made, strict=True):
            write(target, one)
        return targets

    def _laid(self, fields: PlainArrays) -> PlainArrays:
        """The fields as the program reads them."""
        how, shape = self._how, self._shape
        if how is None:
            return fields
        return [
            how.of(one if one.shape == shape else np.broadcast_to(one, shape)) for one in fields
        ]

    def _paced(self, numbers: Sequence[Any], fields: PlainArrays, results: PlainArrays) -> None:
        """Compute on as many threads as the points are worth.

        One alone does what takes less long than to ask others.  How long a point takes was
        measured in an earlier call; what was not is taken to be slow.  (With one and two threads
        a mean of 3x3 took 14 and 48 us where the others slept, 37 and 23 to 40, 82 and 42; a
        median of 3x3 77 and 43, Zen 5.)
        """
        known, points, way = self._pace, self._points, self._way
        alone = known and known[0] * points <= way.handoff
        threads = 1 if alone else thread_count(self._threads)
        began = perf_counter()
        way.run(numbers, fields, results, threads)
        pace = (perf_counter() - began) * threads / points
        # What takes longer than before may do so for another reason, and counts four times as much
        # at most.  To share costs time as well: what is shared is taken for a little faster each
        # time, so that one thread is tried again, in one of fifty calls.
        if known:
            pace = min(pace, 4 * known[0]) if threads == 1 else 0.97 * min(pace, known[0])
        known[:] = [pace]

    def beyond(self, ghosts: Extensions) -> Executable:
        """The same with other values beyond the sides where a single call has some."""
        assert isinstance(self._way, Way)
        made = copy(self)
        made._way = self._way.beyond(ghosts)
        return made
