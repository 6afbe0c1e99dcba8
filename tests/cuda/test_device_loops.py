"""Loops that end, breaks and reads at indices of their own on a GPU, against the CPU."""

import numpy as np

import ninepoint as npt
import on_gpu


@npt.stencil(neighborhood=((-1, 1), (-1, 1)), boundary="reflect")
def column(x):
    total, k = 0, -1
    while k < 2:
        total += x[k, 0]
        k += 1
    return total // 3


@npt.stencil(boundary="nearest")
def root(x):
    value = abs(x[0, 0]) + 1.0
    for _ in range(20):
        following = (value + (abs(x[0, 1]) + 1.0) / value) / 2
        if abs(following - value) < 1e-6:
            break
        value = following
    return value


@npt.stencil(neighborhood=((-2, 2), (-2, 2)), boundary="wrap")
def brightest(x):
    best = 0
    for i in range(-2, 3):
        for j in range(-2, 3):
            if x[i, j] % 7 == 3:
                continue
            if x[i, j] > best:
                best = x[i, j]
            if best > 220:
                break
    return best


@npt.stencil(neighborhood=((-2, 2), (-3, 3)), boundary="constant", cval=7)
def follows(x):
    row = min(max(int(x[0, 0]) % 5 - 2, -2), 2)
    return x[row, -3] + x[-row, row]


@npt.ufunc
def collatz(n):
    turns = 0
    while n > 1 and turns < 40:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        turns += 1
    return turns


@npt.stencil(boundary="mirror")
def rooted(x):
    first = root(x)
    return first[-1, 0] + first[0, 1]


CALLS = [
    (column, "int32"), (root, "float32"), (root, "float64"), (brightest, "uint8"),
    (follows, "uint8"), (follows, "float16"), (collatz, "int64"), (rooted, "float32"),
]  # fmt: skip


def test_loops_give_what_the_cpu_gives(cupy):
    shapes = [(17, 25), (2, 1), (0, 5)]
    given = [
        (call, (np.random.default_rng(0).random(shape) * 255).astype(dtype))
        for call, dtype in CALLS for shape in shapes
    ]  # fmt: skip
    with on_gpu.prepared(lambda call=call, x=x: call(cupy.asarray(x)) for call, x in given):
        for call, x in given:
            wanted, got = call(x), call(cupy.asarray(x)).get()
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted, err_msg=f"{call} {x.dtype}")
