"""Scripts that run in processes of their own, and work on several threads."""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
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
