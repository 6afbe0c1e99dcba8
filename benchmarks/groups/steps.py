"""States that are stepped through time: a call does all the steps.

"single sweeps" is ninepoint with one step in each pass over memory.  Below are stencils of
NPBench, as users of each library would write them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import kernels
from ..kernels import State, alone
from ..peers import built, devito, jax, loops, numpy, ours, pystencils
from ..problem import Problem, Shape

GROUP = "steps"

# With seconds that are enough for a median of calls of some tenths.
_steps = partial(Problem, group=GROUP, share=1.5, dtypes=("float32",))


def _problem(
    name: str,
    kernel: Any,
    by_hand: Any,
    shape: Shape = (4096, 4096),
    start: Any = alone,
    count: int = 16,
    reach: int = 1,
    history: bool = False,
    symbolic: bool = True,
    **options: Any,
) -> Problem:
    """A kernel whose own text is given to everybody who can read it."""
    near = (reach,) * len(shape)
    others = (
        ours.stepping(kernel, start, count, name=ours.SINGLE),
        pystencils.stepping(kernel, start, count, history),
        devito.stepping(kernel, start, count, near, history),
    )
    return _steps(
        f"{name}, {count} steps",
        ours=ours.stepping(kernel, start, count),
        peers=(
            loops.stepping(by_hand, start, count, reach, history=history),
            jax.stepping(kernel, start, count, near),
            numpy.stepping(kernel, start, count, near),
            *(others if symbolic else ()),
        ),
        near=near,
        steps=count,
        shapes=(shape,),
        **options,
    )


_sweeps = partial(_problem, symbolic=False, dtypes=("float64",))


# Maxwell's equations in two dimensions: what drives the first row changes with each step.

_FIELDS = 40


def _waves(x: np.ndarray) -> State:
    return x.copy(), x[::-1].copy(), x[:, ::-1].copy()


def _in_one_stencil(npt: Any, x: np.ndarray, threads: int) -> Any:
    """A step as one stencil, in which the row that is driven is known by its position."""

    right = npt.stencil(lambda e, h: e[0, 0] - 0.5 * (h[0, 0] - h[0, -1]), boundary="keep")

    @npt.stencil(boundary="nearest")
    def down(e, h, drive):
        i, _ = npt.index()
        return drive if i == 0 else e[0, 0] - 0.5 * (h[0, 0] - h[-1, 0])

    @npt.stencil(boundary="keep")
    def step(hz, ex, ey, drive):
        r, d = right(ex, hz), down(ey, hz, drive)
        turned = hz[0, 0] - 0.7 * (r[0, 1] - r[0, 0] + d[1, 0] - d[0, 0])
        return turned, r[0, 0], d[0, 0]

    ex, ey, hz = _waves(x)
    out = tuple(map(np.empty_like, (hz, ex, ey)))
    drive = np.arange(_FIELDS, dtype=x.dtype)
    call = partial(step.iterate, hz, ex, ey, drive, steps=_FIELDS, out=out, threads=threads)
    return lambda: call()[0]


def _by_slices(numpy: Any, x: np.ndarray) -> np.ndarray:
    ex, ey, hz = _waves(x)
    for step in range(_FIELDS):
        ey[0] = step
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
        hz[:-1, :-1] -= 0.7 * (np.diff(ex[:-1], axis=1) + np.diff(ey[:, :-1], axis=0))
    return hz


def _fields_by_jax(x: Any) -> Any:
    import jax

    def step(k: Any, fields: Any) -> Any:
        ex, ey, hz = fields
        ey = ey.at[0].set(k).at[1:].add(-0.5 * (hz[1:] - hz[:-1]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)

    return jax.lax.fori_loop(0, _FIELDS, step, (x, x[::-1], x[:, ::-1]))[2]


def _by_loops(numba: Any, x: np.ndarray, threads: int) -> Any:
    @numba.njit(nogil=True)
    def sweep(ex, ey, hz, step):
        rows, columns = hz.shape
        ey[0] = step
        for i in range(1, rows):
            for j in range(columns):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in range(rows):
            for j in range(1, columns):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in range(rows - 1):
            for j in range(columns - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])

    def work() -> np.ndarray:
        ex, ey, hz = _waves(x)
        for step in range(_FIELDS):
            sweep(ex, ey, hz, step)
        return hz

    return work


STEPS: tuple[Problem, ...] = (
    _problem("heat 2-D", kernels.heat, loops.heat),
    _problem("heat 2-D", kernels.heat, loops.heat, count=100),
    _problem("heat 3-D, 7 points", kernels.seven, loops.seven, (384, 384, 384), tiny=(9, 10, 11)),
    _problem(
        "wave 2-D, order 4", kernels.wave, loops.wave, start=kernels.at_rest, reach=2, history=True
    ),
    _problem("Gray-Scott", kernels.react, loops.react, (2048, 2048), kernels.mixed),
    _sweeps("jacobi 1-D", kernels.line_mean, loops.line_mean, (32000,), count=200, tiny=(90,)),
    _sweeps("heat 3-D", kernels.seven, loops.seven, (120, 120, 120), count=40, tiny=(9, 8, 11)),
    _steps(
        "life, 16 steps",
        ours=ours.stepping(kernels.life, alone, 16, "constant", dtype="uint8"),
        peers=(
            ours.stepping(kernels.life, alone, 16, "constant", ours.SINGLE, "uint8"),
            loops.stepping(loops.life, alone, 16, ring=1),
        ),
        near=(1, 1),
        steps=16,
        dtypes=("uint8",),
        shapes=((4096, 4096),),
        greatest=1,
    ),
    _steps(
        "heat 2-D, until it stays, 64 steps",
        ours=ours.stepping(kernels.heat, alone, 64, every=8, until=1e-9),
        peers=(ours.stepping(kernels.heat, alone, 64, name="without a look"),),
        near=(1, 1),
        steps=64,
        shapes=((2048, 2048),),
    ),
    _steps(
        "fdtd 2-D, 40 steps",
        ours=ours.calling(_in_one_stencil),
        peers=(
            built(loops.NAME, "numba", _by_loops),
            jax.giving(_fields_by_jax),
            numpy.giving(_by_slices),
        ),
        near=(1, 1),
        steps=_FIELDS,
        dtypes=("float64",),
        shapes=((1000, 1200),),
        tiny=(20, 23),
    ),
)
