"""Iterations on a Dask cluster, whose workers hold the state; what is checked is in a script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "on_workers.py"


def test_the_state_on_workers():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=500)
    assert done.stdout.split()[-1:] == ["right"], done.stderr
