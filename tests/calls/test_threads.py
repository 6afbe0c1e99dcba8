"""Threads of a call: what `threads=` and NINEPOINT_THREADS say."""

from __future__ import annotations

import numpy as np
import pytest

import ninepoint as npt

# Work enough that it is shared.
IMAGE = np.random.default_rng(0).random((3000, 1000))


@npt.stencil(boundary="nearest")
def middle(x):
    return np.median(x[-1:2, -1:2])


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_variable_that_is_no_number_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NINEPOINT_THREADS", text)
    with pytest.raises(ValueError, match=r"NINEPOINT_THREADS=.* is no number of threads"):
        middle(IMAGE)
    # What the call says goes before it.
    assert middle(IMAGE, threads=1).shape == IMAGE.shape


@pytest.mark.parametrize("text", ["", " ", "1", " 2 "])
def test_a_variable_may_be_blank(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NINEPOINT_THREADS", text)
    np.testing.assert_array_equal(middle(IMAGE), middle(IMAGE, threads=2))
