"""JAX: the whole computation under one `jit`, from device array to device array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import kernels, stages
from ..steps import State, alone, inner, results
from . import Peer, Tolerance
from .numpy import shifted


def _jitted(
    compute: Callable[[Any, Any, np.dtype], Any],
    near: tuple[int, ...] = (),
    **options: Any,
) -> Peer:
    """A peer from `compute(jnp, neighbours or array, dtype)`.

    With `near` it gets the neighbours of an array padded as "reflect", else the array.
    """

    def prepare(x: np.ndarray, threads: int) -> Any:
        import jax

        # Without it, float64 would silently be float32.
        jax.config.update("jax_enable_x64", True)
        jnp = jax.numpy

        def whole(array: Any) -> Any:
            if near:
                padded = jnp.pad(array, [(n, n) for n in near], mode="symmetric")
                array = shifted(padded, near)
            return compute(jnp, array, x.dtype)

        jitted, there = jax.jit(whole), jnp.asarray(x)
        return lambda: jitted(there).block_until_ready()

    return Peer("JAX", "jax", prepare, threads=True, **options)


def _wide(jnp: Any, view: Any) -> Any:
    return view.astype(jnp.int32) if view.dtype.kind in "iu" else view


def recipe() -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        wide = x.astype(jnp.int16)
        rows = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
        total = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]
        return (total // 9).astype(jnp.int8)

    return _jitted(compute)


def nine() -> Peer:
    return _jitted(lambda jnp, x, dtype: sum(shifted(x, (1, 1)).values()) / 9)


def nine_floor() -> Peer:
    return _jitted(lambda jnp, x, dtype: sum(shifted(x, (1, 1)).values()) // 9)


def _windows(jnp: Any, x: Any, size: int, start: Any, join: Any) -> Any:
    import jax

    near = size // 2
    padded = jnp.pad(x, near, mode="symmetric")
    rows = jax.lax.reduce_window(padded, start, join, (size, 1), (1, 1), "valid")
    return jax.lax.reduce_window(rows, start, join, (1, size), (1, 1), "valid")


def mean(size: int) -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        import jax

        wide = _wide(jnp, x)
        total = _windows(jnp, wide, size, wide.dtype.type(0), jax.lax.add)
        count = size * size
        if dtype.kind == "u":
            return ((total + count // 2) // count).astype(dtype)
        return total / count

    return _jitted(compute)


def least(size: int) -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        import jax

        start = np.inf if dtype.kind == "f" else np.iinfo(dtype).max
        return _windows(jnp, x, size, dtype.type(start), jax.lax.min)

    return _jitted(compute)


def greatest(size: int) -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        import jax

        start = -np.inf if dtype.kind == "f" else 0
        return _windows(jnp, x, size, dtype.type(start), jax.lax.max)

    return _jitted(compute)


def gaussian() -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        weights = kernels.bell().astype(np.float64 if dtype == np.float64 else np.float32)
        wide = jnp.pad(x, 2, mode="symmetric").astype(weights.dtype)
        height, width = x.shape
        rows = sum(weights[k] * wide[k : k + height] for k in range(5))
        total = sum(weights[k] * rows[:, k : k + width] for k in range(5))
        return jnp.rint(total).astype(dtype) if dtype.kind == "u" else total

    return _jitted(
        compute,
        tolerance=Tolerance(integers=2),
        why="weights in floats, ours of 8 bits for uint8",
    )


def sobel() -> Peer:
    def compute(jnp: Any, v: Any, dtype: np.dtype) -> Any:
        w = {offset: _wide(jnp, view) for offset, view in v.items()}
        return (w[-1, 1] - w[-1, -1]) + 2 * (w[0, 1] - w[0, -1]) + (w[1, 1] - w[1, -1])

    return _jitted(compute, (1, 1))


def laplace() -> Peer:
    def compute(jnp: Any, v: Any, dtype: np.dtype) -> Any:
        w = {offset: _wide(jnp, view) for offset, view in v.items()}
        return w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0]

    return _jitted(compute, (1, 1))


def local_std(size: int) -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        import jax

        wide = x.astype(dtype if dtype.kind == "f" else np.float64)
        zero = wide.dtype.type(0)
        first = _windows(jnp, wide, size, zero, jax.lax.add) / size**2
        second = _windows(jnp, wide * wide, size, zero, jax.lax.add) / size**2
        return jnp.sqrt(jnp.maximum(second - first * first, 0))

    return _jitted(
        compute,
        tolerance=Tolerance(float32=1e-3, float64=1e-7),
        why="the difference of two large numbers, which ours must not be",
    )


def bilateral() -> Peer:
    def compute(jnp: Any, v: Any, dtype: np.dtype) -> Any:
        centre = v[0, 0]
        total, weights = jnp.zeros_like(centre), jnp.zeros_like(centre)
        for (i, j), view in v.items():
            step = view - centre
            weight = jnp.exp(-(i * i + j * j) / 8 - step * step * 12.5)
            total += weight * view
            weights += weight
        return total / weights

    return _jitted(lambda jnp, x, dtype: compute(jnp, shifted(x, (2, 2)), dtype))


def branches() -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        w = {offset: _wide(jnp, view) for offset, view in shifted(x, (1, 1)).items()}
        across = jnp.abs(w[0, 1] - w[0, -1])
        down = jnp.abs(w[1, 0] - w[-1, 0])
        rest = jnp.where(down > 2 * across, w[0, -1] + w[0, 1], 2 * w[0, 0])
        value = jnp.where(across > 2 * down, w[-1, 0] + w[1, 0], rest)
        return value.astype(jnp.uint16) if dtype == np.uint8 else value

    return _jitted(compute)


def seven() -> Peer:
    return _jitted(lambda jnp, x, dtype: _seven(shifted(x, (1, 1, 1))))


def _seven(v: Any) -> Any:
    return v[0, 0, 0] * 0.4 + 0.1 * (
        v[-1, 0, 0] + v[1, 0, 0] + v[0, -1, 0] + v[0, 1, 0] + v[0, 0, -1] + v[0, 0, 1]
    )


def cube() -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        weights = kernels.CUBE.astype(dtype)
        views = shifted(x, (1, 1, 1)).items()
        return sum(weights[i + 1, j + 1, k + 1] * view for (i, j, k), view in views)

    return _jitted(compute)


def signal() -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        # As shifted sums: jnp.convolve is several times slower on a CPU.
        taps = kernels.TAPS.astype(dtype)
        length = x.shape[0] - 24
        return sum(taps[k] * x[k : k + length] for k in range(25))

    return _jitted(compute)


def stepping(
    kernel: Callable[..., Any],
    start: Callable[[np.ndarray], State],
    steps: int,
    near: tuple[int, ...],
) -> Peer:
    """All steps in a loop under one `jit`, which JAX may turn around as it likes."""
    within = inner(near)

    def step(k: Any, state: Any) -> Any:
        made = results(kernel(*(shifted(part, near) for part in state)))
        return tuple(part.at[within].set(new) for part, new in zip(state, made, strict=True))

    return _looped(step, start, steps)


def _looped(
    step: Callable[[Any, Any], Any], start: Callable[[np.ndarray], State], steps: int
) -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        import jax

        state = tuple(jax.numpy.asarray(part) for part in start(x))
        looped = jax.jit(lambda given: jax.lax.fori_loop(0, steps, step, given))
        return lambda: jax.block_until_ready(looped(state))

    return Peer("JAX", "jax", prepare, threads=True)


def life(steps: int) -> Peer:
    def step(k: Any, state: Any) -> Any:
        import jax

        (alive,) = state
        padded = jax.numpy.pad(alive, 1)
        rows = padded[:-2] + padded[1:-1] + padded[2:]
        count = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - alive
        lives = (count == 3) | ((count == 2) & (alive == 1))
        return (lives.astype(alive.dtype),)

    return _looped(step, alone, steps)


def _weighted(padded: Any, weights: np.ndarray) -> Any:
    views = shifted(padded, (weights.shape[0] // 2, weights.shape[1] // 2)).values()
    return sum(w * view for w, view in zip(weights.flat, views, strict=True) if w)


def _blurred(jnp: Any, x: Any) -> Any:
    bell = kernels.bell().astype(np.float32)
    padded = jnp.pad(x, 2, mode="symmetric")
    return _weighted(_weighted(padded, bell[:, None]), bell[None])


def harris() -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        import jax

        # Fused, the gradients are computed anew for each window: five times slower (Zen 4).
        whole = jax.lax.optimization_barrier

        def stage(source: Any, weights: np.ndarray) -> Any:
            return whole(_weighted(whole(jnp.pad(source, 1, mode="symmetric")), weights))

        box = np.ones((3, 3), np.float32)
        p, q = stage(x, stages.DOWN), stage(x, stages.ACROSS)
        a, b, c = (stage(product, box) for product in (p * p, p * q, q * q))
        return a * c - b * b - 0.04 * (a + c) * (a + c)

    return _jitted(compute)


def unsharp() -> Peer:
    return _jitted(lambda jnp, x, dtype: x + stages.AMOUNT * (x - _blurred(jnp, x)))


def blurs() -> Peer:
    def compute(jnp: Any, x: Any, dtype: np.dtype) -> Any:
        for _ in range(4):
            x = _blurred(jnp, x)
        return x

    return _jitted(compute)
