"""Iterations on a Dask cluster, whose workers hold the state; what is checked is in a script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "on_workers.py"
LOST = Path(__file__).parents[1] / "lost_workers.py"


def test_the_state_on_workers():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=500)
    assert done.stdout.split()[-1:] == ["right"], done.stderr


@pytest.mark.parametrize(
    "case",
    [
        "before",
        pytest.param("all_before", marks=pytest.mark.nightly),
        pytest.param("source", marks=pytest.mark.nightly),
    ],
)
def test_workers_that_are_killed(case):
    done = subprocess.run(
        [sys.executable, LOST, case], capture_output=True, text=True, timeout=400
    )
    assert done.stdout.split() == ["right", case], done.stderr
