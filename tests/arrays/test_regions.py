"""Arrays that can be sliced, as those of files are: each chunk is one task that reads its part."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
import weighted
from seams import interpreted, view
from sliced import Sliced, sliced
from weighted import RULES, each, whole

dask = pytest.importorskip("dask")

import dask.array as da  # noqa: E402


@npt.stencil(boundary="nearest")
def mean(x):
    """The mean of a point and its four neighbours, in whole numbers."""
    return (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] + x[0, 0]) // 5


@npt.stencil(boundary="wrap")
def far(x, y):
    """A look to one side, and two results."""
    return x[-3, 0] + y[0, 2], x[0, 1] - y[0, 0]


@npt.stencil
def near(x):
    return x[-1, -1] + 2 * x[1, 1] - x[0, 0]


def is_one_task_a_chunk(made: Any) -> bool:
    (graph,) = dask.optimize(made)
    tasks = [key for key in dict(graph.__dask_graph__()) if isinstance(key, tuple)]
    return len(tasks) == made.npartitions


def random_cut(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    marks = sorted(int(k) for k in rng.integers(1, n + 1, int(rng.integers(0, 3))))
    return tuple(b - a for a, b in zip([0, *marks], [*marks, n], strict=True) if b > a)


@pytest.mark.parametrize("first", [0, 20])
def test_random_regions_equal_numpy(first: int, limited: Any) -> None:
    # Whatever is decoded twice.
    limited(decoded_ratio=float("inf"))
    with interpreted():
        for seed in range(first, first + 20):
            rng = np.random.default_rng(seed)
            core = int(rng.integers(1, 3))
            kernel = weighted.drawn(rng, core)
            shape = [int(k) for k in rng.integers(1, 9, core + int(rng.integers(0, 2)))]
            fields = [whole(*shape, seed=seed + k) for k in range(len(kernel.fields))]
            if len(fields) > 1 and rng.random() < 0.3:
                cut = tuple(slice(0, 1 if rng.random() < 0.5 else None) for _ in shape)
                fields[1] = fields[1][cut]
            lazy: list[Any] = [
                sliced(one, tuple(random_cut(rng, n) for n in one.shape)) for one in fields
            ]
            if len(fields) > 1 and rng.random() < 0.3:
                lazy[1] = fields[1]
            axes = tuple(int(a) for a in rng.permutation(len(shape))[:core])
            options = {"boundary": weighted.boundary(rng, core), "cval": -9, "axes": axes}
            made, wanted = each(kernel(*lazy, **options)), each(kernel(*fields, **options))
            for one, other in zip(made, wanted, strict=True):
                computed = one.compute(scheduler="sync")
                assert computed.dtype == one.dtype == other.dtype
                np.testing.assert_array_equal(computed, other, f"seed {seed}")


def test_a_chunk_is_one_task_that_reads_what_it_needs() -> None:
    x = whole(30, 40)
    with interpreted():
        for rule in RULES:
            held = Sliced(x, (1, 1))
            made = near(view(held, 10, (1, 1)), boundary=rule, cval=3)
            assert is_one_task_a_chunk(made)
            held.asked.clear()
            assert made.blocks[1, 1].compute(scheduler="sync").shape == (10, 10)
            assert held.asked == [(slice(9, 21, 1), slice(9, 21, 1))]
            wanted = near(x, boundary=rule, cval=3)
            np.testing.assert_array_equal(made.compute(scheduler="sync"), wanted)


def test_regions_are_read_only_where_little_is_decoded_twice() -> None:
    x = whole(80, 80)
    assert is_one_task_a_chunk(near(sliced(x, 40, piece=5)))
    # Chunks as stored: each would be decoded up to nine times.
    assert not is_one_task_a_chunk(near(sliced(x, 10, piece=10)))
    # Nor is what is computed, or held, a source.
    x = sliced(whole(20, 20), 10)
    for other in (x + 1, x[::2], x[5:], x.rechunk(5), da.from_array(whole(20, 20), chunks=10)):
        assert not is_one_task_a_chunk(near(other))


def test_the_graph_is_as_small_as_that_of_zeros() -> None:
    held = Sliced(whole(1, 1), (1, 1))
    held.shape = (3000, 3000)
    source = view(held, 30, (1, 1), name="stored")
    made = near(source, boundary="nearest")
    zeros = da.zeros((3000, 3000), chunks=30)
    least = len(pickle.dumps(zeros.dask.layers[zeros.name]))
    assert len(pickle.dumps(made.dask.layers[made.name])) < 2 * least


def decoded(held: Sliced) -> int:
    """How many elements were read since one asked last."""
    asked, held.asked = held.asked, []
    return sum(np.empty(held.shape, bool)[index].size for index in asked)


def test_calls_one_after_another_are_one_that_reads() -> None:
    a = whole(60, 60, dtype="int64")
    held = Sliced(a, (1, 1))
    x = view(held, 20, (1, 1))
    y = mean(x)
    z = mean(y)
    assert is_one_task_a_chunk(z)
    assert is_one_task_a_chunk(mean(z))
    want = mean(a), mean(mean(a))
    np.testing.assert_array_equal(z.compute(scheduler="sync"), want[1])
    # What is between is computed once, where it is asked for as well, and read from nowhere again.
    decoded(held)
    y.compute(scheduler="sync")
    once = decoded(held)
    for order in (1, -1):
        both = dask.compute(*(y, z)[::order], scheduler="sync")[::order]
        assert decoded(held) == once
        np.testing.assert_array_equal(both[0], want[0])
        np.testing.assert_array_equal(both[1], want[1])
    # What is computed already is not read again.
    kept = y.persist(scheduler="sync")
    decoded(held)
    np.testing.assert_array_equal(mean(kept).compute(scheduler="sync"), want[1])
    assert decoded(held) == 0


def test_blocks_of_which_a_result_has_nothing() -> None:
    a = whole(41, 60, dtype="int64")
    x = sliced(a, ((1, 20, 19, 1), (30, 30)))
    for kernel in (near, far):
        for rule in ("valid", "reflect"):
            given = (x, x)[: len(kernel.fields)], (a, a)[: len(kernel.fields)]
            lazy = each(kernel(*map(mean, given[0]), boundary=rule))
            wanted = each(kernel(*map(mean, given[1]), boundary=rule))
            for one, other in zip(lazy, wanted, strict=True):
                np.testing.assert_array_equal(one.compute(scheduler="sync"), other)


def test_calls_that_would_decode_much_twice_are_not_one() -> None:
    a = whole(60, 60, dtype="int64")
    assert not is_one_task_a_chunk(mean(sliced(a, 20, piece=10)))
    z = mean(mean(mean(mean(sliced(a, 20, piece=2)))))
    assert not is_one_task_a_chunk(z)
    np.testing.assert_array_equal(z.compute(scheduler="sync"), mean(mean(mean(mean(a)))))


@pytest.mark.parametrize("seed", range(8))
def test_random_calls_after_one_another(seed: int, limited: Any) -> None:
    limited(decoded_ratio=float("inf"))
    rng = np.random.default_rng(seed)
    shape = tuple(map(int, rng.integers(9, 30, 2)))
    cut = tuple(random_cut(rng, n) for n in shape)
    arrays = [rng.integers(0, 999, shape) for _ in range(2)]
    arrays.append(arrays[0][:, :1] if rng.random() < 0.5 else arrays[0])
    lazy = [sliced(arrays[0], cut), sliced(arrays[1], cut if seed % 2 else 9)]
    lazy.append(arrays[2] if rng.random() < 0.5 else sliced(arrays[2], -1))
    for _ in range(int(rng.integers(2, 6))):
        kernel = (mean, far)[int(rng.integers(2))]
        rule = "valid" if rng.random() < 0.1 else str(rng.choice(RULES))
        if rng.random() < 0.5:
            rule = "reflect"
        last = len(arrays) - 1 if len(arrays) > 3 else 0
        fields = [last, int(rng.integers(len(arrays)))][: 1 + (kernel is far)]
        if any(arrays[k].shape not in (shape, (shape[0], 1)) for k in fields):
            continue
        lazy += each(kernel(*(lazy[k] for k in fields), boundary=rule))
        arrays += each(kernel(*(arrays[k] for k in fields), boundary=rule))
    last, beside = lazy[-1], int(rng.integers(3, len(lazy)))
    for one, other in zip(dask.compute(*lazy, scheduler="sync"), arrays, strict=True):
        np.testing.assert_array_equal(one, other)
    both = dask.compute(last, lazy[beside], scheduler="sync")
    np.testing.assert_array_equal(both[0], arrays[-1])
    np.testing.assert_array_equal(both[1], arrays[beside])
    tile = tuple(slice(int(n) // 3, int(n) // 3 + 4) for n in last.shape)
    np.testing.assert_array_equal(last[tile].compute(scheduler="sync"), arrays[-1][tile])


def test_every_other_point_is_saved_in_other_chunks(tmp_path: Any) -> None:
    pytest.importorskip("zarr")
    a = whole(40, 40, dtype="int64")
    made = mean(sliced(a, -1), every=2)
    path = npt.save(made, tmp_path / "out.zarr", chunks=(10, 5), progress=False)
    found = npt.open(path).compute(scheduler="sync")
    np.testing.assert_array_equal(found, mean(a, every=2))
