"""Steps on Dask arrays are done by kernels that are there: what is left over needs no other."""

from __future__ import annotations

import os

import dask.array as da
import numpy as np

import ninepoint as npt


def test_steps_that_are_left_over_compile_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))

    @npt.stencil(boundary="wrap", schedule=npt.Schedule(steps=4))
    def drift(u):
        return u[0, 0] + 0.1 * (u[-1, 0] - 2 * u[0, 0] + u[0, 1] + 0.7 * u[1, -1])

    def kept():
        return {file for _, _, files in os.walk(tmp_path) for file in files}

    u = np.random.default_rng(0).random((40, 60))
    x = da.from_array(u, chunks=(20, 30))
    wanted = [u]
    for _ in range(63):
        wanted.append(drift(wanted[-1]))
    drift.iterate(x, steps=61).compute(scheduler="sync")
    known = kept()
    assert known
    seen: list[int] = []
    for steps, every in [(63, None), (62, 30)]:
        made = drift.iterate(
            x, steps=steps, every=every, callback=lambda step, _: seen.append(step)
        )
        np.testing.assert_array_equal(made.compute(scheduler="sync"), wanted[steps])
    assert kept() == known
    assert seen == [63, 30, 60, 62]


def test_short_floats_are_rounded_between_steps_that_share_a_stage():
    @npt.stencil(boundary="fill")
    def plain(c):
        return c[0]

    @npt.stencil(boundary="mirror", dtype="float16")
    def step(u, c):
        s = plain(c)
        return u[0] * 0.3 + u[1] * 0.7 + s[0]

    random = np.random.default_rng(0)
    u, c = (random.random(14) * 50).astype("float16"), random.random(14).astype("float32")
    lazy = step.iterate(da.from_array(u, chunks=14), da.from_array(c, chunks=14), steps=2)
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), step.iterate(u, c, steps=2))
