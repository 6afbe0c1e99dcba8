"""Compile into a folder of this run: no test depends on what an earlier run left behind."""

from __future__ import annotations

import os
import shutil
import tempfile

CACHE = "NINEPOINT_CACHE_DIR"
_made: list[str] = []


def pytest_configure(config):
    # The workers of pytest-xdist inherit the variable, and so share the folder.
    if CACHE not in os.environ:
        _made.append(tempfile.mkdtemp(prefix="ninepoint-tests-"))
        os.environ[CACHE] = _made[0]


def pytest_unconfigure(config):
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)
