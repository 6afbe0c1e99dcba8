"""Texts are parsed by several threads at once, whatever is collected as garbage meanwhile."""

from __future__ import annotations

import gc
import threading
import time

from ninepoint.language.definitions import parsed

LINE = "x{0} = (a + b * c - f({0})) if d else [i for i in range(9)]"
TEXT = "\n".join(map(LINE.format, range(60)))


class Cycle:
    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        # Another thread runs.
        time.sleep(0)


def test_threads_that_parse_at_once() -> None:
    failed: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(8):
                _ = [Cycle() for _ in range(20)]
                parsed(TEXT)
        except SystemError as error:
            failed.append(error)

    before = gc.get_threshold()
    gc.set_threshold(50)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    gc.set_threshold(*before)
    assert not failed
