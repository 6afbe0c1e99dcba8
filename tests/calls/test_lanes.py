"""Stacks that lie innermost in memory: colour channels, levels of a volume."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
import ninepoint.filters as npf
from weighted import RULES

RNG = np.random.default_rng(5)
FRAME = RNG.integers(0, 255, (9, 13, 3), dtype="uint8")
VOLUME = RNG.random((7, 8, 40))
PAIRS: Any = [*RULES[:4], RULES[-1], (("fill", "mirror"), ("reflect", "nearest"))]


@npt.stencil
def uneven(x):
    return x[-1, 2] * 3 + x[0, 1] - x[1, -1]


@npt.stencil
def curved(u, c):
    lap = 4 * u[0, 0] - (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1])
    return u[0, 0] - c[0, 0] * (lap[1, 0] - lap[-1, 0] + lap[0, 1] - lap[0, -1])


@npt.stencil
def placed(x):
    return x[0, 1] + npt.index()[0]


@npt.stencil(neighborhood=((-2, 2), (-1, 3)))
def sheared(x):
    total, k = 0, 0
    while k < 3 and total < 600:
        total += x[2 - 2 * k, k + x[0, 0] % 2]
        k += 1
    return total - x[0, 1]


@npt.stencil(boundary="mirror")
def far_median(x):
    return np.median(x[-6:7, -5:6])


@npt.stencil(boundary="nearest")
def box(x):
    return x[-7:8, -4:5].mean()


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
    """Compare a call, and equal calls after it, with those on planes."""
    wanted = planar(function, *images, **options)
    for _ in range(3):
        result = function(*images, axes=(0, 1), **options)
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)
    out = np.zeros(wanted.shape, wanted.dtype)
    for _ in range(2):
        assert function(*images, axes=(0, 1), out=out, **options) is out
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("boundary", PAIRS)
def test_borders(boundary: Any) -> None:
    for image in (FRAME, FRAME[:2, :2], FRAME[:, :1].copy(), FRAME[:1].copy()):
        same(uneven, image, boundary=boundary)
    same(curved, VOLUME, VOLUME[::-1].copy(), boundary=boundary)


def test_arrays_with_gaps_and_of_other_bytes() -> None:
    for image in (FRAME[:, ::2], FRAME[..., :2], FRAME[::-1], FRAME[:, ::-1], FRAME[..., ::-1]):
        same(uneven, image)
    for image in (FRAME.astype(">i2"), FRAME[:0], FRAME[:, :0], FRAME[..., :0], FRAME[..., :1]):
        same(uneven, image)


def test_stacks_before_and_after() -> None:
    film = RNG.integers(0, 255, (4, 9, 13, 3), dtype="uint8")
    wanted = np.stack([planar(uneven, frame) for frame in film])
    pairs = RNG.integers(0, 255, (9, 13, 2, 3), dtype="uint8")
    for _ in range(3):
        np.testing.assert_array_equal(uneven(film, axes=(1, 2)), wanted)
        np.testing.assert_array_equal(
            uneven(pairs, axes=(0, 1)),
            planar(uneven, pairs.reshape(9, 13, 6)).reshape(pairs.shape),
        )


def test_fields_that_lack_the_stack() -> None:
    u, c = VOLUME[..., :3].copy(), VOLUME[..., 5]
    wanted = planar(curved, u, np.broadcast_to(c[..., None], u.shape))
    for _ in range(3):
        np.testing.assert_array_equal(curved(u, c[..., None], axes=(0, 1)), wanted)


def test_a_histogram_and_sums_that_run() -> None:
    same(far_median, np.tile(FRAME, (3, 2, 1)))
    same(box, FRAME)
    same(box, np.tile(FRAME, (3, 2, 14)))


def test_results_lie_as_the_fields_do() -> None:
    result = uneven(FRAME, axes=(0, 1))
    assert result.flags.c_contiguous
    assert uneven(VOLUME, axes=(0, 1)).flags.c_contiguous


def test_pipelines() -> None:
    image = np.tile(FRAME, (2, 2, 1))
    for threads in (1, 2):
        same(edges, image, threads=threads)
    x = npt.lazy(image)
    blurred = npf.mean(x, 3, axes=(0, 1))
    result = np.asarray(uneven(blurred, axes=(0, 1)) - blurred)
    single = npf.mean(image, 3, axes=(0, 1))
    np.testing.assert_array_equal(result, uneven(single, axes=(0, 1)) - single)


def test_dask_and_xarray() -> None:
    cut = da.from_array(np.tile(FRAME, (3, 3, 1)), chunks=(10, 14, 3))
    wanted = planar(uneven, np.tile(FRAME, (3, 3, 1)), boundary="mirror")
    result = uneven(cut, axes=(0, 1), boundary="mirror").compute(scheduler="sync")
    np.testing.assert_array_equal(result, wanted)
    named = xr.DataArray(np.tile(FRAME, (3, 3, 1)), dims=("y", "x", "band"))
    result = uneven(named, dims=("y", "x"), boundary="mirror")
    np.testing.assert_array_equal(result, wanted)


CORNERS: Any = (("keep", "fill"), ("fill", "keep"))


@pytest.mark.parametrize("boundary", [*PAIRS, CORNERS])
def test_core_axes_in_another_order(boundary: Any, limited: Any) -> None:
    limited(transposed_points=0)
    square = FRAME[..., 0].copy()
    wanted = uneven(square, boundary=boundary, dtype="int16", overflow="wrap")
    turned = np.asfortranarray(square)
    gaps = np.zeros((13, 18), "uint8")
    gaps[:, ::2] = square.T
    for image in (turned, turned[::-1][::-1], gaps[:, ::2].T):
        for out in (None, np.zeros_like(wanted), np.zeros_like(wanted, order="F")):
            for _ in range(3):
                result = uneven(image, boundary=boundary, dtype="int16", overflow="wrap", out=out)
                np.testing.assert_array_equal(result, wanted)
    assert uneven(turned).flags.f_contiguous
    np.testing.assert_array_equal(
        uneven(turned, every=(2, 3), boundary=boundary),
        uneven(square, every=(2, 3), boundary=boundary),
    )
    # Of a volume in Fortran's order the stack lies innermost as well.
    film = np.asfortranarray(FRAME.transpose(2, 0, 1))
    wanted = uneven(np.ascontiguousarray(film), boundary=boundary)
    for _ in range(3):
        np.testing.assert_array_equal(uneven(film, boundary=boundary), wanted)


@pytest.mark.parametrize("boundary", ["reflect", "fill", CORNERS])
def test_reads_at_computed_offsets(boundary: Any, limited: Any) -> None:
    limited(transposed_points=0, block_elements=16)
    square = FRAME[..., 0].copy()
    wanted = sheared.debug(square, boundary=boundary)
    turned = np.asfortranarray(square)
    film = np.tile(FRAME, (1, 1, 20))
    for _ in range(3):
        np.testing.assert_array_equal(sheared(turned, boundary=boundary), wanted)
        for image in (FRAME, film, np.asfortranarray(FRAME), np.asfortranarray(film)):
            result = sheared(image, axes=(0, 1), boundary=boundary)
            np.testing.assert_array_equal(result, planar(sheared, image, boundary=boundary))


@pytest.mark.parametrize("boundary", ["reflect", "wrap", "fill"])
def test_pipelines_whose_axes_lie_in_another_order(boundary: Any, limited: Any) -> None:
    limited(transposed_points=0)
    square = np.tile(FRAME[..., 0], (5, 4))
    wanted = edges(square, boundary=boundary)
    turned = np.asfortranarray(square)
    for threads in (1, 2):
        result = edges(turned, boundary=boundary, threads=threads)
        # Where not all calls take an axis for a ring, they are done one by one.
        assert result.flags.f_contiguous or boundary == "wrap"
        np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(
        edges(square[::-1][::-1].T, axes=(1, 0), boundary=boundary).T, wanted
    )
    cut = da.from_array(turned, chunks=(30, 40))
    np.testing.assert_array_equal(edges(cut, boundary=boundary).compute(scheduler="sync"), wanted)


def test_explain_says_how() -> None:
    text = str(uneven.explain(FRAME, axes=(0, 1)))
    assert "stack       3 lanes, innermost" in text
    text = str(curved.explain(VOLUME, VOLUME, axes=(0, 1)))
    assert "stack       40 lanes, innermost" in text
    # What the last call of a pipeline reads of other calls is no position.
    text = str(edges.explain(FRAME, axes=(0, 1)))
    assert "stack       3 lanes, innermost" in text
    assert "strides     copied: field 1" in str(placed.explain(FRAME, axes=(0, 1)))
    text = str(uneven.explain(FRAME[:, ::2], axes=(0, 1)))
    assert "strides     copied: field 1, whose rows are none that it can read" in text
    assert "stack" not in str(uneven.explain(FRAME, axes=(-2, -1)))
    turned = np.zeros((140, 130), "uint8").T
    text = str(uneven.explain(turned))
    assert "axes        in memory in the order (1, 0): the kernel is transposed" in text
    text = str(uneven.explain(np.zeros((9, 26), "uint8")[:, ::2]))
    assert "strides     copied: field 1" in text
    assert "copied: field 2, whose" in str(curved.explain(VOLUME, VOLUME[..., ::-1]))
    assert "strides     copied: field 1" in str(far_median.explain(turned))
