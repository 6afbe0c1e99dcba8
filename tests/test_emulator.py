"""The emulator of CUDA: it computes what a GPU does, and tells what a GPU would not tell."""

import faulthandler
import os

import numpy as np
import pytest

import emulator
import protected

pytestmark = pytest.mark.skipif(emulator.GXX is None, reason="needs g++")

TEXT = """
struct Numbers { double a; int b[3]; };
extern "C" __global__ void __launch_bounds__(32) scaled(const int *x, int *y, Numbers n, char c) {
  const int own = blockIdx.x * 64 + threadIdx.x;
  y[own] = x[own] * int(n.a) + n.b[2] + c;
}

extern "C" __global__ void beyond(const int *x, int *y) { y[0] = x[threadIdx.x + 1]; }
extern "C" __global__ void crooked(const char *x, int *y) { y[0] = *(const int *)(x + 1); }
"""


def test_values_as_arguments_and_mistakes_that_end_the_process():
    functions = emulator.functions(TEXT)
    x, y = protected.between(np.arange(128, dtype=np.int32), at_end=True), np.zeros(128, np.int32)
    numbers = np.zeros(1, np.dtype([("a", "f8"), ("b", "i4", 3)], align=True))
    numbers["a"], numbers["b"] = 2.5, (7, 8, 9)
    functions["scaled"](2, 64, [x, y, numbers[0], np.int8(-3)])
    np.testing.assert_array_equal(y, x * 2 + 9 - 3)
    with pytest.raises(AssertionError, match="scaled"):
        functions["scaled"](1, 32, [x, y, np.float64(1), np.int8(1)])
    with pytest.raises(emulator.Refused, match="oops"):
        emulator.build(["oops"])
    for name, threads in (("beyond", 128), ("crooked", 1)):
        child = os.fork()
        if not child:
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            functions[name](1, threads, [x, y])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status != 0
