"""Positions: where in the whole array a kernel is.

    i, j = npt.index(x)      ->     i = read index0, j = read index1: fields that hold 0, 1, 2, ...

A kernel is called with a field more for each position that it asks for, which nobody gives by
name: a number for each place along one axis, the same along all others.
"""

from __future__ import annotations

from typing import Any

# The least and the greatest position: a local may ask for it at another point (`FAR` away), and no
# array has more elements.
LEAST, GREATEST = -(2**32), 2**53


def index(field: Any = None, /) -> Any:
    """Give the position of the point, in a kernel: whole numbers, one for each axis.

    Parameters
    ----------
    field : field of the kernel, optional
        The position in this field of its element ``field[0, ..., 0]``, in the whole array, however
        that is cut into chunks.  Without it, the position among the results, which is another
        one only where these are not as many as the elements (``boundary="valid"``, ``every=``).

    Returns
    -------
    int or tuple of int
        A number for a kernel of one axis, else one for each axis of the kernel.

    Raises
    ------
    TypeError
        If it is called outside of a kernel.

    Notes
    -----
    Of a local that is read elsewhere, as ``d[1]``, it is the position there: one more, also where
    the border's rule takes the elements of a field from somewhere else.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil
    ... def checkerboard(x):
    ...     i, j = npt.index(x)
    ...     return x[0, 0] if (i + j) % 2 == 0 else 0
    >>> checkerboard(np.ones((2, 4), int))
    array([[1, 0, 1, 0],
           [0, 1, 0, 1]])
    """
    raise TypeError(
        "npt.index gives the position of the point inside a kernel; call it in a function that is "
        "decorated with @npt.stencil, with a field of that: i, j = npt.index(x)."
    )
