"""Frames: the border by machine code, against the same by NumPy's assignments."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import agreement
import ninepoint as npt
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Boundary
from ninepoint.arrays.frames import Frame
from ninepoint.arrays.layout import layout
from ninepoint.arrays.moves import UNITS, lifted, listed, mover
from ninepoint.arrays.prepared import PATIENCE

# Compiled code is tried between protected pages first.
pytestmark = pytest.mark.usefixtures("protected_pages")

BATCH = 10


@pytest.mark.parametrize("size", sorted(UNITS))
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_elements_go_where_the_lists_say(size: int, ndim: int) -> None:
    rng = np.random.default_rng(size * ndim)
    for _ in range(20):
        shape = [int(n) for n in rng.integers(1, 9, ndim)]
        wide = [int(n) for n in rng.integers(1, 30, ndim)]
        source = rng.integers(0, 200, (2, *shape)).astype(UNITS[size])
        target = np.zeros((2, *wide), UNITS[size])
        axes = []
        for n, m in zip(shape, wide, strict=True):
            count = int(rng.integers(0, m + 1))
            start = int(rng.integers(0, n))
            # Runs of neighbours, as borders have them, and places in any order.
            near = (start + np.arange(count)) % n
            axes.append((near, np.sort(rng.permutation(m)[:count])))
        wanted = target.copy()
        wanted[np.ix_([0, 1], *[to for _, to in axes])] = source[
            np.ix_([0, 1], *[at for at, _ in axes])
        ]
        index = lifted(ndim, True)
        mover(size)(source[index], listed(axes), target[index])
        np.testing.assert_array_equal(target, wanted)


def framed(drawn: agreement.Drawn, whole_bytes: int) -> None:
    """Compute twice with the same steps, the second time on other numbers."""
    stencil = drawn.stencil
    fields = [on_numpy.as_field(drawn.arrays[name]) for name in stencil.fields]
    defaults = dict(stencil.defaults)
    others = {n: (drawn.values | {}).get(n, defaults.get(n)) for n in stencil.scalars}
    dtypes = [on_numpy.native(field.dtype) for field in fields]
    compiled, _, _ = stencil.definition.compiled(dtypes, others, False)
    program = agreement.Plain(compiled.bind(others))
    ndim = compiled.ndim
    fields = [np.ascontiguousarray(f, d) for f, d in zip(fields, dtypes, strict=True)]
    shape = np.broadcast_shapes(*(field.shape for field in fields))
    stack = int(np.prod(shape[:-ndim])) if len(shape) > ndim else None
    joined = shape[-ndim:] if stack is None else (stack, *shape[-ndim:])
    fields = [np.broadcast_to(f, shape).reshape(joined).copy() for f in fields]
    border = Boundary.of(drawn.boundary).on(ndim)
    plan = layout(shape[-ndim:], compiled.reaches, border, 8, program.seams, whole_bytes)

    def entry(*arrays: Any) -> None:
        program.run(list(arrays[: len(fields)]), list(arrays[len(fields) :]))

    frame = Frame(
        entry,
        plan,
        program.field_dtypes,
        program.out_dtypes,
        (0,) * len(fields),
        stack,
        program.warm,
    )
    if plan.has_keep or not plan.points or stack == 0 or not frame.fits:
        return
    run = frame.runner()
    for data in (fields, [np.flip(field).copy() for field in fields]):
        result = on_numpy.apply(program, data, border=border, threads=1, whole_bytes=10**9)
        wanted = result if isinstance(result, tuple) else (result,)
        got = [np.ones_like(array) for array in wanted]
        run(data, got, ())
        # What is filled may be anything before.
        inside = [(..., *output.window.index(output.extent.start)[1:]) for output in plan.outputs]
        agreement.compare_exactly(
            tuple(array[at] for array, at in zip(got, inside, strict=True)),
            tuple(array[at] for array, at in zip(wanted, inside, strict=True)),
        )


@pytest.mark.parametrize("first", range(300_000, 300_300, BATCH))
def test_frames_of_random_kernels(first: int) -> None:
    for seed in range(first, first + BATCH):
        drawn = agreement.draw(seed)
        framed(drawn, 0)
        framed(drawn, 10**9)


@npt.stencil(boundary="reflect")
def mean(x):
    return (x[-1, -1] + x[-1, 1] + x[0, 0] + x[1, -1] + x[1, 1]) // 5


@npt.stencil
def pair(x, y, a):
    return x[-2, 1] + a * y[0, -1], x[1, 0] - y[0, 3]


@pytest.mark.parametrize("boundary", ["constant", "nearest", "wrap", "mirror"])
@pytest.mark.parametrize("shape", [(20, 30), (300, 500), (3, 200, 300)])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
def test_calls_that_come_often_give_the_same(
    boundary: str, shape: tuple[int, ...], dtype: str
) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 100, shape).astype(dtype) for _ in range(2))
    wanted = mean(x, boundary=boundary)
    two = pair(x, y, 2, boundary=boundary, cval=7, threads=1)
    out = np.empty_like(wanted)
    for _ in range(PATIENCE + 2):
        got = mean(x, boundary=boundary)
        mean(x, boundary=boundary, out=out)
        got_two = pair(x, y, 2, boundary=boundary, cval=7, threads=1)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(out, wanted)
    for one, other in zip(got_two, two, strict=True):
        np.testing.assert_array_equal(one, other)


def test_calls_at_once_do_not_share_blocks() -> None:
    rng = np.random.default_rng(4)
    images = [rng.random((300, 400)) for _ in range(6)]
    wanted = [mean(image, threads=1) for image in images]
    for _ in range(PATIENCE):
        mean(images[0], threads=1)
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(50):
            if not np.array_equal(mean(images[k], threads=1), wanted[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
