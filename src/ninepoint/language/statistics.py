"""Statistics of windows that NumPy has no name for, as kernels would write them.

    npt.mode(x[-1:2])         ->     the text of `mode`, read in place as that of any helper
    ranked(x[-1:2], 30)       ->     of the n elements that are no NaN, that at int(n * 30 / 100)

Compiler and reference know nothing but `in_order` and `ranked`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def in_order(window: Any, name: str, cut: float = 0.0) -> Any:
    """Give the elements from the least to the greatest; the last is NaN if any is.

    `name` is that of the function that asks, and `cut` the part that it leaves out at each end.
    """
    elements = np.sort(np.ravel(window))
    if not 0 <= cut <= 0.5 or len(elements) <= 2 * int(cut * len(elements)):
        raise ValueError(f"{name} leaves nothing of {len(elements)} elements: cut={cut}")
    return elements


def ranked(window: Any, percentage: float) -> Any:
    """Give the element at `int(n * percentage / 100)` of the n that are no NaN, or the last.

    NumPy has no name for this rule: it is that of `scipy.ndimage.percentile_filter`.

    Raises
    ------
    TypeError
        Outside of a kernel: the kernel's reading, and the reference, have it of their own.
    """
    raise TypeError("ranked() stands for an operation of kernels; nothing else calls it.")


def mode(window: Any, /) -> Any:
    """Give the most frequent element of a window; of equally frequent ones the least.

    Parameters
    ----------
    window : window of a field, or what is computed from one, of any shape
        As ``x[-1:2, -1:2]``, also with elements picked by a mask.  No complex numbers.

    Returns
    -------
    number of the type of the elements
        NaN if any element is.

    Raises
    ------
    StencilError
        If a kernel gives it a single number, or complex numbers.

    Notes
    -----
    The rule is that of ``scipy.stats.mode``, and of ``skimage.filters.rank.modal`` and
    ``majority``.  The elements are put in order by a network, for many points at once; more than
    100 elements are sorted at each point, by Numba.  Outside of kernels it takes an array.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil(boundary="nearest")
    ... def majority(x):
    ...     return npt.mode(x[-1:2])
    >>> majority(np.array([1, 1, 2, 1, 1, 5, 5, 7]))
    array([1, 1, 1, 1, 1, 5, 5, 7])
    """
    ordered = in_order(window, "npt.mode")
    best = before = ordered[0]
    most = run = 1
    for value in ordered[1:]:
        run = run + 1 if value == before else 1
        if run > most:
            best, most = value, run
        before = value
    return best if before == before else before


def entropy(window: Any, /) -> Any:
    """Give the entropy of the elements of a window [bits].

    Parameters
    ----------
    window : window of a field, or what is computed from one, of any shape
        As ``x[-1:2, -1:2]``, also with elements picked by a mask.  No complex numbers.

    Returns
    -------
    float
        The sum of ``-p * log2(p)``, where p is the share that each value has among the n elements:
        from 0, where all are equal, to log2(n), where no two are.  Of the type of the elements if
        these are floats, else a float64.  NaN if any element is.

    Raises
    ------
    StencilError
        If a kernel gives it a single number, or complex numbers.

    Notes
    -----
    As ``skimage.filters.rank.entropy``; done in the way of `mode`.  Outside of kernels it takes an
    array.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil(boundary="nearest")
    ... def unlike(x):
    ...     return npt.entropy(x[0:4])
    >>> unlike(np.array([1, 1, 2, 2, 3, 4, 5], np.uint8)).round(2)
    array([1.  , 1.5 , 1.5 , 2.  , 1.5 , 0.81, 0.  ])
    """
    ordered = in_order(window, "npt.entropy")
    before, bits = ordered[0], 0.0
    count = run = 1
    for value in ordered[1:]:
        same = value == before
        bits = bits if same else bits + run * math.log2(run)
        run = run + 1 if same else 1
        count = count + 1
        before = value
    bits = bits + run * math.log2(run)
    return math.log2(count) - bits / count if before == before else before


def trimmed_mean(window: Any, cut: float, /) -> Any:
    """Give the mean of a window without its least and its greatest elements.

    Parameters
    ----------
    window : window of a field, or what is computed from one, of any shape
        As ``x[-1:2, -1:2]``, also with elements picked by a mask.  No complex numbers.
    cut : float
        The part of the elements that is left out at each end: ``int(cut * n)`` of n elements.

    Returns
    -------
    float
        Of the type of the elements if these are floats, else a float64.  NaN if any element is,
        also one that would be left out.

    Raises
    ------
    StencilError
        If a kernel gives it a single number, complex numbers, or a cut below 0 or so large that
        nothing is left.

    Notes
    -----
    As ``scipy.stats.trim_mean``; done in the way of `mode`.  Outside of kernels it takes an array.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil(boundary="nearest")
    ... def steady(x):
    ...     return npt.trimmed_mean(x[-2:3], 0.2)
    >>> steady(np.array([1.0, 2.0, 90.0, 3.0, 2.0]))
    array([1.33333333, 2.        , 2.33333333, 2.33333333, 2.33333333])
    """
    ordered = in_order(window, "npt.trimmed_mean", cut)
    ends = int(cut * len(ordered))
    total = 0.0
    for value in ordered[ends : len(ordered) - ends]:
        total = total + value
    mean = total / (len(ordered) - 2 * ends)
    last = ordered[-1]
    return mean if last == last else last


# What the compiler reads as operations.
PRIMITIVE: frozenset[Any] = frozenset({in_order, ranked})
