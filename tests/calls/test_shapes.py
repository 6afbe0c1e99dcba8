"""Shapes of windows against those of other packages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from skimage import morphology

import ninepoint as npt
from ninepoint import shapes


def test_shapes_are_those_of_other_packages():
    for radius in range(5):
        np.testing.assert_array_equal(shapes.disk(radius), morphology.disk(radius) > 0)
        np.testing.assert_array_equal(shapes.ball(radius), morphology.ball(radius) > 0)
        np.testing.assert_array_equal(shapes.diamond(radius), morphology.diamond(radius) > 0)
        octahedron = morphology.octahedron(radius) > 0
        np.testing.assert_array_equal(shapes.diamond(radius, ndim=3), octahedron)
    for ndim in (1, 2, 3):
        structure = ndimage.generate_binary_structure(ndim, 1)
        np.testing.assert_array_equal(shapes.cross(1, ndim), structure)
    np.testing.assert_array_equal(shapes.ring(4, 2), shapes.disk(4) & ~np.pad(shapes.disk(2), 2))
    assert shapes.box(2, 3).shape == (2, 3)
    assert all(getattr(shapes, name)(2, 1).dtype == bool for name in ("box", "cross", "ring"))
    assert shapes.disk(2.9).shape == (5, 5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: shapes.disk(-1), ValueError, "radius holds -1"),
        (lambda: shapes.ball(np.inf), ValueError, "finite"),
        (lambda: shapes.disk("2"), TypeError, "no number"),
        (lambda: shapes.ring(2, 2), ValueError, "no point lies between inner=2 and outer=2"),
        (lambda: shapes.diamond(1.5), TypeError, "no whole number"),
        (lambda: shapes.cross(2, 0), ValueError, "ndim holds 0; give at least 1"),
        (lambda: shapes.box(), ValueError, "length along each axis"),
        (lambda: shapes.box(3, 0), ValueError, "sizes holds 0"),
        (lambda: shapes.cross(np.array([1, 2])), TypeError, "which is no whole number"),
        (lambda: shapes.disk(10**6), ValueError, "a shape of 4000004000001 points is larger"),
        (lambda: shapes.box(10**9), ValueError, "a shape of 1000000000 points is larger"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_kernel_makes_its_shape_on_either_path():
    @npt.stencil(boundary="reflect")
    def largest(x):
        return x[-2:3, -2:3][npt.shapes.disk(2)].max()

    @npt.stencil(boundary="reflect")
    def slow(x):
        while True:
            return x[-2:3, -2:3][npt.shapes.disk(radius=2)].max()

    x = np.arange(30).reshape(5, 6) * 7 % 31
    wanted = ndimage.maximum_filter(x, footprint=npt.shapes.disk(2))
    np.testing.assert_array_equal(largest.debug(x), wanted)
    np.testing.assert_array_equal(largest(x), wanted)
    np.testing.assert_array_equal(slow(x), wanted)
