"""Random programs: every way to run one gives what its definition says, or refuses it alike.

Seeds are fixed, so that a failure is found again; its message is a program that can be run.  Many
more seeds are tried by `python tests/agree.py FIRST LAST`, and every night; those for a GPU stand
in tests/cuda.
"""

from collections import Counter

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import agree
import drawing
import kernels
import ninepoint as npt
import scale
import seams
import ways
from compared import at_night
from own_process import printed

# Programs of each kind that every run of the tests tries, and how many ways of each.
INTERPRETED = {"kernel": (50, 2), "pipeline": (16, 2), "steps": (16, 2), "ufunc": (50, 2)}
COMPILED = {"kernel": (16, 3), "pipeline": (5, 3), "steps": (5, 3), "ufunc": (16, 3)}
BATCH = {"kernel": 25, "pipeline": 8, "steps": 8, "ufunc": 50}

# And every night: about eight minutes of two cores.
NIGHTLY = {"kernel": (4000, 4), "pipeline": (720, 3), "steps": (960, 4), "ufunc": (3000, 4)}


def batches(amount: dict[str, tuple[int, int]], first: int, size: int = 1) -> list[object]:
    """Kinds, seeds and numbers of ways, for `parametrize`."""
    found = []
    for kind, (count, most) in amount.items():
        step = BATCH[kind] * size
        for start in range(first, first + count, step):
            seeds = range(start, min(start + step, first + count))
            found.append(pytest.param(kind, seeds, most, id=f"{kind}-{start}"))
    return found


def agrees(kind: str, seeds: range, most: int, *, compiled: bool = False) -> None:
    counts, wrong = agree.many(kind, seeds, compiled=compiled, most=most)
    assert not wrong, "\n\n".join(wrong)
    # Of use is what gives arrays.
    assert counts["arrays"] >= len(seeds) // 3


@pytest.mark.parametrize(
    ("kind", "seeds", "most"),
    [*batches(INTERPRETED, 0), *map(at_night, batches(NIGHTLY, 100_000, 5))],
)
def test_every_way_gives_what_the_definition_says(kind, seeds, most):
    agrees(kind, seeds, most)


@pytest.mark.usefixtures("protected_pages")
@pytest.mark.parametrize(
    ("kind", "seeds", "most"),
    [*batches(COMPILED, 50_000), *map(at_night, batches(COMPILED, 60_000))],
)
def test_so_does_machine_code(kind, seeds, most):
    agrees(kind, seeds, most, compiled=True)


# Limits with which small arrays go the ways of large ones: copied a few rows at a time, in slabs
# and ends, with kernels that are transposed; and faces are given apart, as to many workers.
SMALL = {"block_elements": 40, "whole_bytes": (0, 0, 0), "transposed_points": 0}
SMALL |= {"workers_together": -1}


@pytest.mark.parametrize("kind", ["kernel", "pipeline"])
def test_small_arrays_that_go_the_ways_of_large_ones(kind):
    with seams.limits(**SMALL):
        agrees(kind, range(70_000, 70_000 + 2 * BATCH[kind]), 6)


@pytest.mark.parametrize("kind", scale.KINDS)
def test_what_lies_in_stores_gives_the_same(kind):
    with seams.interpreted():
        counts = Counter(scale.check(kind, seed, kills=0) for seed in range(8))
    assert counts["arrays"]


@pytest.mark.nightly
def test_many_that_lie_in_stores():
    for options in (["1000", "1100"], ["1000", "1010", "--workers"]):
        printed(scale.__file__, *options)


