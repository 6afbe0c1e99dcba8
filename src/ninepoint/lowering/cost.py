"""Cost: what a kernel costs at a point, in additions, and in bytes of vectors.

    x of int8:   t2 = t0 / t1     4 additions        v = a + b in lanes of int16     2 bytes
                 out = t2 + 1     1 addition         and 4 for the store of v

Every choice between two ways of computing the same is made by these numbers: what neighbours
share (`sharing`), which stage is computed again where it is read (`fusion`), and how many rows
are made at once (`abreast`).  What `work` counts for `explain` is in the same additions.
"""

from __future__ import annotations

from ..language.ir import Binary, Call, Carried, Expr, Loop, Read

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
