"""What a test may leave behind: nothing.

`Traces` looks at the process before a test, and says after it what is there that was not: threads,
child processes, files in the folders where tests might drop them, variables, another working
directory.  `DaskTraces` does so for Dask clients and clusters, before and after a file of tests: a
client that stays takes the work of all tests after it.
"""

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

# Where nothing appears but by mistake; caches of tools have names that begin with a dot.
_FOLDERS = [str(ROOT / name) for name in (".", "tests", "docs", "examples", "src")]

# Threads that stay, by the first letters of their names: our own pool, and what libraries
# start once and keep (Dask's event loop and its helpers, tqdm's, zarr's, the time limit's).
_KEPT_THREADS = (
    "ninepoint", "Dask-Offload", "Dask-Callback", "IO loop", "Profile", "AsyncProcess", "asyncio",
    "QueueFeederThread", "pytest_timeout", "tqdm", "zarr",
)  # fmt: skip

# The variables that mean something to what is tested.
_OURS = ("NINEPOINT_", "NUMBA_")

# What libraries keep in the folder for temporary files until the process ends.
_KEPT_FILES = ("pymp-", "dask-scratch-space")

# So long may what ends by itself take to do so on a busy machine [s].
_PATIENCE = 20.0

# Clusters that stay until the process ends.
_KEPT_CLUSTERS: list[Any] = []


class Traces:
    """The process as it is before a test."""

    def __init__(self) -> None:
        self._threads, self._children = set(threading.enumerate()), _children()
        self._variables, self._folder = _variables(), os.getcwd()
        self._files = _files(self._folder)

    def left(self) -> list[str]:
        """What is there that was not; what can be ended is ended, for the sake of later tests."""
        end = time.monotonic() + _PATIENCE
        while (found := self._running()) and time.monotonic() < end:
            time.sleep(0.01)
        if os.getcwd() != self._folder:
            found.append(f"the working directory {os.getcwd()}")
            os.chdir(self._folder)
        # In silence what Dask sets for its processes.
        now, before = _variables(), self._variables
        changed = [name for name in {*now, *before} if now.get(name) != before.get(name)]
        found += [f"the variable {n}={now.get(n)}" for n in changed if n.startswith(_OURS)]
        for name in changed:
            os.environ.pop(name, None)
            os.environ.update({name: before[name]} if name in before else {})
        return found + [f"the file {path}" for path in sorted(_files(self._folder) - self._files)]

    def _running(self) -> list[str]:
        threaded = sys.modules.get("dask.threaded")
        kept = set(self._threads)
        if threaded is not None:
            # Those of the pools that Dask's threaded scheduler keeps for later calls.
            pools = [pool for of in threaded.pools.values() for pool in of.values()]
            for pool in (threaded.default_pool, *pools):
                kept |= {*getattr(pool, "_threads", ())}
        threads = [one for one in threading.enumerate() if one not in kept]
        threads = [one for one in threads if not one.name.startswith(_KEPT_THREADS)]
        children = _children() - self._children
        return [
            *(f"the thread {thread.name}" for thread in threads),
            *(f"the child process {pid}" for pid in children),
        ]


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _files(working: str) -> set[str]:
    found = set()
    for folder in {*_FOLDERS, working, tempfile.gettempdir()}:
        with contextlib.suppress(FileNotFoundError):
            found |= {os.path.join(folder, name) for name in os.listdir(folder)}
    hidden = (".", "__pycache__", *_KEPT_FILES)
    return {path for path in found if not os.path.basename(path).startswith(hidden)}


def _children() -> set[int]:
    """The child processes, ended ones among them that nobody has waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):
        # Not every system can say so cheaply, and only one has to.
        return set()
    import psutil

    # Python's own, which tidies up after processes and stays.
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    kept = tracker._resource_tracker._pid if tracker else None
    return {child.pid for child in psutil.Process().children()} - {kept}


@contextlib.contextmanager
def keep_dask(cluster: Any) -> Iterator[None]:
    """Count a cluster among what may stay."""
    _KEPT_CLUSTERS.append(cluster)
    try:
        yield
    finally:
        _KEPT_CLUSTERS.remove(cluster)


class DaskTraces:
    """Dask's clients and clusters as they are before some tests."""

    def __init__(self) -> None:
        self._before = _dask()

    def left(self) -> list[str]:
        """Those that are not closed and were not there; they are now, or at least forgotten."""
        client = sys.modules.get("distributed.client")
        if client is None:
            return []
        found, current = [], client._current_client.get()
        client._current_client.set(None)
        for one in _dask(current):
            state = str(getattr(one.status, "name", one.status))
            known = any(one is other for other in [*self._before, *_KEPT_CLUSTERS])
            if known or (one is not current and state in ("closed", "failed")):
                continue
            found.append(f"the Dask client or cluster {type(one).__name__} ({state})")
            with contextlib.suppress(Exception):
                one.close(timeout=5) if isinstance(one, client.Client) else one.close()
        client._global_clients.clear()
        return found


def _dask(current: Any = None) -> list[Any]:
    """All clients and clusters that Dask knows of, closed ones among them."""
    client = sys.modules.get("distributed.client")
    if client is None:
        return []
    from distributed.deploy.spec import SpecCluster

    # A client that failed to start is in the second only, and takes the work all the same.
    clients = {*client.Client._instances, *client._global_clients.values()}
    current = current or client._current_client.get()
    return [*clients, *({current} - {None} - clients), *SpecCluster._instances]
