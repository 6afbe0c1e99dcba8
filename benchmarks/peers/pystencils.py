"""pystencils: C++ from symbolic assignments, with OpenMP for more than one thread."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import kernels
from . import Peer


def _volume(weights: np.ndarray) -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        import pystencils as ps

        given, out = ps.fields(f"given, out: {x.dtype.name}[3D]", layout="c")
        total = sum(
            float(weights[i + 1, j + 1, k + 1]) * given[i, j, k]
            for i, j, k in itertools.product((-1, 0, 1), repeat=3)
            if weights[i + 1, j + 1, k + 1]
        )
        config = ps.CreateKernelConfig(target=ps.Target.CurrentCPU, default_dtype=x.dtype.name)
        config.cpu.vectorize.enable = True
        config.cpu.vectorize.assume_inner_stride_one = True
        config.cpu.openmp.enable = threads > 1
        config.cpu.openmp.num_threads = threads
        kernel = ps.create_kernel([ps.Assignment(out[0, 0, 0], total)], config).compile()
        result = np.zeros_like(x)

        def work() -> np.ndarray:
            kernel(given=x, out=result)
            return result

        return work

    return Peer("pystencils", "pystencils", prepare, threads=True, interior=True)


def seven() -> Peer:
    return _volume(kernels.SEVEN)


def cube() -> Peer:
    return _volume(kernels.CUBE)
