"""Stencils that several measures share."""

from __future__ import annotations

import ninepoint as npt


@npt.stencil(boundary="nearest")
def mean9(x):
    """The mean of three by three points."""
    return x[-1:2, -1:2].mean()


@npt.stencil(boundary="nearest")
def smooth(x):
    """The mean of three by three points, as a whole number."""
    return x[-1:2, -1:2].sum() // 9


@npt.stencil(boundary="nearest")
def mean27(x):
    """The mean of three by three by three points."""
    return x[-1:2, -1:2, -1:2].mean()


@npt.stencil(boundary="reflect")
def laplace(x):
    """The sum of the differences from four neighbours."""
    return x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] - 4 * x[0, 0]


@npt.stencil(boundary="nearest")
def blur(x):
    """A point and its four neighbours, weighed."""
    return (x[-1, 0] + 2 * x[0, 0] + x[1, 0] + x[0, -1] + x[0, 1]) * (1 / 6)


@npt.stencil(boundary="nearest")
def blur4(x):
    """Four blurs, one after another."""
    a = blur(x)
    b = blur(a)
    c = blur(b)
    return (c[-1, 0] + 2 * c[0, 0] + c[1, 0] + c[0, -1] + c[0, 1]) * (1 / 6)


@npt.stencil(standard_indexing=("w",))
def weighed(x, w):
    """Two neighbours, weighed by numbers of a table."""
    return w[0] * x[-1, 0] + w[1] * x[1, 0]
