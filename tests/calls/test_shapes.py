"""Shapes of windows against those of other packages."""

from __future__ import annotations

import numpy as np
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
