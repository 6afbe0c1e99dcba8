"""The check that no test leaves anything behind sees what is left, and ends it."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import leftovers


def test_what_is_left_is_named_and_ended(monkeypatch):
    monkeypatch.setattr(leftovers, "_PATIENCE", 0.1)
    traces = leftovers.Traces()
    assert traces.left() == []
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="waits")
    thread.start()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    handle, name = tempfile.mkstemp()
    os.environ["NINEPOINT_NOTHING"] = "1"
    try:
        found = traces.left()
    finally:
        end.set()
        thread.join()
        child.communicate(b"\n")
        os.close(handle)
        Path(name).unlink()
    assert found == [
        "the thread waits",
        f"the child process {child.pid}",
        "the variable NINEPOINT_NOTHING=1",
        f"the file {name}",
    ]
    assert traces.left() == []


CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
import dask.array, distributed, leftovers

class Busy(distributed.Worker):
    async def start_unsafe(self):
        raise TimeoutError("busy")

traces = leftovers.DaskTraces()
try:
    distributed.Client(n_workers=1, processes=False, dashboard_address=":0", worker_class=Busy)
except TimeoutError as error:
    failed = error
assert "the Dask client or cluster Client (connecting)" in traces.left()
print(int(dask.array.ones(3, dtype=int).sum().compute()))
"""


def test_a_client_that_failed_to_start_takes_no_work():
    """It stays the client of the process, and what is computed later waits for it without end."""
    pytest.importorskip("distributed")
    command = [sys.executable, "-c", CLIENT, str(Path(__file__).parents[1])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "3\n", done.stderr
