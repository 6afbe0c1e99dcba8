"""A communicator whose processes are threads, with what `comm=` asks of one of mpi4py."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np


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

    def Isend(self, message: np.ndarray, other: int, tag: int) -> Request:
        self._box(self._rank, other, tag).put(message.copy())
        return Request(lambda: None)

    def Irecv(self, room: np.ndarray, other: int, tag: int) -> Request:
        box = self._box(other, self._rank, tag)
        return Request(lambda: room.__setitem__(slice(None), box.get(timeout=200)))


class Request:
    """What is on its way."""

    def __init__(self, end: Callable[[], Any]) -> None:
        self._end = end

    def Wait(self) -> None:
        self._end()


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
