"""No kernel touches memory outside of its arrays; the tests' own tools see what is wrong."""

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emulator
import leftovers
import ninepoint as npt
import protected
import seams
import verify_kernels
from compared import only, refuses
from ninepoint import Schedule
from ninepoint.backends.llvm.native import Kind
from ninepoint.language import ir
from ninepoint.language.ir import Assign, Binary, Box, Call, DType, Read, Ref
from ninepoint.loops.nodes import Let, Name
from ninepoint.loops.reading import NotRead, read


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


def test_copies_lie_as_the_arrays_do_and_looks_outside_are_told():
    x = np.arange(24.0).reshape(4, 6)
    for array in (x, x.T, x[::-1, ::-1], x[:, ::2], np.broadcast_to(x[0], (4, 6))):
        for at_end in (False, True):
            copy = protected.between(array, at_end=at_end, read_only=True)
            np.testing.assert_array_equal(copy, array)
            assert not copy.flags.writeable
            if all(array.strides):
                assert [a > 0 for a in copy.strides] == [a > 0 for a in array.strides]

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
            refuses(AssertionError, "touched memory outside", guard, *arrays)


@pytest.mark.parametrize(("line", "words"), [
    ("x[i, 0]", "outside"), ("x[0, 5]", "out of bounds"), ("x[0][1:6]", "outside"),
    ("row(x, (1,), 6)", "outside"), ("x[0, 0, 0]", "too many indices"),
    ("np.empty((2, 3))[1, 2]", "before it was written"), ("x[0, 0] = 1.0", "read-only"),
])  # fmt: skip
def test_generated_text_that_runs_as_python_is_held_to_its_arrays(line, words):
    text = f"import numpy as np\n\ndef band(x, i):\n    {line}\n"
    kinds = [Kind(np.dtype("f8"), 2), Kind(np.dtype("i8"))]
    refuses(seams.Outside, words, seams.Interpreted(text, kinds), np.zeros((3, 5)), -1)


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


TEXT = """
struct Numbers { double a; int b[3]; };
extern "C" __global__ void __launch_bounds__(32) scaled(const int *x, int *y, Numbers n, char c) {
  const int own = blockIdx.x * 64 + threadIdx.x;
  y[own] = x[own] * int(n.a) + n.b[2] + c;
}

extern "C" __global__ void beyond(const int *x, int *y) { y[0] = x[threadIdx.x + 1]; }
extern "C" __global__ void crooked(const char *x, int *y) { y[0] = *(const int *)(x + 1); }
"""


@pytest.mark.skipif(emulator.GXX is None, reason="needs g++")
def test_values_as_arguments_and_mistakes_that_end_the_process():
    functions = emulator.functions(TEXT)
    x, y = protected.between(np.arange(128, dtype=np.int32), at_end=True), np.zeros(128, np.int32)
    numbers = np.zeros(1, np.dtype([("a", "f8"), ("b", "i4", 3)], align=True))
    numbers["a"], numbers["b"] = 2.5, (7, 8, 9)
    functions["scaled"](2, 64, [x, y, numbers[0], np.int8(-3)])
    np.testing.assert_array_equal(y, x * 2 + 9 - 3)
    with pytest.raises(AssertionError, match="scaled"):
        functions["scaled"](1, 32, [x, y, np.float64(1), np.int8(1)])
    refuses(emulator.Refused, "oops", emulator.build, ["oops"])
    for name, threads in (("beyond", 128), ("crooked", 1)):
        child = os.fork()
        if not child:
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            functions[name](1, threads, [x, y])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status != 0


T1, T2, HALF = Ref(DType.INT, "t1"), Ref(DType.INT, "t2"), ir.Const(DType.F64, "0.5")


def given(name, field, *offset):
    return Assign(name, Read(DType.INT, field, offset))


def added(name, left, right):
    return Assign(name, Binary(DType.INT, "+", Ref(DType.INT, left), Ref(DType.INT, right)))


def stage(number, field):
    inner = f"u{number}"
    made = (given(inner, field, -1, 0),), (Ref(DType.INT, inner),)
    return ir.Values((f"v{number}",), *made)


KERNEL = ir.Kernel(
    ndim=2,
    fields=(("x", np.dtype("int16")),),
    scalars=(("k", DType.INT),),
    coefficients=(("w", np.dtype("int64"), (3,)),),
    body=(given("t0", "v0", 0, 1), given("t1", "x", 0, 0), added("t2", "t0", "t1")),
    outputs=(T2,),
    stages=(stage(0, "x"),),
)


def body(assign):
    return replace(KERNEL, body=(*KERNEL.body, assign))


def value(expr):
    return body(Assign("t3", expr))


def stages(more):
    return replace(KERNEL, stages=(*KERNEL.stages, more))


RANKED = ir.Histogram(("v1",), given("u1", "x", 0, 0), 9, tuple((row, 0, 3) for row in range(3)))
WRONG_KERNELS = [
    (body(added("t3", "t2", "t4")), "t4, which is not known yet"),
    (body(added("x", "t2", "t2")), "'x' means two things"),
    (body(added("v.0", "t2", "t2")), "is no name"),
    (body(given("t3", "y", 0, 0)), "reads y, which is not made yet"),
    (value(Read(DType.F64, "x", (0, 0))), "reads x as"),
    (value(ir.Select(DType.INT, T2, T1, T1)), "chosen by"),
    (value(Binary(DType.INT, "<", T2, T1)), "t3"),
    (value(ir.Element(DType.INT, "w", (3,))), "of (3,)"),
    (value(Binary(DType.INT, "+", Ref(DType.F64, "t2"), HALF)), "takes t2 for"),
    (value(Call(DType.F32, "exp", (HALF,))), "t3"),
    (replace(KERNEL, outputs=()), "gives something"),
    (replace(KERNEL, stages=()), "v0, which is not made yet"),
    (stages(RANKED), "rank 9 of 9"),
    (replace(KERNEL, every=(2, 0)), "(2, 0)"),
    (replace(KERNEL, lengths=(2,)), "k: axis 2"),
]


def test_what_no_kernel_may_be_is_found_and_what_no_text_may_say_is_not_read():
    verify_kernels.verify(KERNEL, Box((-1, 0), (0, 1)))
    for wrong, why in WRONG_KERNELS:
        with pytest.raises(AssertionError) as caught:
            verify_kernels.verify(wrong)
        assert why in str(caught.value)
    for low, high in [((0, 0), (0, 1)), ((-1, 0), (0, 0)), ((-1, 1), (0, 1))]:
        refuses(AssertionError, "beyond", verify_kernels.verify, KERNEL, Box(low, high))
    # What reads generated text takes a name for one type, and nothing for what it may mean.
    types = [("float32", 1), ("float32", 1)]
    two_types = "t = 0\n    for j in range(2):\n        t = x[j]"
    for line in ("import os", "x.sort()", "out[0] = [1]", "del x", "out[0] = unknown", two_types):
        refuses(NotRead, "", read, f"def band(x, out):\n    {line}\n", {}, {}, types)
    text = (
        "def turned(a, b):\n    before = a\n    a, b = b, a\n    return before + b\n"
        "def band(out):\n    out[0] = turned(1, 2)\n"
    )
    a, b, before, *kept = read(text, {}, {}, [("int64", 1)]).function("turned").body
    assert before == Let(before.name, Name("int64", a.name))
    assert [one.value for one in kept[:2]] == [Name("int64", b.name), Name("int64", a.name)]
