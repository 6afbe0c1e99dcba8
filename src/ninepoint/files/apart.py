"""Work on a thread of its own, which an interrupt ends in order.

Python's pools and their futures are not made for interrupts: one that comes while a thread is
started leaves it at work with nobody to wait for it, and one that comes while a result is
waited for may be lost.  So the main thread, which alone is interrupted, has nothing to do with
them: it waits for messages, and when it leaves, it waits until nobody works any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from queue import SimpleQueue
from typing import Generic, TypeVar

from ..undisturbed import start

_T = TypeVar("_T")


class Stopped(Exception):
    """Nobody wants the rest of the work."""


def follow(
    do: Callable[[Work[_T]], None],
    hear: Callable[[_T], None],
    halt: Callable[[], None] = lambda: None,
) -> None:
    """Do some work apart, and hear what it tells; whatever happens here, it ends before this."""
    with closing(Work(do, halt).messages()) as told:
        for message in told:
            hear(message)


class Work(Generic[_T]):
    """Something to do, which tells how far it is; `halt` ends what cannot ask whether to go on."""

    def __init__(self, do: Callable[[Work[_T]], None], halt: Callable[[], None]) -> None:
        self._do = do
        self._halt = halt
        self._messages: SimpleQueue[tuple[_T, ...]] = SimpleQueue()
        self._gate = threading.Lock()
        self._begun = self._ended = self._stopped = False
        self._error: BaseException | None = None

    def tell(self, message: _T) -> None:
        """Give a message to who waits for them; raise `Stopped` if nobody does any more."""
        self._messages.put((message,))
        self.check()

    def check(self) -> None:
        """Raise `Stopped` if nobody wants the rest."""
        if self._stopped:
            raise Stopped

    def messages(self) -> Generator[_T]:
        """Do it, and yield what it tells; who leaves early waits until it has ended."""
        try:
            start(threading.Thread(target=self._run, name="ninepoint-files", daemon=True))
            while told := self._messages.get():
                yield told[0]
        finally:
            self._end()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        with self._gate:
            if self._stopped:
                return
            self._begun = True
        try:
            self._do(self)
        except Stopped:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._ended = True
            self._messages.put(())

    def _end(self) -> None:
        with self._gate:
            self._stopped = True
        if self._begun and not self._ended:
            self._halt()
            while self._messages.get():
                pass
