"""ninepoint itself, in the form of a peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import Peer

NAME = "ninepoint"


def ours(
    kernel: Callable[[np.dtype], Callable[..., Any]],
    boundary: str,
    name: str = NAME,
    interior: bool = False,
) -> Peer:
    """The stencil of `kernel(dtype)` with a border rule, writing into an array that is there."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        stencil = npt.stencil(boundary=boundary)(kernel(x.dtype))
        out = stencil(x, threads=threads)
        return lambda: stencil(x, out=out, threads=threads)

    return Peer(name, "ninepoint", prepare, threads=True, interior=interior)
