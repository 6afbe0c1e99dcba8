"""Calls inside tasks of Dask keep to their thread; others, and those told otherwise, do not."""

from __future__ import annotations

import os
import threading
from typing import Any

import dask
import pytest

from ninepoint.backends.threads import thread_count

pytestmark = pytest.mark.filterwarnings("ignore:.*unclosed.*:ResourceWarning")


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NINEPOINT_THREADS", "7")


def asked(*beside: Any) -> tuple[int, int]:
    return thread_count(), thread_count(3)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_tasks_on_this_machine(scheduler: str) -> None:
    some = [dask.delayed(asked)(k) for k in range(4)]
    assert set(dask.compute(*some, scheduler=scheduler, num_workers=2)[0:]) == {(1, 3)}
    assert asked() == (7, 3)


def test_tasks_of_a_client(dask_client: Any) -> None:
    assert dask_client.submit(asked, pure=False).result() == (1, 3)
    assert dask_client.gather(dask_client.map(asked, range(3))) == [(1, 3)] * 3


def test_other_threads() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(asked()))
    thread.start()
    thread.join()
    assert found == [(7, 3)]
    assert os.environ["NINEPOINT_THREADS"] == "7"
