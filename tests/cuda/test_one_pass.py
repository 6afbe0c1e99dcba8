"""Calls and steps in one pass on a GPU: random ones, and how a GPU is filled with their rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import emulator
from ninepoint.backends.cuda.filling import tile_for
from ninepoint.backends.cuda.source import Launch

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(emulator.GXX is None, reason="needs g++")
def test_random_calls_and_steps():
    least = {"pipelines": (112, 114, 1), "steps": (100, 104, 1)}
    asked = [str(one) for kind, (*seeds, _) in least.items() for one in (kind, *seeds)]
    paths = map(str, (TESTS / "cuda" / "standin", TESTS))
    path = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "random_passes.py", *asked],
        cwd=TESTS,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert all(int(counts[kind]) >= count for kind, (*_, count) in least.items()), counts


def strip(least, tile=(128, 480)):
    return Launch("f", (), (32, 4, 1), tile, (0, 0), (0, 0), least=least)


@pytest.mark.parametrize(
    ("points", "frames", "rows"),
    [
        # Processors would be idle: as short as is worth it.
        ((300, 480), 1, 8),
        # Each has eight warps, but no more.
        ((2048, 2048), 1, 32),
        # Rows that much is made for twice are not fewer, once no processor is idle.
        ((4096, 4096), 1, 34),
        # More than enough.
        ((16384, 16384), 1, 256),
        ((300, 480), 10_000, 256),
    ],
)
def test_rows_of_a_block(points, frames, rows):
    assert tile_for(strip(32), points, frames, 132) == (rows, 480)


def test_rows_that_need_many_before_them():
    assert tile_for(strip(64), (4096, 4096), 1, 132) == (64, 480)
    assert tile_for(strip(0), (4096, 4096), 1, 132) == (128, 480)