def test_a_failure_is_a_program_and_the_table_of_refusals_is_read(capsys):
    """It says which seed and which way, and can be run as it is printed."""
    program = drawing.draw("kernel", 3)
    running = agree.Running(program)
    made = running(ways.first(program))
    failure = str(running.disagreement(ways.ways(program, None)[0], made, made))
    assert failure.startswith("# kernel 3, ")
    kernels.executed(failure)
    # What is right, and what the way gives.
    told = capsys.readouterr().out
    half = len(told) // 2
    assert half
    assert told[:half] == told[half:]
    targets = {target for target, _ in agree.refusals()}
    assert targets >= {"GPU", "comm", "xarray", "Dask"}
    words = "comm= takes arrays of NumPy, in each process its own part: the points on"
    assert agree.refused("comm", (TypeError, words))
    assert not agree.refused("GPU", (TypeError, words))
    assert not agree.refused("GPU", (TypeError, "something else"))


# What random programs have found.
alike = npt.stencil(lambda x: x[0, 0])
alike_row = npt.stencil(lambda x: x[0])


@npt.stencil(boundary="keep")
def two_of_one(x):
    s = alike(x)
    return s[0, 1], s[1, 0]


@npt.stencil(boundary=npt.neumann(1))
def second_is_whole(a, b):
    s = alike(b)
    return s[1, 0]


differing = npt.stencil(lambda x, y, unused=1: x[0, 1] - 10 * y[0, 0])


@npt.stencil
def staged(x, y, unused=1):
    s = alike(x)
    return s[0, 1] - 10 * y[0, 0]


coarse = npt.stencil(lambda x: x[0], every=2)


@npt.stencil(boundary="keep")
def kept_of_coarse(band):
    s = coarse(band)
    return s[1] + s[0]


X, LINE = np.arange(12).reshape(3, 4), np.zeros(4)

FILM = xr.DataArray(np.zeros((2, 6)), dims=["a", "b"])
BOTH = (alike_row, alike_row.debug)
FINER = {"boundary": npt.neumann(0.5), "upsample": 2}
WHOLE = (np.zeros((3, 3)), np.zeros((3, 3), int))

REFUSALS = [
    (BOTH, [LINE], FINER, "upsample= and border conditions"),
    ((second_is_whole, second_is_whole.debug), WHOLE, {}, "field 's' is int64"),
    ((two_of_one,), [X], {}, "'two_of_one' has 2 outputs and 1 fields"),
    ((kept_of_coarse,), [np.zeros((2, 6))], {}, "kept_of_coarse.*band.*do not broadcast"),
    # It is refused before for its coordinates.
    ((kept_of_coarse,), [FILM], {}, "every= or upsample= inside a kernel moves"),
    # A scalar that nothing uses is checked all the same.
    ((differing, staged), [X, X], {"unused": None}, "unused"),
    ((differing, staged), [X, X], {"unused": "a"}, "unused"),
    ((differing, staged), [X, X], {"unused": 2**70}, "unused"),
]


@pytest.mark.parametrize(("ways", "fields", "options", "words"), REFUSALS)
def test_what_is_refused_in_the_same_words(ways, fields, options, words):
    told = set()
    for way in ways:
        with pytest.raises((TypeError, ValueError), match=words) as caught:
            way(*fields, **options)
        told.add((caught.type, str(caught.value)))
    assert len(told) == 1


def test_numbers_that_random_programs_found():
    made = alike_row.iterate(np.arange(3.0).astype(">f8"), steps=0)
    assert made.dtype == np.dtype("f8")
    assert made.dtype.isnative
    kernel = npt.stencil(lambda x, k: x[0] * (k * 0.5) + k / 4)
    image = np.arange(5, dtype="float32")
    assert kernel(image, 3).dtype == "float32"
    np.testing.assert_array_equal(kernel(image, 3), kernel.debug(image, 3))
    here = npt.stencil(lambda x: x[0] * 2, boundary=npt.dirichlet(0))
    beside = npt.stencil(lambda x: here(x)[1])
    x = np.arange(6)
    for kernel, right in ((here, x * 2), (beside, [*x[1:] * 2, 0])):
        for made in (kernel(x), kernel.debug(x), kernel(da.from_array(x, chunks=3)).compute()):
            np.testing.assert_array_equal(made, right)
