"""How results of calls are compared, with each other and with steps that are done one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from weighted import each


def same(made: Any, wanted: Any) -> None:
    """Check that results, one or several, have the types, shapes and elements of others."""
    for one, other in zip(each(made), each(wanted), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


def one_by_one(stencil: Any, *state: Any, steps: int, rest: Any = (), **options: Any) -> Any:
    """Do what `iterate` promises: a call after the other, each on the results of the last."""
    for _ in range(steps):
        state = each(stencil(*state, *rest, **options))
    return state
