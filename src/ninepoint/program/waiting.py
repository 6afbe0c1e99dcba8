"""What is recorded and wanted, but not done yet: it is done before its arrays are written over.

All that writes into an array of the user's asks `before_writing` first, if anything is `waiting`.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any

import numpy as np

from ..arrays.accepted import is_cupy, is_device, listed

# The values that somebody holds, by what is told when one is done.
waiting: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def before_writing(out: Any) -> None:
    """Compute the values that wait for an array whose memory `out` may share, in one pass."""
    targets = listed(out)
    found = [
        value
        for value in [*waiting.values()]
        if any(_overlap(target, source) for source in value._sources() for target in targets)
    ]
    if not found:
        return
    try:
        found[0]._together(found)
    except (TypeError, ValueError):
        # The mistake in one of them is said where it is computed, not to who writes.
        for value in found:
            with suppress(TypeError, ValueError):
                value._together([value])


def _overlap(one: Any, other: Any) -> bool:
    """Whether two arrays may share memory, judged by their bounds."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.may_share_memory(one, other)
    if is_cupy(one) and is_cupy(other):
        # Imported here: CuPy is optional, and the caller has it.
        from ..arrays import cuda

        return not cuda.are_apart([one], [other])
    # What other libraries have on a GPU may be any memory there.
    return is_device(one) and is_device(other)
