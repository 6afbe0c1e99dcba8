"""Where the walls of border values lie."""

import numpy as np
import pytest

import ninepoint as npt

heat = npt.stencil(lambda u: u[0] + 0.25 * (u[-1] + u[1] - 2 * u[0]))


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


def test_rules_with_names_hold_for_what_conditions_extend() -> None:
    """Beside a condition of the same axis too, where the array is shorter than the call looks."""
    x = np.random.default_rng(0).random((2, 5))
    before = npt.dirichlet(np.array([2.0, 2.0, 1.0, 0.5, 2.0])), "mirror"
    beside = npt.robin(1.5, 1, np.array([1.0, 2.0]), dx=0.5), npt.robin(0.0, 1, 2, dx=0.5)
    kernel = npt.stencil(lambda x: (x[-2, -1], x[2, -2]), boundary=(before, beside))

    for made, wanted in zip(kernel(x), kernel.debug(x), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-12)
