"""Commands: whole arrays by machine code, and its list of commands carried out by NumPy."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import agreement
import ninepoint as npt
import protected
from ninepoint.arrays import accepted
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Boundary
from ninepoint.arrays.commands import Machine, Part, commands
from ninepoint.arrays.layout import layout
from ninepoint.arrays.parts import Values, machine_of
from ninepoint.backends.numba import native
from thorough import only

# Compiled code is tried between protected pages first.
pytestmark = pytest.mark.usefixtures("protected_pages")

BATCH = 10


class Carried:
    """A list of commands, carried out by NumPy on bytes that are checked to be there."""

    def __init__(self, told: np.ndarray, arrays: list[np.ndarray]) -> None:
        self.words = told.tolist()
        self.axes, self.given, others, memory, self.count = self._take(5)
        assert self.given == len(arrays)
        room, constants = np.zeros(memory, np.uint8), told.view(np.uint8)
        self.arrays: list[tuple[np.ndarray, int, list[int]]] = []
        for array in arrays:
            strides = list(array.strides)
            self.arrays.append((array, 0, [0, *strides][-self.axes :]))
        for _ in range(others):
            in_room, start, *strides = self._take(2 + self.axes)
            self.arrays.append((room if in_room else constants, start, strides))

    def _take(self, count: int) -> list[int]:
        taken, self.words = self.words[:count], self.words[count:]
        return taken

    def view(self, dtype: Any, k: int, first: list[int], step: list[int], shape: list[int]) -> Any:
        """A part of an array, of elements of a type."""
        array, start, strides = self.arrays[k]
        steps = [a * b for a, b in zip(strides, step, strict=True)]
        if k >= self.given:
            start += sum(a * b for a, b in zip(strides, first, strict=True))
            return np.ndarray(shape, dtype, array, start, steps)
        if 0 in shape:
            return np.zeros(shape, dtype)
        spans = zip(first, step, shape, [1, *array.shape][-self.axes :], strict=True)
        for a, b, n, length in spans:
            assert min(a, a + b * (n - 1)) >= 0
            assert max(a, a + b * (n - 1)) < length
        begin = array[tuple(slice(a, None) for a in first[-array.ndim :])]
        return np.lib.stride_tricks.as_strided(begin.view(dtype), shape, steps)

    def run(self, run: Any, dtypes: list[Any]) -> None:
        for _ in range(self.count):
            (kind,) = self._take(1)
            if kind == 0:
                size, to, at = self._take(3)
                shape, first, step, first_at, step_at = (self._take(self.axes) for _ in range(5))
                unit = np.dtype(f"V{size}")
                source = self.view(unit, at, first_at, step_at, shape)
                self.view(unit, to, first, step, shape)[...] = source
                continue
            blocks = []
            for dtype in dtypes:
                (k,) = self._take(1)
                first, shape = self._take(self.axes), self._take(self.axes)
                blocks.append(self.view(dtype, k, first, [1] * self.axes, shape))
            run(blocks)


def carried(drawn: agreement.Drawn, whole_bytes: int, bands: int, gaps: int = 0) -> None:
    """Compare what a list of commands does to checked arrays with what copies give."""
    stencil = drawn.stencil
    fields = [accepted.as_field(drawn.arrays[name]) for name in stencil.fields]
    defaults = dict(stencil.defaults)
    others = {n: (drawn.values | {}).get(n, defaults.get(n)) for n in stencil.scalars}
    dtypes = [accepted.native(field.dtype) for field in fields]
    if np.dtype("float16") in dtypes:
        return
    keep = "keep" in str(drawn.boundary)
    compiled, _, _ = stencil.definition.compiled(dtypes, others, keep)
    ndim = compiled.ndim
    fields = [np.ascontiguousarray(f, d) for f, d in zip(fields, dtypes, strict=True)]
    fields = agreement.with_positions(stencil, others, fields)
    shape = np.broadcast_shapes(*(field.shape for field in fields))
    stack = int(np.prod(shape[:-ndim])) if len(shape) > ndim else None
    joined = shape[-ndim:] if stack is None else (stack, *shape[-ndim:])
    fields = [np.broadcast_to(f, shape).reshape(joined).copy() for f in fields]
    program = agreement.Plain(compiled.bind(others)).within(shape[-ndim:])
    border = Boundary.of(drawn.boundary).on(ndim)
    result = on_numpy.apply(program, fields, border=border, threads=1)
    wanted = result if isinstance(result, tuple) else (result,)
    if compiled.module.checked or stack == 0 or np.dtype("float16") in program.out_dtypes:
        return
    plan = layout(shape[-ndim:], compiled.reaches, border, 8, whole_bytes)
    values = Values([0] * len(fields), [0] * len(wanted))
    got = [np.ones_like(array) for array in wanted]
    count = len(fields)
    moved: tuple[int, ...] = ()
    if gaps:
        choices = [*range(count - len(program.along)), *range(count, count + len(got))]
        moved = tuple(k for n, k in enumerate(choices) if (gaps + n) % 3)
        lying = [with_gaps(one, gaps) if k in moved else one for k, one in enumerate(fields + got)]
        fields, got = lying[:count], lying[count:]
    machine = machine_of(program, plan, values, moved)

    def run(blocks: list[np.ndarray]) -> None:
        program.run(blocks[:count], blocks[count:])

    if not machine.zones:
        return
    for first, last in plan.bands(bands):
        told = commands(plan, machine, Part(0, stack or 1, first, last))
        every = [*program.field_dtypes, *program.out_dtypes]
        Carried(told, [*fields, *got]).run(run, every)
    agreement.compare_exactly(tuple(got), wanted)


def with_gaps(array: np.ndarray, gaps: int) -> np.ndarray:
    """The same elements, of which those of a row lie apart, or run backwards."""
    step = (-1, 2, 3, -2)[gaps % 4]
    memory = np.zeros((*array.shape[:-1], abs(step) * array.shape[-1]), array.dtype)
    view = memory[..., ::step]
    view[...] = array
    return view


@pytest.mark.parametrize("first", only(18, range(300_000, 300_300, BATCH)))
def test_commands_of_random_kernels(first: int) -> None:
    for seed in range(first, first + BATCH):
        drawn = agreement.draw(seed)
        carried(drawn, 0, 1 + seed % 3)
        carried(drawn, 10**9, 1 + seed % 2)


@pytest.mark.parametrize("first", only(3, range(300_300, 300_330, BATCH)))
def test_rows_that_cannot_be_read_of_random_kernels(first: int, limited: Any) -> None:
    # Pieces of few rows.
    limited(moved_piece_bytes=1)
    limited(rows_moved_twice=1)
    for seed in range(first, first + BATCH):
        drawn = agreement.draw(seed)
        carried(drawn, 0, 1 + seed % 3, 1 + seed)
        carried(drawn, 10**9, 1, 1 + seed)


@npt.stencil(boundary="valid")
def both(x):
    return x[-1, 0] + x[1, 0]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "complex128"])
def test_rows_with_gaps_between_protected_pages(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        for step in (-1, 2, 3, 4, -2, 5):
            for columns in (1, 8, 16, 50):
                # The view has the first and the last element of its memory.
                wide = abs(step) * (columns - 1) + 1
                whole = np.arange(5 * wide).reshape(5, wide).astype(dtype)
                for at_end in (False, True):
                    view = protected.between(whole, at_end=at_end)[:, ::step]
                    for _ in range(2):
                        got = both(view, threads=1)
                        exact = whole[:, ::step].astype(got.dtype)
                        wanted = exact[:-2] + exact[2:]
                        np.testing.assert_array_equal(got, wanted)

    # Copies that the guard tries lie side by side.
    monkeypatch.setattr(protected.Guard, "active", False)
    both(np.zeros((3, 3), dtype))
    assert not protected.survives(work)
    work()


@pytest.mark.parametrize(
    ("boundary", "shape"),
    [("reflect", (2, 20, 31)), ("keep", (40, 61)), ("valid", (40, 61)), ("fill", (600, 701))],
)
def test_views_as_contiguous_arrays(boundary: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 100, shape).astype("int32")
    record = np.zeros(shape, [("y", "int32"), ("x", "int32"), ("z", "int32")])
    record["x"] = x
    twice = np.repeat(x, 2, -1)
    back = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    wanted = mean(x, boundary=boundary)
    for view in (record["x"], twice[..., ::2], twice[..., 1::2], back):
        for threads in (1, 2):
            for _ in range(2):
                got = mean(view, boundary=boundary, threads=threads)
                np.testing.assert_array_equal(got, wanted)
    if boundary != "valid":
        # Written where something else stands beside, and over the field itself.
        for _ in range(2):
            record["x"] = x
            mean(x, boundary=boundary, out=record["y"])
            np.testing.assert_array_equal(record["y"], wanted)
            mean(record["x"], boundary=boundary, out=record["x"])
            np.testing.assert_array_equal(record["x"], wanted)
            assert not record["z"].any()


@npt.stencil(boundary="reflect")
def mean(x):
    return (x[-1, -1] + x[-1, 1] + x[0, 0] + x[1, -1] + x[1, 1]) // 5


@npt.stencil
def pair(x, y, a):
    return x[-2, 1] + a * y[0, -1], x[1, 0] - y[0, 3]


@pytest.mark.parametrize("boundary", ["constant", "nearest", "wrap", "mirror", "keep"])
@pytest.mark.parametrize("shape", [(300, 500), (2, 2, 9, 8)])
@pytest.mark.parametrize("dtype", ["bool", "float16", "int32", "complex128"])
def test_every_size_of_elements(boundary: str, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 100, shape).astype(dtype)

    @npt.stencil(boundary=boundary)
    def moved(x):
        return x[-2, 1]

    result = moved(x, cval=1)
    for _ in range(2):
        np.testing.assert_array_equal(moved(x, cval=1), result)
    wanted = moved(x.astype(x.dtype.newbyteorder(">")), cval=1)
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("boundary", ["constant", "nearest", "wrap", "mirror", "fill"])
def test_several_fields_outputs_and_threads(boundary: str) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 100, (900, 800)).astype("int16") for _ in range(2))
    one = pair(x, y, 2, boundary=boundary, cval=7, threads=1)
    for threads in (1, 2, 3):
        two = pair(x, y, 2, boundary=boundary, cval=7, threads=threads)
        for got, wanted in zip(two, one, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_calls_at_once_do_not_share_blocks() -> None:
    rng = np.random.default_rng(4)
    images = [rng.random((300, 400)) for _ in range(6)]
    wanted = [mean(image, threads=1) for image in images]
    differ: list[int] = []

    def work(k: int) -> None:
        for _ in range(50):
            if not np.array_equal(mean(images[k], threads=1), wanted[k]):
                differ.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not differ


@pytest.mark.skipif(not native.possible(), reason="arrays are laid out otherwise")
def test_no_memory_for_blocks() -> None:
    compiled, _, _ = mean.definition.compiled([np.dtype("float64")], {})
    plan = layout((5, 2**44), compiled.reaches, Boundary.of("nearest").on(2), 8, 10**18)
    told = commands(plan, Machine((8, 8), 1, (b"", b""), True, 0), Part(0, 1, 0, 5))
    one = np.ones(1)
    field = np.lib.stride_tricks.as_strided(one, plan.shape, (0, 8))
    with pytest.raises(MemoryError):
        compiled.entry.band(field, field, told)
