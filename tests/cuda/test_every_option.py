"""Options mean the same for arrays on a GPU, and for those that are sent there."""

from __future__ import annotations

import numpy as np

import on_gpu
from options import FILM, OPTIONS, kernel


def outcome(call, x, options):
    """What a call gives, or how it is refused."""
    try:
        found = call(x, **options)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    return found if isinstance(found, np.ndarray) else found.get()


def same(found, wanted):
    if isinstance(wanted, tuple) or isinstance(found, tuple):
        return found == wanted
    return found.dtype == wanted.dtype and np.array_equal(found, wanted)


def test_every_option_of_arrays_that_are_sent(cupy):
    with on_gpu.prepared(
        lambda options=options: kernel(FILM, **options(), device="cuda")
        for options in OPTIONS.values()
    ):
        for name, options in OPTIONS.items():
            wanted = outcome(kernel, FILM, options())
            found = outcome(kernel, FILM, {**options(), "device": "cuda"})
            assert same(found, wanted), name


def test_every_option_of_arrays_that_lie_there(cupy):
    there = cupy.asarray(FILM)
    for name, options in OPTIONS.items():
        wanted = outcome(kernel, FILM, options())
        given = options()
        if isinstance(given.get("out"), np.ndarray):
            # What NumPy arrays alone can be is left out.
            if name in ("out is read-only", "out overlaps itself"):
                continue
            given["out"] = cupy.asarray(given["out"])
        elif "out" in given:
            given["out"] = type(given["out"])(map(cupy.asarray, given["out"]))
        found = outcome(kernel, there, given)
        assert same(found, wanted), name
