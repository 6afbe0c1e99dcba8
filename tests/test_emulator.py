"""The emulator of CUDA: it computes what a GPU does, and tells what a GPU would not tell."""

from __future__ import annotations

import faulthandler
import os

import numpy as np
import pytest

import emulator

pytestmark = pytest.mark.skipif(emulator.GXX is None, reason="needs g++")

TEXT = """
template <bool waits> __device__ void reversed(const int *x, int *y) {
  __shared__ int tile[64];
  tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  if (waits) __syncthreads();
  y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void right(const int *x, int *y) { reversed<true>(x, y); }
extern "C" __global__ void wrong(const int *x, int *y) { reversed<false>(x, y); }

struct Numbers { double a; int b[3]; };
extern "C" __global__ void __launch_bounds__(32) lanes(const int *x, int *y, Numbers n, char c) {
  const int own = x[threadIdx.x];
  const int sum = own + __shfl_up_sync(~0u, own, 1) + __shfl_down_sync(~0u, own, 2);
  y[threadIdx.x] = sum * int(n.a) + n.b[2] + c + __any_sync(~0u, own == 31);
}

extern "C" __global__ void beyond(const int *x, int *y) { y[0] = x[threadIdx.x + 1]; }
extern "C" __global__ void crooked(const char *x, int *y) { y[0] = *(const int *)(x + 1); }
extern "C" __global__ void early(const int *x, int *y) { if (threadIdx.x) __syncthreads(); }
"""


@pytest.fixture(scope="module")
def functions():
    return emulator.functions(TEXT)


@pytest.fixture
def given():
    return emulator.guarded(np.arange(128, dtype=np.int32)), np.zeros(128, np.int32)


def test_barriers_are_kept_in_any_order_of_threads(functions, given):
    x, y = given
    wanted = x.reshape(2, 64)[:, ::-1].ravel()
    for number in (0, 1, 7):
        emulator.order(number)
        functions["right"](2, 64, [x, y])
        np.testing.assert_array_equal(y, wanted)
        functions["wrong"](2, 64, [x, y])
        assert (y != wanted).any(), "a missing barrier shows in every order"
    emulator.order(0)


def test_lanes_of_a_warp_and_values_as_arguments(functions, given):
    x, y = given[0], given[1]
    numbers = np.zeros(1, np.dtype([("a", "f8"), ("b", "i4", 3)], align=True))
    numbers["a"], numbers["b"] = 2.5, (7, 8, 9)
    functions["lanes"](1, 32, [x, y, numbers[0], np.int8(-3)])
    up = np.concatenate([[0], np.arange(31)])
    down = np.concatenate([np.arange(2, 32), [30, 31]])
    np.testing.assert_array_equal(y[:32], (np.arange(32) + up + down) * 2 + 9 - 3 + 1)


def test_texts_are_built_together_and_once():
    texts = [TEXT.replace("int(n.a)", f"{k}") for k in (1, 2)]
    emulator.build([*texts, emulator.Text(texts[0], ("UNUSED=16",))])
    one, other = (emulator.functions(text)["lanes"] for text in texts)
    assert one.library is other.library
    assert emulator.functions(texts[0])["lanes"].library is one.library
    with pytest.raises(emulator.Refused, match="oops"):
        emulator.build(["oops"])


def test_arguments_of_other_sizes_are_refused(functions, given):
    with pytest.raises(AssertionError, match="lanes"):
        functions["lanes"](1, 32, [*given, np.float64(1), np.int8(1)])


@pytest.mark.parametrize(("name", "threads"), [("beyond", 128), ("crooked", 1), ("early", 32)])
def test_mistakes_end_the_process(functions, given, name, threads):
    child = os.fork()
    if not child:
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        functions[name](1, threads, given)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status != 0
