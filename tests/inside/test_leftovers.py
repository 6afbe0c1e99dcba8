"""The check that no test leaves anything behind sees what is left, and ends it."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

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
