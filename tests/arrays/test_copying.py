"""Copies of arrays that lie in any order in memory."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from ninepoint.arrays import copying


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_any_order(order: tuple[int, ...]) -> None:
    lengths = np.array((3, 70, 131))[list(order)]
    lain = np.random.default_rng(0).integers(0, 250, lengths * (1, 1, 2)).astype("uint8")
    back = np.argsort(order)
    for array in (lain[..., ::2], lain[:, ::-1, : lengths[2]], lain[:, :, 1::2][::-1]):
        turned = array.transpose(back)
        made = copying.copied(turned, np.dtype("float32"))
        assert made.flags.c_contiguous
        np.testing.assert_array_equal(made, turned.astype("float32"))
        target = np.zeros(turned.shape[::-1], "int16").T
        copying.copy_to(target, turned)
        np.testing.assert_array_equal(target, turned)
