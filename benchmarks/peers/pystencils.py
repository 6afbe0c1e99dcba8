"""pystencils: C++ from symbolic assignments, with OpenMP for more than one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import peers
from ..kernels import State, results


def _compiled(ps: Any, assignments: list[Any], dtype: np.dtype, threads: int) -> Any:
    config = ps.CreateKernelConfig(target=ps.Target.CurrentCPU, default_dtype=dtype.name)
    config.cpu.vectorize.enable = True
    config.cpu.vectorize.assume_inner_stride_one = True
    config.cpu.openmp.enable = threads > 1
    config.cpu.openmp.num_threads = threads
    return ps.create_kernel(assignments, config).compile()


def stepping(
    kernel: Callable[..., Any],
    start: Callable[[np.ndarray], State],
    steps: int,
    history: bool = False,
) -> peers.Peer:
    """The kernel's own text on fields, and a loop over time in Python that swaps the buffers.

    With `history` the second state is what the first was one step before: the new one is
    written over it.  A call goes on from where the last one ended.
    """

    def build(ps: Any, x: np.ndarray, threads: int) -> peers.Work:
        state = [part.copy() for part in start(x)]
        other = state[::-1] if history else [part.copy() for part in state]
        names = [f"given_{k}" for k in range(len(state))]
        spare = names[::-1] if history else [f"out_{k}" for k in range(len(state))]
        fields = {
            name: ps.fields(f"{name}: {x.dtype.name}[{x.ndim}D]", layout="c")
            for name in dict.fromkeys(names + spare)
        }
        here = (0,) * x.ndim
        made = results(kernel(*(fields[name] for name in names)))
        assignments = [
            ps.Assignment(fields[name][here], value)
            for name, value in zip(spare[:1] if history else spare, made, strict=False)
        ]
        compiled = _compiled(ps, assignments, x.dtype, threads)
        buffers = [state, other]

        def work() -> list[np.ndarray]:
            for _ in range(steps):
                now, then = buffers
                arrays = dict(zip(names, now, strict=True)) | dict(zip(spare, then, strict=True))
                compiled(**arrays)
                buffers.reverse()
            return buffers[0]

        return work

    return peers.built("pystencils", "pystencils", build, threads=True)
