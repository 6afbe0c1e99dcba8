"""JAX: the whole computation under one `jit`, from device array to device array."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from .. import kernels, peers
from .numpy import shifted


def _exactly(jax: Any, threads: int) -> None:
    # Without it, float64 would silently be float32.
    jax.config.update("jax_enable_x64", True)


_built = partial(peers.built, "JAX", "jax", begin=_exactly, threads=True)


def giving(compute: Callable[[Any], Any], **options: Any) -> peers.Peer:
    """A peer from a function of one device array."""

    def build(jax: Any, x: np.ndarray, threads: int) -> peers.Work:
        jitted, there = jax.jit(compute), jax.numpy.asarray(x)
        return lambda: jitted(there).block_until_ready()

    return _built(build, **options)


def same_text(function: Callable[..., Any], fields: Callable[[np.ndarray], Any]) -> peers.Peer:
    """A text of NumPy's, in which `np` is that of JAX."""

    def build(jax: Any, x: np.ndarray, threads: int) -> peers.Work:
        names = {**function.__globals__, "np": jax.numpy}
        jitted = jax.jit(FunctionType(function.__code__, names))
        there = [jax.numpy.asarray(part) for part in fields(x)]
        return lambda: jax.block_until_ready(jitted(*there))

    return _built(build)


def recipe() -> peers.Peer:
    def compute(x: Any) -> Any:
        short = x.astype(np.int16)
        rows = short[:, :-2] + short[:, 1:-1] + short[:, 2:]
        return ((rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]) // 9).astype(np.int8)

    return giving(compute)


def stepping(
    kernel: Callable[..., Any],
    start: Callable[[np.ndarray], kernels.State],
    steps: int,
    near: tuple[int, ...],
) -> peers.Peer:
    """All steps in a loop under one `jit`, which JAX may turn around as it likes."""
    within = kernels.inner(near)

    def step(k: Any, state: Any) -> Any:
        made = kernels.results(kernel(*(shifted(part, near) for part in state)))
        return tuple(part.at[within].set(new) for part, new in zip(state, made, strict=True))

    def build(jax: Any, x: np.ndarray, threads: int) -> peers.Work:
        state = tuple(jax.numpy.asarray(part) for part in start(x))
        looped = jax.jit(lambda given: jax.lax.fori_loop(0, steps, step, given))
        return lambda: jax.block_until_ready(looped(state))

    return _built(build)
