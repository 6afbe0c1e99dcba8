"""Solvers of which each step reads what the one before it made; ours as their users write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from . import Peer
from .ours import NAME, SEPARATE

State = tuple[np.ndarray, ...]


def exact(peer: Peer) -> Peer:
    """JAX with float64, which would silently be float32."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import jax

        jax.config.update("jax_enable_x64", True)
        return peer.prepare(x, threads)

    return replace(peer, prepare=prepare)


def looped(sweep: Callable[..., None], steps: int) -> Peer:
    """Plain loops under Numba, `sweep(old, new)`, from one array to another and back."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        jitted = numba.njit(nogil=True)(sweep)

        def work() -> np.ndarray:
            old, new = x.copy(), x.copy()
            for _ in range(steps):
                jitted(old, new)
                old, new = new, old
            return old

        return work

    return Peer("Numba by hand", "numba", prepare)


def line_sweep(old, new):
    for i in range(1, len(old) - 1):
        new[i] = (old[i - 1] + old[i] + old[i + 1]) / 3


def plane_sweep(old, new):
    for i in range(1, old.shape[0] - 1):
        for j in range(1, old.shape[1] - 1):
            around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
            new[i, j] = (old[i, j] + around) / 5


def volume_sweep(old, new):
    for i in range(1, old.shape[0] - 1):
        for j in range(1, old.shape[1] - 1):
            for k in range(1, old.shape[2] - 1):
                here = old[i, j, k]
                new[i, j, k] = (
                    here
                    + (old[i - 1, j, k] - 2 * here + old[i + 1, j, k]) / 8
                    + (old[i, j - 1, k] - 2 * here + old[i, j + 1, k]) / 8
                    + (old[i, j, k - 1] - 2 * here + old[i, j, k + 1]) / 8
                )


# Maxwell's equations in two dimensions: what drives the first row changes with each step.


def _waves(x: np.ndarray) -> State:
    return x.copy(), x[::-1].copy(), x[:, ::-1].copy()


def electric_down(e, h):
    return e[0, 0] - 0.5 * (h[0, 0] - h[-1, 0])


def electric_right(e, h):
    return e[0, 0] - 0.5 * (h[0, 0] - h[0, -1])


def magnetic(h, right, down):
    return h[0, 0] - 0.7 * (right[0, 1] - right[0, 0] + down[1, 0] - down[0, 0])


def waves(steps: int) -> Peer:
    """A step as one stencil, in which the row that is driven is known by its position."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        def driven(e, h, drive):
            i, _ = npt.index()
            return drive if i == 0 else e[0, 0] - 0.5 * (h[0, 0] - h[-1, 0])

        right, down = (
            npt.stencil(boundary="keep")(electric_right),
            npt.stencil(boundary="nearest")(driven),
        )

        def step(hz, ex, ey, drive):
            r, d = right(ex, hz), down(ey, hz, drive)
            turned = hz[0, 0] - 0.7 * (r[0, 1] - r[0, 0] + d[1, 0] - d[0, 0])
            return turned, r[0, 0], d[0, 0]

        iterate = npt.stencil(boundary="keep")(step).iterate
        ex, ey, hz = _waves(x)
        out = tuple(map(np.empty_like, (hz, ex, ey)))

        def work() -> np.ndarray:
            drive = np.arange(steps, dtype=x.dtype)
            made: State = iterate(hz, ex, ey, drive, steps=steps, out=out, threads=threads)
            return made[0]

        return work

    return Peer(NAME, "ninepoint", prepare, threads=True)


