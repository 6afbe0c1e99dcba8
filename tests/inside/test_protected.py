"""No kernel touches memory outside of its arrays; the tests' own tools see what is wrong."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leftovers
import ninepoint as npt
import protected
import seams
from nightly import only
from ninepoint import Schedule
from ninepoint.backends.llvm.native import Kind


def peek(array, offset):
    address = array.__array_interface__["data"][0]
    return lambda: ctypes.string_at(address + offset, 1)


@pytest.mark.parametrize("shape", [(0,), (7,), (64, 64)])
def test_pages_beside_an_array_are_protected(shape):
    array = np.arange(np.prod(shape), dtype="int16").reshape(shape)
    first, last = (protected.between(array, at_end=at_end) for at_end in (False, True))
    assert protected.survives(peek(first, -1)) == signal.SIGSEGV
    assert protected.survives(peek(last, array.nbytes)) == signal.SIGSEGV
    if array.size:
        assert protected.survives(peek(first, 0)) == 0
        assert protected.survives(peek(last, array.nbytes - 1)) == 0


def test_copies_lie_as_the_arrays_do():
    x = np.arange(24.0).reshape(4, 6)
    for array in (x, x.T, x[::-1, ::-1], x[:, ::2], np.broadcast_to(x[0], (4, 6))):
        for at_end in (False, True):
            copy = protected.between(array, at_end=at_end, read_only=True)
            np.testing.assert_array_equal(copy, array)
            assert not copy.flags.writeable
            if all(array.strides):
                assert [a > 0 for a in copy.strides] == [a > 0 for a in array.strides]


def test_a_look_outside_and_a_written_input_are_told():
    def before(x, out):
        ctypes.string_at(x.__array_interface__["data"][0] - 1, 1)

    def writes(x, out):
        ctypes.memset(x.__array_interface__["data"][0], 0, 1)

    arrays = np.zeros((4, 4)), np.zeros((4, 4))
    for band in (before, writes):
        guard = protected.Guard(band, [False, True], "the text", exact=True)
        guard(*arrays)
        with protected.everything():
            guard.tried.clear()
            with pytest.raises(AssertionError, match="touched memory outside"):
                guard(*arrays)


@pytest.mark.parametrize(("line", "words"), [
    ("x[i, 0]", "outside"), ("x[0, 5]", "out of bounds"), ("x[0][1:6]", "outside"),
    ("row(x, (1,), 6)", "outside"), ("x[0, 0, 0]", "too many indices"),
    ("np.empty((2, 3))[1, 2]", "before it was written"), ("x[0, 0] = 1.0", "read-only"),
])  # fmt: skip
def test_generated_text_that_runs_as_python_is_held_to_its_arrays(line, words):
    text = f"import numpy as np\n\ndef band(x, i):\n    {line}\n"
    kinds = [Kind(np.dtype("f8"), 2), Kind(np.dtype("i8"))]
    with pytest.raises(seams.Outside, match=words):
        seams.Interpreted(text, kinds)(np.zeros((3, 5)), -1)


# Machine code, one kernel for each way of computing.
SMOOTH = np.outer([1, 2, 1], [1, 3, 1]) / 20


def derived(x):
    d = x[0, 1] - x[0, -1]
    return d[-8:9, -8:9].sum(), (d[-8:9, -1:2] * d[-8:9, -1:2]).sum()


def two_stages(x):
    v = np.sqrt(abs(x[0, 1] - x[0, -1]) + 1.0)
    return v[-2, 0] + v[2, 3] + v[0, 0]


COMPILED: dict[str, tuple[Any, str, Schedule]] = {
    "running squares": (lambda x: x[-8:9, -8:9].std(), "uint8", Schedule()),
    "running sum of locals": (derived, "int16", Schedule()),
    "one-sided": (lambda x: x[3:30, -20:-2].mean(), "uint8", Schedule()),
    "axis by axis": (lambda x: (x[-1:2, -1:2] * SMOOTH).sum(), "float32", Schedule(rows=1)),
    "several rows": (lambda x: (x[-1:2, -1:2] * SMOOTH).sum(), "float32", Schedule(rows=3)),
    "doubling": (lambda x: x[-12:13, -7:20].max(), "uint8", Schedule()),
    "long minimum in one axis": (lambda x: x[0, -31:1].min(), "int16", Schedule()),
    "sorted columns": (lambda x: np.median(x[-2:3, -2:3]), "uint8", Schedule()),
    "network": (lambda x: np.percentile(x[-1:2, -1:2], 30), "float32", Schedule()),
    "histogram": (lambda x: np.median(x[-7:8, -7:8]), "uint8", Schedule()),
    "selection": (lambda x: np.median(x[-4:5, -4:5]), "float32", Schedule()),
    "stages": (two_stages, "float32", Schedule()),
    "abreast": (lambda x: x[-1:2, -1:2].max() - x[-1:2, -1:2].min(), "uint8", Schedule(rows=4)),
    "volumes": (lambda x: x[-1:2, -2:3, -1:2].mean(), "float32", Schedule()),
    "a line": (lambda x: x[-16:17].std(), "uint8", Schedule()),
}


@pytest.mark.parametrize("name", only(1, COMPILED))
@pytest.mark.usefixtures("protected_pages")
def test_compiled_code_stays_within_its_arrays(name):
    function, dtype, schedule = COMPILED[name]
    stencil = npt.stencil(schedule=schedule)(function)
    before = protected.Guard.calls
    draw = np.random.default_rng(0)
    ndim = {"a line": 1, "volumes": 3}.get(name, 2)

    def image(*shape):
        return draw.integers(0, 2, shape).astype(dtype)

    for boundary in ("mirror", "constant", "valid"):
        for core in ((3, 4, 2)[-ndim:], (9, 70, 41)[-ndim:], (3, 41, 150)[-ndim:]):
            for stack in ((), (2,)):
                stencil(image(*stack, *core), boundary=boundary, threads=1)
    stencil(image(*(20, 90, 60)[-ndim:]), threads=2)
    assert protected.Guard.calls > before


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
        "the thread waits", f"the child process {child.pid}", "the variable NINEPOINT_NOTHING=1",
        f"the file {name}",
    ]  # fmt: skip
    assert traces.left() == []
