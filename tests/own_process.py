"""Scripts and notebooks' cells that run in processes of their own, and work on several threads."""

from __future__ import annotations

import json
import os
import pickle
import queue
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# What a script may begin with to fork: whether the child says that all is right.
FORKS = """
    import os, sys, time

    def child_is(right):
        child = os.fork()
        if not child:
            os._exit(0 if right() else 1)
        end = time.monotonic() + 60
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > end:
                os.kill(child, 9)
                os.waitpid(child, 0)
                print("a child hangs", file=sys.stderr)
                os._exit(1)
            time.sleep(0.01)
        return ended == (child, 0)
"""


def start(folder: Path, *scripts: str, **variables: str) -> subprocess.Popen[str]:
    """Begin a process that warns of nothing, whose cache is `folder`/cache."""
    # At once: a process that has begun before may just be reading it.
    (folder / "new.py").write_text("".join(map(textwrap.dedent, scripts)))
    (folder / "new.py").replace(folder / "script.py")
    # What is verified is compiled in each process.
    others = {name: value for name, value in os.environ.items() if name != "NINEPOINT_VERIFY"}
    return subprocess.Popen(
        [sys.executable, "-W", "error", folder / "script.py"],
        env={**others, "NINEPOINT_CACHE_DIR": str(folder / "cache"), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str], given: str | None = None) -> str:
    """What it prints."""
    out, err = process.communicate(given, timeout=800)
    assert process.returncode == 0, out + err
    return out.strip()


def printed(
    *words: object, given: str | None = None, folder: Path | None = None, **variables: str
) -> str:
    """What Python prints that is started with these words, with the tests' own cache."""
    process = subprocess.Popen(
        [sys.executable, *map(str, words)], env={**os.environ, **variables},
        cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    return output(process, given)


def at_once(work: Callable[[int], Any], count: int) -> list[Any]:
    """Do `work(k)` on so many threads; what it returns, in any order."""
    found: list[Any] = []
    threads = [threading.Thread(target=lambda k=k: found.append(work(k))) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# A new process: the shell would take over the hooks of this one.
_SESSION = """
import contextlib, io, json, sys
from traitlets.config import Config
from IPython.core.interactiveshell import InteractiveShell

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
printed = []
for name, cell, fails in json.load(sys.stdin):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        result = shell.run_cell(cell, store_history=True)
    assert result.success != fails, f"{name}\\n{shown.getvalue()}"
    printed.append(shown.getvalue())
json.dump(printed, sys.stdout)
"""


def ran(script: str, given: Any, folder: Path, **more: str) -> Any:
    """What a script, which is given something on its standard input, prints last."""
    folder.mkdir(exist_ok=True)
    more |= {"IPYTHONDIR": str(folder), "MPLBACKEND": "agg"}
    said = printed("-c", script, given=json.dumps(given), folder=folder, **more)
    return json.loads(said.splitlines()[-1])


def session(cells: Iterable[tuple[str, str, bool]], folder: Path) -> list[str]:
    """What each cell prints; a cell is its name, its text, and whether it fails."""
    found: list[str] = ran(_SESSION, list(cells), folder)
    return found


class Comm:
    """The communicator as one of the threads has it."""

    def __init__(self, rank: int, size: int, post: Any, told: dict, turn: Any) -> None:
        self._rank, self._size, self._post, self._told, self._turn = rank, size, post, told, turn

    def Get_rank(self) -> int:
        return self._rank

    def Get_size(self) -> int:
        return self._size

    def allgather(self, value: Any) -> list[Any]:
        self._told[self._rank] = value
        self._turn.wait()
        told = [self._told[rank] for rank in range(self._size)]
        self._turn.wait()
        return told

    def _box(self, sender: int, receiver: int, tag: int) -> queue.Queue:
        # Two threads may ask for a new one at once; a defaultdict would make two.
        return self._post.setdefault((sender, receiver, tag), queue.Queue())

    def isend(self, message: Any, other: int, tag: int) -> Request:
        self._box(self._rank, other, tag).put(pickle.dumps(message))
        return Request()

    def recv(self, room: None, other: int, tag: int) -> Any:
        return pickle.loads(self._box(other, self._rank, tag).get(timeout=200))


class Request:
    """What is on its way."""

    def wait(self) -> None:
        """Wait until it has left."""


def on_threads(size: int, work: Callable[[Comm], Any]) -> list[Any]:
    """What some work gives in each of so many threads."""
    post: dict = {}
    turn = threading.Barrier(size)
    told: dict = {}

    def one(rank: int) -> Any:
        try:
            return work(Comm(rank, size, post, told, turn))
        except Exception:
            turn.abort()
            raise

    with ThreadPoolExecutor(size) as threads:
        futures = [threads.submit(one, rank) for rank in range(size)]
    errors = [error for error in (future.exception() for future in futures) if error]
    for error in errors:
        # Others only hear that one has ended.
        if not isinstance(error, threading.BrokenBarrierError | queue.Empty):
            raise error
    return [future.result() for future in futures]
