"""Stacks that lie innermost in memory: colour channels, levels of a volume."""

from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from compared import same as equal

RNG = np.random.default_rng(5)
FRAME = RNG.integers(0, 255, (9, 13, 3), dtype="uint8")
VOLUME = RNG.random((7, 8, 40))
uneven = npt.stencil(lambda x: x[-1, 2] * 3 + x[0, 1] - x[1, -1])


@npt.stencil
def curved(u, c):
    lap = 4 * u[0, 0] - (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1])
    return u[0, 0] - c[0, 0] * (lap[1, 0] - lap[-1, 0] + lap[0, 1] - lap[0, -1])


placed = npt.stencil(lambda x: x[0, 1] + npt.index()[0])


@npt.stencil(neighborhood=((-2, 2), (-1, 3)))
def sheared(x):
    total, k = 0, 0
    while k < 3 and total < 600:
        total += x[2 - 2 * k, k + x[0, 0] % 2]
        k += 1
    return total - x[0, 1]


far_median = npt.stencil(lambda x: np.median(x[-6:7, -5:6]), boundary="mirror")
box = npt.stencil(lambda x: x[-7:8, -4:5].mean(), boundary="nearest")


@npt.stencil(boundary="reflect")
def edges(x):
    smooth = box(x)
    across = uneven(smooth)
    return across[0, 1] - smooth[1, 0]


def planar(function: Any, *images: Any, **options: Any) -> np.ndarray:
    """The same with the stack in front."""
    moved = [np.ascontiguousarray(np.moveaxis(one, -1, 0)) for one in images]
    return np.moveaxis(function(*moved, **options), 0, -1)


def same(function: Any, *images: Any, **options: Any) -> None:
    """Compare a call, and an equal call after it, with those on planes."""
    wanted = planar(function, *images, **options)
    for _ in range(2):
        equal(function(*images, axes=(0, 1), **options), wanted)
        out = np.zeros(wanted.shape, wanted.dtype)
        assert function(*images, axes=(0, 1), out=out, **options) is out
        equal(out, wanted)


def test_a_histogram_sums_that_run_and_pipelines() -> None:
    same(far_median, np.tile(FRAME, (3, 2, 1)))
    same(box, FRAME)
    same(box, np.tile(FRAME, (3, 2, 14)))
    image = np.tile(FRAME, (3, 2, 1))
    for threads in (1, 2):
        same(edges, image, threads=threads)
    x = box(npt.lazy(image), axes=(0, 1))
    single = box(image, axes=(0, 1))
    equal(uneven(x, axes=(0, 1)) - x, uneven(single, axes=(0, 1)) - single)


CORNERS: Any = (("keep", "fill"), ("fill", "keep"))


@pytest.mark.parametrize("boundary", ["reflect", CORNERS])
def test_reads_at_computed_offsets(boundary: Any, limited: Any) -> None:
    limited(transposed_points=0, block_elements=16)
    square = FRAME[..., 0].copy()
    wanted = sheared.debug(square, boundary=boundary)
    turned = np.asfortranarray(square)
    film = np.tile(FRAME, (1, 1, 20))
    for _ in range(2):
        equal(sheared(turned, boundary=boundary), wanted)
        for image in (FRAME, film, np.asfortranarray(FRAME), np.asfortranarray(film)):
            result = sheared(image, axes=(0, 1), boundary=boundary)
            equal(result, planar(sheared, image, boundary=boundary))


def test_explain_says_how() -> None:
    gaps, turned = np.zeros((9, 26), "uint8")[:, ::2], np.zeros((140, 130), "uint8").T
    for words, text in (
        ("stack       3 lanes, innermost", uneven.explain(FRAME, axes=(0, 1))),
        ("stack       40 lanes, innermost", curved.explain(VOLUME, VOLUME, axes=(0, 1))),
        # What the last call of a pipeline reads of other calls is no position.
        ("stack       3 lanes, innermost", edges.explain(FRAME, axes=(0, 1))),
        ("strides     copied: field 1", placed.explain(FRAME, axes=(0, 1))),
        (
            "strides     copied: field 1, whose rows are none that it can read",
            uneven.explain(FRAME[:, ::2], axes=(0, 1)),
        ),
        (
            "axes        in memory in the order (1, 0): the kernel is transposed",
            uneven.explain(turned),
        ),
        ("strides     copied: field 1", uneven.explain(gaps)),
        ("copied: field 2, whose", curved.explain(VOLUME, VOLUME[..., ::-1])),
        ("strides     copied: field 1", far_median.explain(turned)),
    ):
        assert words in str(text)
    assert "stack" not in str(uneven.explain(FRAME, axes=(-2, -1)))
