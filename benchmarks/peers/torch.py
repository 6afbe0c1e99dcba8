"""torch, without the border, and Triton, whose kernel lies in `triton_mean`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import peers
from .cupy import fetched


def giving(call: Callable[[Any, Any], Any]) -> peers.Peer:
    """torch, from `call(torch, tensor)`."""

    def build(torch: Any, x: np.ndarray, threads: int) -> peers.Work:
        # Else convolutions are of numbers with 10 bits.
        torch.backends.cudnn.allow_tf32 = False
        return partial(call, torch, torch.from_numpy(x).cuda())

    return peers.built("torch", "torch", build, finish=fetched)


def triton_mean() -> peers.Peer:
    """Mean 3x3, in the fastest of four shapes of blocks; the nearest point past the border."""

    def build(triton: Any, x: np.ndarray, threads: int) -> peers.Work:
        import torch

        from .triton_mean import mean

        there = torch.from_numpy(x).cuda()
        out, (n, m) = torch.empty_like(there), x.shape

        def blocks(rows: int, columns: int) -> peers.Work:
            grid = triton.cdiv(m, columns), triton.cdiv(n, rows)

            def work() -> Any:
                mean[grid](there, out, n, m, BLOCK=columns, ROWS=rows)
                return out

            return work

        shapes = ((1, 1024), (4, 256), (8, 128), (16, 128))
        bench = partial(triton.testing.do_bench, warmup=5, rep=30, return_mode="median")
        return min((blocks(*one) for one in shapes), key=bench)

    return peers.built("Triton", "triton", build, interior=True, finish=fetched)
