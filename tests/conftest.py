"""Compile into a folder of this run, so that no test depends on an earlier one; golden files."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

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


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture
def golden(request):
    """Compare a text with a file.  A missing file fails, so that none is born unread."""

    def check(text, path):
        if request.config.getoption("--update-golden"):
            path.write_text(text + "\n", encoding="utf-8")
        assert path.exists(), f"no {path.name}: run with --update-golden, then read the diff"
        assert text + "\n" == path.read_text(encoding="utf-8")

    return check
