"""Sizes and times at which the library changes its way of working: one record, measured values.

No limit changes a result.  Those in force are `current`; `limits` of `tests/seams.py` puts others
in their place, so that small arrays in tests go the ways of large ones.
"""

from __future__ import annotations

import os

from ..base.frozen import frozen


@frozen
class Limits:
    """Where one way of working ends and another begins."""

    # Elements of float64 of a block that is copied before it is read: 2 MB, which stays near.
    # Sizes from 64k to 512k were within 5 % of each other; of smaller types, a block has as many
    # more (1000x1000 uint8, maximum of 31x31: 262 us in one block, 291 us in four; Zen 4).
    block_elements: int = 262_144

    # Arrays of fewer points are copied where their core axes lie in another order: to compile a
    # kernel for that takes longer than thousands of calls on them gain.
    transposed_points: int = 1 << 14

    # Up to this many bytes of fields a stencil of one, two or more axes is run once on a padded
    # copy, beyond in pieces: the more axes, the more points are near the border.  Of a mean of 3x3
    # the copy was as fast on 256x256 float32 (24 and 23 us) and slower on 400x400 (55 and 48 us);
    # of 27 points faster on 64x64x64 float32 (162 and 231 us) and 100x100x100 bytes (EPYC).
    whole_bytes: tuple[int, int, int] = (16_384, 300_000, 2_000_000)
    # Bytes of a state below which it stays in a core's cache from step to step.
    chained_bytes: int = 1 << 20

    # How long it takes to share work, on a machine of two cores [s].  With the pool it took 40 us
    # when the machine was quiet, and 120 us when it was busy (Zen 4).
    handoff_seconds: float = 200e-6

    # About how many elements are put in order together: their places have 16 bits, and all that
    # is known of them stays in the second cache.
    sorted_elements: int = 1 << 16

    # How many times as many rows and columns as the window has are put in order together at least.
    sorted_windows: int = 3

    # Of a window along the row alone one row is enough; so many columns then.
    sorted_columns: int = 1 << 13

    # How many times as much may be decoded as the blocks alone need: half more, and a little, so
    # that shards of eight by eight chunks are among it, which decode 1.56 times as much far from
    # the ends.  (Four blurs from shards to shards, 36 of 16 MB on two threads, took 0.6 times as
    # long so as by chunks and their edges, and 1.0 times with 9 shards, under load.)
    decoded_ratio: float = 1.6

    # Workers of a cluster up to which all faces of a chunk are one object: of two, the other one
    # is sent all once.
    workers_together: int = 2

    # Bytes of chunks of files that may wait until the blocks around them are there.  Beyond that
    # each is read once more for its faces alone.
    held_bytes: int = 1 << 27

    # Tasks of an iteration that are left to be done later at most, and steps between two exchanges
    # that are recorded whatever their tasks are many.  Beyond that the state is computed, and
    # held, before the next.
    later_tasks: int = 100_000
    later_steps: int = 16

    # So many units are given to a scheduler at once, and more when half of them are written:
    # it then holds no more tasks however many units there are, and the first one is soon written.
    window_units: int = 1 << 11
    # Where memory is short they have fewer, but not so few that mostly their neighbours are read.
    least_units: int = 1 << 6

    # Bytes of fields and results of a piece that is sent to a GPU, where there is room for more: a
    # bus moves them in a millisecond, far longer than it takes to start a copy and a kernel.  Not
    # measured.
    sent_bytes: int = 1 << 25

    # How many times as long as its halo such a piece is at least, if it could be the whole: more
    # would be sent and computed twice than copies beside it save.
    sent_reaches: int = 16

    # Elements of a frame on a GPU from which on distances in it are of 64 bits.
    far_elements: int = 2**30

    # Bytes of arguments that every driver of a GPU takes; one for CUDA 12.1 takes eight times as
    # many.
    argument_bytes: int = 4096

    # A call that takes no longer to compile [s] needs no word: a kernel of moderate size takes 0.5
    # to 2.
    announced_seconds: float = 2.0


current = Limits()


def number_in(variable: str, what: str, least: int) -> int | None:
    """How many of something a variable of the environment names; None if it is not set.

    Raises
    ------
    ValueError
        If it holds no number, or one below the least.
    """
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{variable}={text!r} is no number of {what}; set it to {least} or more.")
    return int(text)
