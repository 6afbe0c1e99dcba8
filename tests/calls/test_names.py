"""Names: fields, scalars and stages may be called as the user likes."""

from __future__ import annotations

import numpy as np
import pytest

import kernels
import ninepoint as npt
import unlucky
from nightly import only
from seams import interpreted, plan_of


@npt.stencil(boundary="reflect")
def lap(u):
    return u[-1, 0] + u[1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0]


@npt.stencil(boundary="mirror")
def weighted(u, w=0.5):
    return w * (u[-1, -1] + u[1, 1]) + u[0, 0]


def two(first, second):
    """A pipeline of two stages and the arrays of its own, of these names, done in one pass."""
    source = (
        f"def kernel(field, scalar=2.0):\n"
        f"    {first} = lap(field)\n"
        f"    {second} = weighted({first}, scalar)\n"
        f"    return {first}[0, 1] + {second}[1, 0] * scalar - field[0, 0] + {second}[-1, -1]\n"
    )
    schedule = npt.Schedule(stages=((first, "rows"), (second, "rows")))
    function = kernels.compiled(
        f"import ninepoint as npt\nfrom test_names import lap, weighted\n{source}"
    )
    return npt.stencil(boundary="reflect", schedule=schedule)(function)


def separately(x, scalar=2.0):
    first = lap(x)
    second = weighted(first, scalar)
    return last(first, second, x, scalar)


@npt.stencil(boundary="reflect")
def last(first, second, field, scalar):
    return first[0, 1] + second[1, 0] * scalar - field[0, 0] + second[-1, -1]


# No kernel can mean these as stages: it calls the stencils by them.
NAMES = [n for n in (*unlucky.NAMES, *unlucky.OPTIONS) if n not in ("lap", "field", "scalar")]


def test_names_in_text():
    """Each name is that of a first stage or of a second."""
    x = np.random.default_rng(0).random((5, 6))
    wanted = separately(x)
    with interpreted():
        for name, other in zip(NAMES[::2], NAMES[1::2], strict=False):
            kernel = two(name, other)
            (passes,) = plan_of(kernel, x).passes
            assert len(passes) == 3, name
            made = kernel(x)
            np.testing.assert_array_equal(made, wanted, err_msg=f"{name}, {other}")
        x = (x * 255).astype("uint8")
        wanted = median("x")(x)
        for name in ("value", "rest", "k", "d", "band_row", "fine_v0_row"):
            np.testing.assert_array_equal(median(name)(x), wanted, err_msg=name)


def median(name):
    """A median by a histogram, of a field of this name."""
    source = f"import numpy as np\ndef kernel({name}):\n"
    return npt.stencil(kernels.compiled(f"{source}    return np.median({name}[-5:6, -5:6])\n"))


PAIRS = [("band", "np"), ("row", "padded"), ("v0_row", "é"), ("out", "dtype"), ("b", "range")]


@pytest.mark.parametrize(("first", "second"), only(2, PAIRS))
def test_stages_of_any_name_compile(first, second):
    x = np.random.default_rng(0).random((700, 700))
    np.testing.assert_array_equal(two(first, second)(x), separately(x))


def test_fields_and_stages_of_underscores():
    @npt.stencil(boundary="reflect", schedule=npt.Schedule(stages=(("__", "rows"),)))
    def kernel(_):
        __ = lap(_)
        return __[0, 1] + __[-1, 0] - _[0, 0]

    x = np.random.default_rng(0).random((700, 700))
    made = lap(x)
    np.testing.assert_array_equal(kernel(x), beside(made, x))


@npt.stencil(boundary="reflect")
def beside(made, x):
    return made[0, 1] + made[-1, 0] - x[0, 0]


def test_a_stage_called_as_its_field():
    @npt.stencil
    def twice(u):
        u = lap(u)
        u = u
        u_2 = u[0, 1]
        u = lap(u)
        return u[0, 0] + u_2

    x = np.random.default_rng(0).random((12, 13))
    inner = lap(x)
    wanted = lap(inner)
    wanted[:, :-1] += inner[:, 1:]
    wanted[:, -1] = 0
    np.testing.assert_array_equal(twice(x), wanted)


def test_the_schedule_means_stages_of_any_name():
    source = "def kernel(x):\n    s_0 = lap(x)\n    return s_0[1, 0] + s_0[-1, 0] + s_0[0, 2]\n"
    function = kernels.compiled(f"from test_names import lap\n{source}")
    for how in ("rows", "whole"):
        kernel = npt.stencil(schedule=npt.Schedule(stages=(("s_0", how),)))(function)
        assert ("the schedule says so" in kernel.explain("float64")) == (how == "whole")


# Steps of an iteration.


def drift(u, u_0, u_c0, r, r_0, ends1, constant0):
    moved = r * (u[-1, 0] - u_0[0, 0]) - r_0 * (u[0, 1] - u_c0[0, 1])
    return u[0, 0] + moved + constant0 * ends1[1]


def test_steps_beside_fields_and_scalars_of_their_names():
    rng = np.random.default_rng(0)
    u, u_0, u_c0 = (rng.random((7, 8)) for _ in range(3))
    ends = np.array([0.5, 0.25])
    chained = npt.stencil(
        boundary="nearest", standard_indexing="ends1", schedule=npt.Schedule(steps=3)
    )(drift)
    with interpreted():
        made = chained.iterate(u, u_0, u_c0, lambda k: 0.1 * k, 0.2, ends, 0.5, steps=6)
    for k in range(6):
        u = chained.debug(u, u_0, u_c0, 0.1 * k, 0.2, ends, 0.5)
    np.testing.assert_array_equal(made, u)


def test_a_parameter_called_self():
    @npt.stencil(boundary="keep")
    def half(self, by=0.5):
        return self[0] * by

    x = np.arange(4.0)
    np.testing.assert_array_equal(half.iterate(self=x, steps=2), x / 4)
    np.testing.assert_array_equal(half.debug(self=x), half(self=x))
    assert "half" in half.explain("float64", by=0.5)
