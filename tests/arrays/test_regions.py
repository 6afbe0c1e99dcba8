"""The plan that reads regions: one task a chunk, no edges, bits as for NumPy."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from test_dask import RULES, SIDES, data, eagerly, lazily, random_cut
from test_edges import far, mean

from sliced import Sliced, sliced
from windowsum import program, window

dask = pytest.importorskip("dask")

import dask.array as da  # noqa: E402

from ninepoint.arrays.chunked.regions import recut  # noqa: E402
from ninepoint.arrays.chunked.sources import source_of  # noqa: E402


def is_one_task_a_chunk(made: Any) -> bool:
    (graph,) = dask.optimize(made)
    tasks = [key for key in dict(graph.__dask_graph__()) if isinstance(key, tuple)]
    return len(tasks) == made.npartitions


@pytest.mark.parametrize("seed", range(60))
def test_random_regions_equal_numpy(seed: int, limited: Any) -> None:
    # Whatever is decoded twice.
    limited(recut_ratio=float("inf"))
    rng = np.random.default_rng(seed)
    core = int(rng.integers(1, 3))
    shape = [int(k) for k in rng.integers(1, 9, core + int(rng.integers(0, 2)))]
    rules: list[Any] = []
    for _ in range(core):
        rules.append("wrap" if rng.random() < 0.25 else tuple(map(str, rng.choice(SIDES, 2))))
    outputs = []
    for k in range(int(rng.integers(1, 3))):
        low = rng.integers(-4, 3, core)
        reach = [(int(a), int(a + rng.integers(0, 3))) for a in low]
        outputs.append(window(reach, seed + k, field=int(rng.integers(0, 2))))
    prog = program(*outputs, fields=2)
    fields = [data(*shape, seed=seed + k) for k in range(2)]
    if rng.random() < 0.3:
        fields[1] = fields[1][tuple(slice(0, 1 if rng.random() < 0.5 else None) for _ in shape)]
    if rng.random() < 0.2:
        fields[1] = fields[1][0]
    axes = tuple(int(a) for a in rng.permutation(len(shape))[:core])
    cut: list[Any] = [sliced(f, tuple(random_cut(rng, n) for n in f.shape)) for f in fields]
    if rng.random() < 0.3:
        cut[1] = fields[1]
    got = lazily(prog, *cut, boundary=rules, cval=-9, axes=axes)
    want = eagerly(prog, *fields, boundary=rules, cval=-9, axes=axes)
    if len(outputs) == 1:
        got, want = (got,), (want,)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one.compute(scheduler="sync"), other)
        assert one.dtype == other.dtype
        again = recut(one, tuple(random_cut(rng, n) for n in one.shape))
        if again is None:
            # An array of NumPy in chunks, or one with a new axis, is no view.
            shapes = {other.shape for other in want}
            assert len(shapes) > 1 or cut[1] is fields[1] or fields[1].ndim < len(shape)
        else:
            np.testing.assert_array_equal(again.compute(scheduler="sync"), other)


@pytest.mark.parametrize("rule", RULES)
def test_a_chunk_is_one_task_that_reads_what_it_needs(rule: str) -> None:
    prog = program(window([(-1, 1), (-1, 1)]))
    x = data(30, 40)
    source = sliced(x, 10)
    got = lazily(prog, source, boundary=rule, cval=3)
    assert is_one_task_a_chunk(got)
    held = source_of(source)
    assert held is not None
    held.held.asked.clear()
    piece = got.blocks[1, 1].compute(scheduler="sync")
    want = eagerly(prog, x, boundary=rule, cval=3)
    np.testing.assert_array_equal(got.compute(scheduler="sync"), want)
    assert held.held.asked[0] == (slice(9, 21, 1), slice(9, 21, 1))
    assert piece.shape == (10, 10)


def test_regions_are_read_only_where_little_is_decoded_twice() -> None:
    prog = program(window([(-1, 1), (-1, 1)]))
    x = data(80, 80)
    assert is_one_task_a_chunk(lazily(prog, sliced(x, 40, piece=5), boundary="nearest"))
    # Chunks as stored: each would be decoded up to nine times.
    assert not is_one_task_a_chunk(lazily(prog, sliced(x, 10, piece=10), boundary="nearest"))


def test_what_is_computed_is_no_source() -> None:
    x = sliced(data(20, 20), 10)
    assert source_of(x) is not None
    for other in (
        x + 1,
        x[::2],
        x[:, [3, 1]],
        x[None],
        x.rechunk(5),
        x.T,
        da.from_array(data(20, 20), chunks=10),
    ):
        assert source_of(other) is None
    frozen = np.ma.masked_array(data(4, 4))
    assert source_of(da.from_array(frozen, chunks=2)) is None


@pytest.mark.parametrize(
    "index", [1, np.s_[:, 5:33], np.s_[1, 7:40, 3:21], np.s_[..., 3:], np.s_[2, 6:20]]
)
def test_a_part_of_a_source_is_one(index: Any) -> None:
    x = data(3, 40, 50)
    prog = program(window([(-1, 1), (-1, 1)]))
    held = Sliced(x, (1, 2, 2))
    view = da.from_array(held, chunks=(1, 20, 20), meta=np.empty((0, 0, 0)))[index]
    got = lazily(prog, view, boundary="reflect")
    want = eagerly(prog, x[index], boundary="reflect")
    assert is_one_task_a_chunk(got)
    np.testing.assert_array_equal(got.compute(scheduler="sync"), want)
    cut = tuple((n // 2, n - n // 2) for n in view.shape)
    np.testing.assert_array_equal(recut(got, cut).compute(scheduler="sync"), want)
    np.testing.assert_array_equal(recut(view, cut).compute(scheduler="sync"), x[index])
    source = source_of(view[1:])
    assert source is not None
    assert source.shape == x[index][1:].shape


def test_values_are_cut_anew_without_moving_any() -> None:
    prog = program(window([(-1, 1), (-1, 1)]))
    x = data(24, 24)
    plain = recut(sliced(x, 6), ((12, 12), (24,)))
    assert is_one_task_a_chunk(plain)
    np.testing.assert_array_equal(plain.compute(scheduler="sync"), x)
    # Regions of sources, also where a whole axis was one chunk, or edges of chunks were taken.
    for chunks in (12, (6, 24), 2, ((1, 23), (5, 19))):
        made = lazily(prog, sliced(x, chunks), boundary="valid")
        again = recut(made, ((10, 12), (22,)))
        assert is_one_task_a_chunk(again)
        want = eagerly(prog, x, boundary="valid")
        np.testing.assert_array_equal(again.compute(scheduler="sync"), want)
    assert recut(da.ones((4, 4), chunks=2), ((4,), (4,))) is None


def test_the_graph_is_as_small_as_that_of_zeros() -> None:
    prog = program(window([(-1, 1), (-1, 1)]))
    held = Sliced(data(1, 1), (1, 1))
    held.shape = (3000, 3000)
    source = da.from_array(held, chunks=30, name="stored", meta=np.empty((0, 0), "f4"))
    got = lazily(prog, source, boundary="nearest")
    layer = got.dask.layers[got.name]
    zeros = da.zeros((3000, 3000), chunks=30)
    assert len(pickle.dumps(layer)) < 2 * len(pickle.dumps(zeros.dask.layers[zeros.name]))


def test_locks_of_a_source_are_taken() -> None:
    class Lock:
        taken = 0

        def acquire(self) -> None:
            Lock.taken += 1

        def release(self) -> None: ...

        def __dask_tokenize__(self) -> Any:
            return "lock"

    held = Sliced(data(40, 40), (1, 1))
    source = da.from_array(held, chunks=20, lock=Lock(), meta=np.empty((0, 0)))
    got = lazily(program(window([(-1, 1), (-1, 1)])), source, boundary="nearest")
    assert is_one_task_a_chunk(got)
    got.compute(scheduler="sync")
    assert Lock.taken == 4


def whole(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 999, shape)


def decoded(source: Any) -> int:
    """How many elements were read of a source since one asked last."""
    held = source_of(source).held  # type: ignore[union-attr]
    asked, held.asked = held.asked, []
    return sum(np.empty(held.shape, bool)[index].size for index in asked)


def test_calls_one_after_another_are_one_that_reads() -> None:
    a = whole(np.random.default_rng(0), 60, 60)
    x = sliced(a, 20)
    y = mean(x)
    z = mean(y)
    assert is_one_task_a_chunk(z)
    assert is_one_task_a_chunk(mean(z))
    want = mean(a), mean(mean(a))
    np.testing.assert_array_equal(z.compute(scheduler="sync"), want[1])
    wide = recut(z, ((30, 30), (60,)))
    assert is_one_task_a_chunk(wide)
    np.testing.assert_array_equal(wide.compute(scheduler="sync"), want[1])
    # What is between is computed once, where it is asked for as well, and read from nowhere again.
    decoded(x)
    y.compute(scheduler="sync")
    once = decoded(x)
    for order in (1, -1):
        both = dask.compute(*(y, z)[::order], scheduler="sync")[::order]
        assert decoded(x) == once
        np.testing.assert_array_equal(both[0], want[0])
        np.testing.assert_array_equal(both[1], want[1])
    # What is computed already is not read again.
    kept = y.persist(scheduler="sync")
    decoded(x)
    np.testing.assert_array_equal(mean(kept).compute(scheduler="sync"), want[1])
    assert decoded(x) == 0


def test_calls_that_would_decode_much_twice_are_not_one() -> None:
    a = whole(np.random.default_rng(0), 60, 60)
    y = mean(sliced(a, 20, piece=10))
    assert not is_one_task_a_chunk(y)
    x = sliced(a, 20, piece=2)
    z = mean(mean(mean(mean(x))))
    assert not is_one_task_a_chunk(z)
    np.testing.assert_array_equal(z.compute(scheduler="sync"), mean(mean(mean(mean(a)))))


@pytest.mark.parametrize("seed", range(16))
def test_random_calls_after_one_another(seed: int, limited: Any) -> None:
    limited(recut_ratio=float("inf"))
    limited(decoded_ratio=float("inf"))
    rng = np.random.default_rng(seed)
    shape = tuple(map(int, rng.integers(9, 30, 2)))
    cut = [tuple(n for n in random_cut(rng, n) if n) or (n,) for n in shape]
    arrays = [whole(rng, *shape), whole(rng, *shape)]
    arrays.append(arrays[0][:, :1] if rng.random() < 0.5 else arrays[0])
    lazy = [sliced(arrays[0], tuple(cut)), sliced(arrays[1], tuple(cut) if seed % 2 else 9)]
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
        got = kernel(*(lazy[k] for k in fields), boundary=rule)
        want = kernel(*(arrays[k] for k in fields), boundary=rule)
        lazy += got if isinstance(got, tuple) else [got]
        arrays += want if isinstance(want, tuple) else [want]
    last, beside = lazy[-1], int(rng.integers(3, len(lazy)))
    for one, other in zip(dask.compute(*lazy, scheduler="sync"), arrays, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(last.compute(scheduler="sync"), arrays[-1])
    both = dask.compute(last, lazy[beside], scheduler="sync")
    np.testing.assert_array_equal(both[0], arrays[-1])
    np.testing.assert_array_equal(both[1], arrays[beside])
    tile = tuple(slice(int(n) // 3, int(n) // 3 + 4) for n in last.shape)
    np.testing.assert_array_equal(last[tile].compute(scheduler="sync"), arrays[-1][tile])
    again = recut(last, tuple(random_cut(rng, n) for n in last.shape))
    if again is not None:
        np.testing.assert_array_equal(again.compute(scheduler="sync"), arrays[-1])
