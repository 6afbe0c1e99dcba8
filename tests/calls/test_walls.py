"""Where the walls of border values lie."""

from __future__ import annotations

import numpy as np
import pytest

import ninepoint as npt


@npt.stencil
def heat(u):
    return u[0] + 0.25 * (u[-1] + u[1] - 2 * u[0])


def _error(cells: int, condition: npt.Condition) -> float:
    """How far a decaying wave in a box of length 1 is from the exact one after a fixed time."""
    places = (np.arange(cells) + 0.5) / cells
    steps = cells**2 // 25
    made = heat.iterate(np.sin(np.pi * places), steps=steps, boundary=condition)
    exact = np.exp(-(np.pi**2) * 0.25 * steps / cells**2) * np.sin(np.pi * places)
    return float(np.abs(made - exact).max())


def test_a_value_is_at_the_face_as_slopes_and_mixes_are() -> None:
    """The default put the wall half a cell farther out than `neumann` and `robin` do."""
    coarse, fine = (_error(cells, npt.dirichlet(0)) for cells in (20, 40))
    assert coarse / fine == pytest.approx(4, rel=0.05)
    robin = npt.robin(1.0, 0.0, 7.0)
    x = np.linspace(0, 1, 5)
    np.testing.assert_array_equal(heat(x, boundary=npt.dirichlet(7.0)), heat(x, boundary=robin))
    np.testing.assert_array_equal(
        heat(x, boundary=npt.dirichlet(7.0, at="cell")), heat(x, boundary="constant", cval=7)
    )
    assert repr(npt.dirichlet(7)) == "npt.dirichlet(7)"
    assert repr(npt.dirichlet(7, at="cell")) == "npt.dirichlet(7, at='cell')"
