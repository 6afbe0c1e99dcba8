"""What is compiled, as the folder of the cache tells."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """Fail where anything is compiled within the block, or is looked up among what was."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NINEPOINT_CACHE_DIR", folder)
        yield
        assert os.listdir(folder) == []
