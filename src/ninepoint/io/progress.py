"""Wait for tasks: a progress bar for a person, and a Dask cluster that is watched.

A cluster is waited for as long as there is one that can do them.  Dask itself waits without end
for futures of a scheduler that is gone, or that has lost all of its workers.  So what has finished
is asked for, not waited for, and where nothing finishes for a while the client and the scheduler
are looked at.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from ..base.undisturbed import imported

# What takes no longer [s] is done before one wonders how far it is.
SOON = 1.0

# A child that is forked has the parent's session, and cannot speak through it.
_process = os.getpid()

Advance: TypeAlias = Callable[[int], None]
Progress: TypeAlias = "bool | Callable[[int, int], None] | None"


@contextmanager
def shown(
    progress: Progress, total: int, title: str = "saving", after: float = 0.0
) -> Iterator[Advance]:
    """Give a function that is told how many more of `total` frames are done.

    With None a bar is shown to a person who waits, but only of what takes longer than `after`
    [seconds]; True shows it anywhere and at once, False never; a function is called with the
    numbers of frames done and in all.  `title` stands before them.
    """
    begun, done, bar = time.monotonic(), 0, None
    is_shown = progress is True or (progress is None and seen())

    def advance(frames: int) -> None:
        nonlocal done, bar
        done += frames
        if callable(progress):
            if frames:
                progress(done, total)
        elif bar is not None:
            bar.update(frames)
        elif is_shown and (progress or time.monotonic() - begun >= after):
            bar = bar_of(title, total, done)

    try:
        advance(0)
        yield advance
    finally:
        if bar is not None:
            bar.close()


def bar_of(title: str, total: int | None = None, done: int = 0) -> Any:
    """A bar, which is gone once it is closed."""
    with warnings.catch_warnings():
        # Without the widgets of a notebook it is a line of text.
        warnings.simplefilter("ignore")
        bars = imported("tqdm.auto")
    return bars.tqdm(desc=title, total=total, initial=done, leave=False)


def seen() -> bool:
    """Whether a person would see a bar: below the cell of a notebook, or in a terminal."""
    # Who has a notebook has imported IPython: a program that has not is not made to.
    session = getattr(sys.modules.get("IPython"), "get_ipython", None)
    # The shell of a terminal has no kernel; a child that is forked cannot speak through one.
    if os.getpid() == _process and session is not None and hasattr(session(), "kernel"):
        return True
    return sys.stderr.isatty()


# How long a cluster may be without a scheduler, or without a worker, before it is given up; set
# otherwise by `dask.config.set({"ninepoint.cluster-timeout": "10min"})`.
PATIENCE = "60s"

# Between two looks at what has finished [seconds]: short against a task, long against a look.
LOOK = 0.005

# So long nothing has to finish before the scheduler is asked how it is [seconds].
SILENCE = 2.0

_REST = (
    "the files that are there are whole, and resume=True goes on after them. "
    "Start another client, or save without one: dask.config.set(scheduler='threads')"
)


def finished(
    client: Any, schedule: Any, graphs: Iterator[tuple[Any, Sequence[Any]]]
) -> Iterator[Any]:
    """Run the tasks that are wanted of each graph, and give the key of each that is done.

    A graph is sent when half of the one before is done, and what is done is forgotten, so that
    the scheduler holds about one of them at any time.

    Raises
    ------
    ConnectionError
        If the client is closed, its scheduler is gone or has no workers, now or later.
    ImportError
        If a worker has no ninepoint: it would end as soon as it gets a task.
    Exception
        Whatever a task raises.
    """
    _check_open(client, _REST)
    _check_workers(client)
    coming = imported("distributed").as_completed(loop=client.loop)
    left, few, asked = set[Any](), 0, time.monotonic()
    try:
        while True:
            if len(left) <= few and (more := next(graphs, None)) is not None:
                try:
                    sent = schedule(*more, sync=False)
                except (RuntimeError, imported("distributed").client.ClosedClientError) as error:
                    _check_open(client, _REST)
                    words = f"the Dask client cannot be used ({error}); {_REST}"
                    raise ConnectionError(words) from error
                left.update(sent)
                coming.update(sent)
                few = len(sent) // 2
            if not left:
                return
            batch = coming.next_batch(block=False)
            if not batch:
                time.sleep(LOOK)
                if time.monotonic() - asked < min(SILENCE, patience() / 4):
                    continue
                workers_of(client, _REST)
            asked = time.monotonic()
            left.difference_update(batch)
            for future in batch:
                # A value is not asked for: its worker may be gone, and what it wrote is there.
                if future.status in ("error", "cancelled"):
                    future.result()
                yield future.key
    except CancelledError as error:
        _check_open(client, _REST)
        raise ConnectionError(
            "the Dask scheduler is gone, or its tasks were cancelled "
            f"({getattr(error, 'reason', error)}), as where a worker is lost that alone had what "
            f"they need: scattered data, the state of an iteration; {_REST}"
        ) from error
    finally:
        if client.status == "running":
            _ask(client, lambda: client._cancel(list(left)), 10)


def patience() -> float:
    """How long a cluster may be without workers [s]."""
    told = imported("dask.config").get("ninepoint.cluster-timeout", PATIENCE)
    return float(imported("dask.utils").parse_timedelta(told))


def workers_of(client: Any, rest: str) -> dict[str, int]:
    """The workers that there are, and how many threads each has; waits for one.

    Raises
    ------
    ConnectionError
        If there is none, in as long as one is waited for; `rest` says what to do then.
    """
    begun, most = time.monotonic(), patience()
    while True:
        _check_open(client, rest)
        found = described_workers(client, max(most / 2, 1))
        if found:
            return {address: one["nthreads"] for address, one in sorted(found.items())}
        waited = time.monotonic() - begun
        if waited >= most:
            wrong = "the Dask scheduler does not answer"
            if client.status != "running":
                wrong = "the Dask client cannot reach its scheduler"
            elif found is not None:
                wrong = "the Dask cluster has no workers"
            raise ConnectionError(f"{wrong}, for {waited:.0f} s now; {rest}")
        time.sleep(0.2)


def wait_for(futures: Sequence[Any], look: Callable[[], object]) -> None:
    """Wait for futures, and `look` now and then whether there is anybody who does them.

    Raises
    ------
    Exception
        Whatever a task raises, and `look`.
    """
    left = list(futures)
    while left:
        with suppress(TimeoutError):
            imported("distributed").wait(left, timeout=1.0)
        left = [one for one in left if one.status in ("pending", "lost")]
        if left:
            look()
    for one in futures:
        if one.status in ("error", "cancelled"):
            one.result()


def _check_open(client: Any, rest: str) -> None:
    """Raise `ConnectionError` if the client is closed."""
    if client.status in ("closed", "closing"):
        raise ConnectionError(f"the Dask client is {client.status}; {rest}")


def _ask(client: Any, question: Callable[[], Any], wait: float) -> Any:
    """Let the client ask something; None where it gets no answer in so many seconds.

    As where another thread closes it in this moment.
    """
    closed = imported("distributed").client.ClosedClientError
    with suppress(TimeoutError, RuntimeError, OSError, AttributeError, CancelledError, closed):
        return client.sync(question, callback_timeout=wait)
    return None


def described_workers(client: Any, wait: float = 10.0) -> dict[str, Any] | None:
    """What the scheduler says of each worker, by its address; None where it does not answer."""
    told = _ask(client, lambda: client.scheduler.identity(), wait)
    found: dict[str, Any] | None = told and told["workers"]
    return found


def _check_workers(client: Any) -> None:
    """Raise `ImportError` if a worker would end as soon as it gets a task."""

    def found() -> bool:
        """Whether there is a ninepoint; a function in a function is sent by its value."""
        from importlib.util import find_spec

        return find_spec("ninepoint") is not None

    # Where nobody answers `workers_of` will tell.
    wait = min(10.0, patience() / 2)
    told = _ask(client, lambda: client._run(found, on_error="ignore"), wait) or {}
    lacking = [address for address, there in told.items() if not there]
    if lacking:
        raise ImportError(
            f"{len(lacking)} of {len(told)} Dask workers have no ninepoint, {lacking[0]} is "
            "one: install it where they run, or add its folder to their PYTHONPATH"
        )
