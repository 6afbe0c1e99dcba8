"""Steps of small arrays, whose calls are bound once, are single calls one after the other."""

from __future__ import annotations

import _thread
import signal
import threading
import time

import numpy as np
import pytest

import ninepoint as npt

RNG = np.random.default_rng(0)
kept = npt.stencil(boundary="keep")


@npt.stencil(boundary="wrap")
def pair(u, v, c, rate):
    return u[0, 0] + rate * c[0, 0] * (v[0, 1] - v[-1, 0]), v[0, 0] - rate * (u[1, 0] - u[0, -1])


@kept
def slope(e, h):
    return e[0, 0] - 0.5 * (h[0, 0] - h[-1, 0])


@kept
def field(e, h):
    s = slope(e, h)
    return s[0, 0], h[0, 0] - 0.7 * (s[1, 0] - s[0, 0])


def states(shape):
    return [*RNG.random((2, *shape))]


def one_by_one(stencil, state, *rest, steps, **options):
    for _ in range(steps):
        state = stencil(*state, *rest, **options)
    return state


@pytest.mark.parametrize(("shape", "threads"), [((9, 14), 1), ((2, 3, 7, 5), 1), ((140, 130), 2)])
@pytest.mark.parametrize("steps", [9, 60])
def test_steps_are_single_calls(shape, threads, steps):
    u, v = states(shape)
    c = RNG.random(shape)
    wanted = one_by_one(pair, (u, v), c, 0.1, steps=steps)
    before = u.copy(), v.copy(), c.copy()
    made = pair.iterate(u, v, c, 0.1, steps=steps, threads=threads)
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal((u, v, c), before)


def test_steps_of_several_calls():
    e, h = states((12, 11))
    wanted = one_by_one(field, (e, h), steps=33)
    np.testing.assert_array_equal(field.iterate(e, h, steps=33), wanted)
    # In the place of the states.
    field.iterate(e, h, steps=33, out=(e, h))
    np.testing.assert_array_equal((e, h), wanted)


def test_who_looks_sees_every_state():
    e, h = states((8, 9))
    seen = {}

    def look(step, *state):
        # Kept by who looks at it at every other time.
        seen[step] = state if step % 2 else [one.copy() for one in state]

    field.iterate(e, h, steps=97, every=12, callback=look)
    for step, state in seen.items():
        np.testing.assert_array_equal(state, one_by_one(field, (e, h), steps=step))
    assert list(seen) == [*range(12, 97, 12), 97]


def test_what_changes_with_the_step_is_asked_for_each():
    u, v = states((8, 9))
    rates = np.linspace(0, 0.2, 20)
    wanted = u, v
    for rate in rates:
        wanted = pair(*wanted, u, rate)
    np.testing.assert_array_equal(pair.iterate(u, v, u, rates, steps=20), wanted)


@pytest.fixture
def interrupts():
    """Interrupts are heard, though a shell that starts a process behind others ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.nightly
@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_is_heard_soon():
    e, h = states((20, 20))
    before = e.copy(), h.copy()
    # What is compiled for it is there.
    field.iterate(e, h, steps=20)
    began = time.monotonic()
    threading.Timer(0.2, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        field.iterate(e, h, steps=10**12)
    assert time.monotonic() - began < 10
    np.testing.assert_array_equal((e, h), before)
