"""The schedule: every choice of the compiler that changes its speed, and none of its results.

    Schedule(unrolled=130, direct=8, ...)

A small value that prints as itself: change a number with `dataclasses.replace`, give it back
with ``@stencil(schedule=...)``, and the result is the same to the bit, save for the windows'
reductions of floats, whose order of adding it decides.

Every default names what was measured: on two cores of a Zen 4 with AVX-512, Numba 0.68, with
2048 x 2048 images unless it says otherwise.

A request is what a kernel is compiled for besides the types of its arguments.

Cost: what a kernel costs at a point, in additions, and in bytes of vectors.

    x of int8:   t2 = t0 / t1     4 additions        v = a + b in lanes of int16     2 bytes
                 out = t2 + 1     1 addition         and 4 for the store of v

Every choice between two ways of computing the same is made by these numbers: what neighbours
share (`sharing`), which stage is computed again where it is read (`sharing`), and how many rows
are made at once (`rolling`).  What `work` counts for `explain` is in the same additions.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from ..base.frozen import frozen
from ..language.ir import Binary, Call, Carried, Expr, Loop, Read


@frozen
class Schedule:
    """The choices of one compilation.

    Attributes
    ----------
    unrolled : int
        Elements up to which a window that is not done axis by axis is written out.  A
        weighted sum took 0.5 s to compile with 49 elements, 1.5 s with 121, 9 s with 441.
    network : int
        Elements up to which such a window is sorted by a network.
    sorted_columns : int
        Elements up to which a window of two axes is sorted columns first: a network of 25
        took 1.5 s to compile, one of 49 took 5 s.  To sort the columns anew at each point, in
        registers, halved the speed of a median of 3 x 3 bytes.
    direct : int
        Elements along one axis that are combined at once; beyond, by doubling.
    radix : int
        How many elements a level of doubling combines; 0 for what needs the fewest loads: a
        31 x 31 mean of float32 was 1.4 times as fast so as by fours, at 512 x 512.
    shared : float
        Operations that must be saved for each point before what neighbours compute as well is
        kept in a row of its own.
    rows : int
        Rows of the result that are made at once, where values that rows share are then loaded
        or computed less often; 1 for one after the other.  Of a 3 x 3 window 3 rows read 5
        and write 3, as many as the first cache holds where they are 4096 bytes apart: an
        extreme of 4096 x 4096 bytes took 1.6 ms, with 4 rows 2.4 ms; elsewhere both are equal.
    gain : float
        How much of the effort for one row must be left then.
    steps : int
        How many steps of `Stencil.iterate` are done in one pass over memory: 1 for one after
        the other, 0 for as many as pay: about eight, four of a state of three axes.
    stages : tuple of (str, str)
        How stages, by their names, are kept: "inline" computes them again where they are
        read, unless somebody looks at it beyond the ends of the array, "rows" keeps the rows
        that are still needed, "whole" stores the array.  What is not named is chosen by what
        it costs.
    tile : int
        Columns that are done together where stages are kept in rows; 0 for as many as keep
        their rows in cache.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil(schedule=npt.Schedule(direct=2))
    ... def total(x):
    ...     return x[-1:2].sum()
    >>> total(np.arange(4))
    array([0, 3, 6, 0])
    """

    unrolled: int = 130
    network: int = 50
    sorted_columns: int = 49
    direct: int = 8
    radix: int = 0
    shared: float = 6
    rows: int = 3
    gain: float = 0.95
    steps: int = 0
    stages: tuple[tuple[str, str], ...] = ()
    tile: int = 0


class Refused(Exception):
    """Raised where something is not done; it says why: a clause that can stand after "because"."""


# Set by the tests, which look at every kernel after every pass: what another process compiled is
# compiled again.
VERIFY = "NINEPOINT_VERIFY"


@frozen
class Request:
    """What is asked of a kernel: the types of its results, how they are stored, which points.

    Where it `slides`, windows may slide along a row, by the ranks of their elements, and long sums
    go through a row of their own.
    """

    neighborhood: tuple[tuple[int, int], ...] | None = None
    dtypes: tuple[np.dtype, ...] | None = None
    overflow: str | None = None
    kept: int = 0
    fastmath: bool = False
    schedule: Schedule = field(default_factory=Schedule)
    upsample: tuple[int, ...] = ()
    every: tuple[int, ...] = ()
    slides: bool = True


# Cost.

# What an operation costs, in additions: latency hidden, per element of a vector (Zen 4).
COSTLY = {"/": 4, "//": 6, "%": 6, "**": 20, "round": 12}
FUNCTION = 12

# As how many turns a loop is counted: nobody knows how many it takes.
TURNS = 16

# What a load, a store, and the pass over a row that makes a stage cost, in additions.  With
# these what is counted as less was faster: extremes, means and medians of 3 x 3 to 5 x 5
# elements of 8 to 32 bits, 512 x 512 and 4096 x 4096 (Zen 4).
LOAD = 2
STORE = 2
PASS = 4

# The order in which floats of a window are added follows from its shape: along its rows first up
# to so many elements along each axis, so that several rows that are made at once share the sums,
# and else down its columns first, which loads less.  (3 x 3: a mean of float64, 512 x 512, took
# 0.83 of the time so, nanmean of 2048 x 2048 0.57.  5 x 5: a mean of float32 1.15, weights 1.56,
# Sapphire Rapids.)
NEAR = 3

# LLVM takes as many points at once as the widest load or store has lanes.  Values wider than
# that take several registers each, and so cost more.
WIDE = 1.5


def operation(expr: Expr) -> float:
    """What an operation costs, in additions; a read costs nothing."""
    match expr:
        case Binary():
            return COSTLY.get(expr.op, 1)
        case Call():
            return FUNCTION
        case Loop():
            return TURNS * sum(operation(assign.value) for assign in expr.body)
        case Read() | Carried():
            return 0
        case _:
            return 1


def saved_by_row(computed: float, reads: int) -> float:
    """How many operations a point a row saves in which is kept what costs `computed`.

    It is written once and loaded for each of `reads`, each of which would compute it.
    """
    return (reads - 1) * computed - (1 + reads)
