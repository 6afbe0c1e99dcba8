"""Arrays that can be sliced, as those of files are: each chunk is one task that reads its part."""

import pickle
from typing import Any

import dask
import dask.array as da
import numpy as np
from chunked import equal, far, mean, near

import ninepoint as npt
from compared import whole
from kernels import RULES
from seams import interpreted, limits, view


class Sliced:
    """An array with slices, a shape, and pieces of its own; `asked` are all slices."""

    def __init__(self, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        self.array, self.chunks = array, chunks
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.asked: list[Any] = []

    def __getitem__(self, index: Any) -> np.ndarray:
        self.asked.append(index)
        return self.array[index]

    def __dask_tokenize__(self) -> Any:
        return "sliced", self.array.tobytes(), str(self.dtype), self.shape, self.chunks


def sliced(array: np.ndarray, chunks: Any, piece: int = 1) -> Any:
    """A Dask array that is a view of something that can be sliced."""
    held = Sliced(array, (piece,) * array.ndim)
    return view(held, chunks, held.chunks)


def is_one_task_a_chunk(made):
    (graph,) = dask.optimize(made)
    tasks = [key for key in dict(graph.__dask_graph__()) if isinstance(key, tuple)]
    return len(tasks) == made.npartitions


def test_a_chunk_is_one_task_that_reads_what_it_needs():
    x = whole(30, 40)
    with interpreted():
        for rule in RULES:
            held = Sliced(x, (1, 1))
            made = near(view(held, 10, (1, 1)), boundary=rule, cval=3)
            assert is_one_task_a_chunk(made)
            held.asked.clear()
            assert made.blocks[1, 1].compute(scheduler="sync").shape == (10, 10)
            assert held.asked == [(slice(9, 21, 1), slice(9, 21, 1))]
            equal(made, near(x, boundary=rule, cval=3))


def test_regions_are_read_only_where_little_is_decoded_twice():
    x = whole(80, 80)
    assert is_one_task_a_chunk(near(sliced(x, 40, piece=5)))
    # Chunks as stored: each would be decoded up to nine times.
    assert not is_one_task_a_chunk(near(sliced(x, 10, piece=10)))
    # Nor is what is computed, or held, a source.
    x = sliced(whole(20, 20), 10)
    for other in (x + 1, x[::2], x[5:], x.rechunk(5), da.from_array(whole(20, 20), chunks=10)):
        assert not is_one_task_a_chunk(near(other))
    # Nor are calls done at once, all of which would decode much twice.
    a = whole(60, 60, dtype="int64")
    assert not is_one_task_a_chunk(mean(sliced(a, 20, piece=10)))
    z = mean(mean(mean(mean(sliced(a, 20, piece=2)))))
    assert not is_one_task_a_chunk(z)
    equal(z, mean(mean(mean(mean(a)))))


def test_the_graph_is_as_small_as_that_of_zeros():
    held = Sliced(whole(1, 1), (1, 1))
    held.shape = (3000, 3000)
    made = near(view(held, 30, (1, 1), name="stored"), boundary="nearest")
    zeros = da.zeros((3000, 3000), chunks=30)
    least = len(pickle.dumps(zeros.dask.layers[zeros.name]))
    assert len(pickle.dumps(made.dask.layers[made.name])) < 2 * least


def decoded(held):
    """How many elements were read since one asked last."""
    asked, held.asked = held.asked, []
    return sum(np.empty(held.shape, bool)[index].size for index in asked)


def test_of_chunks_that_nobody_asks_for_the_slabs_beside_are_read():
    x = whole(80, 60)
    for rule in set(RULES) - {"valid"}:
        for bytes_held in (1, 1 << 20):
            held = Sliced(x, (5, 5))
            with limits(held_bytes=bytes_held, decoded_ratio=1):
                made = near(view(held, 20, (5, 5)), boundary=rule, cval=3)
                held.asked.clear()
                block = made.blocks[:2, 1:2].compute(scheduler="sync")
            equal(block, near(x, boundary=rule, cval=3)[:40, 20:40])
            # Both blocks once or, for their faces, twice; around them one line, no more.
            assert decoded(held) <= 800 * (1 if bytes_held > 1 else 2) + 204


def test_calls_one_after_another_are_one_that_reads():
    a = whole(60, 60, dtype="int64")
    held = Sliced(a, (1, 1))
    x = view(held, 20, (1, 1))
    y = mean(x)
    z = mean(y)
    assert is_one_task_a_chunk(z)
    assert is_one_task_a_chunk(mean(z))
    want = mean(a), mean(mean(a))
    equal(z, want[1])
    # What is between is computed once, where it is asked for as well, and read from nowhere again.
    decoded(held)
    y.compute(scheduler="sync")
    once = decoded(held)
    for order in (1, -1):
        equal((y, z)[::order], want[::order])
        assert decoded(held) == once
    # What is computed already is not read again.
    kept = y.persist(scheduler="sync")
    decoded(held)
    equal(mean(kept), want[1])
    assert decoded(held) == 0


def test_what_would_be_decoded_often_is_read_twice_and_not_held():
    a = whole(60, 60, dtype="int64")
    for kernel in (near, lambda x: mean(mean(x))):
        held = Sliced(a, (20, 20))
        with limits(held_bytes=1000):
            made = kernel(view(held, 20, (20, 20), name="stored"))
        (graph,) = dask.optimize(made)
        names = {key[0] for key in dict(graph.__dask_graph__()) if isinstance(key, tuple)}
        assert names == {made.name, *[name for name in names if name.startswith("faces-")]}
        held.asked.clear()
        equal(made, kernel(a))
        assert decoded(held) == 2 * a.size
    # One side that is held, since it is computed, and one that is read.
    with limits(held_bytes=1000):
        equal(far(sliced(a, 20, piece=20), da.from_array(a, chunks=20) + 0), far(a, a))
    # What is small waits, and is read once.
    made = near(view(held, 20, (20, 20), name="stored"))
    held.asked.clear()
    equal(made, near(a))
    assert decoded(held) == a.size


def test_blocks_of_which_a_result_has_nothing_or_every_other_point(tmp_path):
    a = whole(41, 60, dtype="int64")
    x = sliced(a, ((1, 20, 19, 1), (30, 30)))
    for kernel, count in ((near, 1), (far, 2)):
        for rule in ("valid", "reflect"):
            made = kernel(*[mean(x)] * count, boundary=rule)
            equal(made, kernel(*[mean(a)] * count, boundary=rule))
    a = whole(40, 40, dtype="int64")
    made = mean(sliced(a, -1), every=2)
    path = npt.save(made, tmp_path / "out.zarr", chunks=(10, 5), progress=False)
    equal(npt.open(path), mean(a, every=2))