def waves_call_by_call(steps: int) -> Peer:
    """Each field by a call of its own, in the place of what it was."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        kept = npt.stencil(boundary="keep")
        down, right, turn = kept(electric_down), kept(electric_right), kept(magnetic)

        def work() -> np.ndarray:
            ex, ey, hz = _waves(x)
            for step in range(steps):
                down(ey, hz, out=ey, threads=threads)
                ey[0] = step
                right(ex, hz, out=ex, threads=threads)
                turn(hz, ex, ey, out=hz, threads=threads)
            return hz

        return work

    return Peer(SEPARATE, "ninepoint", prepare, threads=True)


def waves_by_slices(steps: int) -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        def work() -> np.ndarray:
            ex, ey, hz = _waves(x)
            for step in range(steps):
                ey[0] = step
                ey[1:] -= 0.5 * np.diff(hz, axis=0)
                ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
                curl = np.diff(ex[:-1], axis=1) + np.diff(ey[:, :-1], axis=0)
                hz[:-1, :-1] -= 0.7 * curl
            return hz

        return work

    return Peer("NumPy", "numpy", prepare)


def waves_by_loops(steps: int) -> Peer:
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

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        jitted = numba.njit(nogil=True)(sweep)

        def work() -> np.ndarray:
            ex, ey, hz = _waves(x)
            for step in range(steps):
                jitted(ex, ey, hz, step)
            return hz

        return work

    return Peer("Numba by hand", "numba", prepare)


# Horizontal diffusion of weather models, with the levels last as they store them.


def _strength(x: np.ndarray) -> np.ndarray:
    return x[::-1] * 0.1


def _diffusion(stencil: Any) -> Any:
    def bend(x):
        return 4 * x[0, 0] - (x[1, 0] + x[-1, 0] + x[0, 1] + x[0, -1])

    bending = stencil(bend)

    def limited(flux, slope):
        return 0 if flux * slope > 0 else flux

    def diffusion(x, c):
        lap = bending(x)
        down = limited(lap[1, 0] - lap[0, 0], x[1, 0] - x[0, 0])
        up = limited(lap[0, 0] - lap[-1, 0], x[0, 0] - x[-1, 0])
        right = limited(lap[0, 1] - lap[0, 0], x[0, 1] - x[0, 0])
        left = limited(lap[0, 0] - lap[0, -1], x[0, 0] - x[0, -1])
        return x[0, 0] - c[0, 0] * (down - up + right - left)

    return stencil(diffusion)


def diffusion(levels_first: bool = False) -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        call = _diffusion(npt.stencil(boundary="nearest"))
        c = _strength(x)
        if levels_first:
            x, c = (np.ascontiguousarray(np.moveaxis(a, -1, 0)) for a in (x, c))
            out = np.empty_like(x)
            return lambda: call(x, c, out=out, threads=threads)
        out = np.empty_like(x)
        return lambda: call(x, c, axes=(0, 1), out=out, threads=threads)

    if levels_first:
        back = {"finish": lambda made: np.moveaxis(made, 0, -1)}
        return Peer("levels first", "ninepoint", prepare, threads=True, **back)
    return Peer(NAME, "ninepoint", prepare, threads=True)


def _by_slices(xp: Any, x: Any, c: Any) -> Any:
    """The points that have all their neighbours."""
    lap = 4 * x[1:-1, 1:-1] - (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
    rows = lap[1:, 1:-1] - lap[:-1, 1:-1]
    rows = xp.where(rows * (x[2:-1, 2:-2] - x[1:-2, 2:-2]) > 0, 0, rows)
    columns = lap[1:-1, 1:] - lap[1:-1, :-1]
    columns = xp.where(columns * (x[2:-2, 2:-1] - x[2:-2, 1:-2]) > 0, 0, columns)
    flux = rows[1:] - rows[:-1] + columns[:, 1:] - columns[:, :-1]
    return x[2:-2, 2:-2] - c[2:-2, 2:-2] * flux


def diffusion_by_slices() -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        c = _strength(x)
        return lambda: _by_slices(np, x, c)

    return Peer("NumPy", "numpy", prepare)


def diffusion_by_jax() -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        import jax

        jitted = jax.jit(lambda x, c: _by_slices(jax.numpy, x, c))
        there = jax.numpy.asarray(x), jax.numpy.asarray(_strength(x))
        return lambda: jitted(*there).block_until_ready()

    return exact(Peer("JAX", "jax", prepare, threads=True))


def diffusion_by_numba() -> Peer:
    """The slices, compiled."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        def slices(x, c):
            lap = 4 * x[1:-1, 1:-1] - (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
            rows = lap[1:, 1:-1] - lap[:-1, 1:-1]
            rows = np.where(rows * (x[2:-1, 2:-2] - x[1:-2, 2:-2]) > 0, 0.0, rows)
            columns = lap[1:-1, 1:] - lap[1:-1, :-1]
            columns = np.where(columns * (x[2:-2, 2:-1] - x[2:-2, 1:-2]) > 0, 0.0, columns)
            flux = rows[1:] - rows[:-1] + columns[:, 1:] - columns[:, :-1]
            return x[2:-2, 2:-2] - c[2:-2, 2:-2] * flux

        jitted, c = numba.njit(parallel=True)(slices), _strength(x)

        def work() -> Any:
            numba.set_num_threads(threads)
            return jitted(x, c)

        return work

    return Peer("Numba, slices", "numba", prepare, threads=True)
