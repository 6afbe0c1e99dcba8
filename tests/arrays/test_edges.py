"""Blocks made of chunks and faces: lazy graphs, groups of thin chunks, calls one after another."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import ninepoint as npt

dask = pytest.importorskip("dask")

import dask.array as da  # noqa: E402
from dask.graph_manipulation import bind, clone  # noqa: E402


@npt.stencil(boundary="nearest")
def mean(x: Any) -> Any:
    """The mean of a point and its four neighbours, in whole numbers."""
    return (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] + x[0, 0]) // 5


@npt.stencil(boundary="wrap")
def far(x: Any, y: Any) -> Any:
    """A look to one side, and two results."""
    return x[-3, 0] + y[0, 2], x[0, 1] - y[0, 0]


@npt.stencil(boundary="reflect")
def wide(x: Any) -> Any:
    """A look far to all sides."""
    return x[-9, 0] + x[9, 0] + x[0, -9] + x[0, 9]


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 999, shape)


def written(*arrays: Any) -> dict[Any, Any]:
    """The tasks, as a scheduler sees them."""
    tasks: dict[Any, Any] = {}
    for one in dask.optimize(*arrays):
        tasks |= dict(one.__dask_graph__())
    return tasks


def equal(lazy: Any, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), wanted)


def test_a_layer_is_a_rule_until_it_is_scheduled() -> None:
    x = da.zeros((64000, 64000), chunks=64)
    y = mean(x)
    assert y.chunks == x.chunks
    assert not any(layer.is_materialized() for layer in y.dask.layers.values())
    assert len(pickle.dumps(y.dask.layers[y.name])) < 20_000
    piece = y[6400:6410, 6400:6410]
    # The chunk, its faces and those around, of which the last ones are taken from their chunks.
    tasks = written(piece)
    assert len(tasks) <= 9 + 8 + 2
    layer = pickle.loads(pickle.dumps(y.dask.layers[y.name]))
    culled, needs = layer.cull({(y.name, 0, 0)}, set())
    assert not layer.is_materialized()
    assert not culled.is_materialized()
    assert culled.get_output_keys() == {(y.name, 0, 0)}
    assert set().union(*needs.values()) == {(x.name, i, j) for i in (0, 1) for j in (0, 1)}


def test_a_graph_can_be_cloned_and_bound() -> None:
    a = image(30, 30)
    x = da.from_array(a, chunks=10).map_blocks(np.positive)
    y = mean(x)
    equal(clone(mean(y)), mean(mean(a)))
    equal(bind(y, x.sum(), omit=x), mean(a))


def test_thin_chunks_are_computed_in_groups_and_stay_as_they_are() -> None:
    a = image(40, 34)
    for chunks in (1, ((3, 0, 20, 17), (1, 29, 1, 3)), (40, 2)):
        x = da.from_array(a, chunks=chunks)
        results = far(x, x + 1)
        for one, wanted in zip(results, far(a, a + 1), strict=True):
            assert one.chunks == x.chunks
            equal(one, wanted)
    thin = da.from_array(a, chunks=2)
    equal(wide(thin), wide(a))
    graph = written(wide(thin))
    assert sum(len(getattr(task, "dependencies", ())) for task in graph.values()) < 6 * 20 * 17


def test_fields_in_other_chunks_meet() -> None:
    a, b = image(30, 24), image(30, 24)[::-1]
    x, y = da.from_array(a, chunks=(5, 24)), da.from_array(b, chunks=(30, 4))
    for one, wanted in zip(far(x, y), far(a, b), strict=True):
        assert one.chunks == (x.chunks[0], y.chunks[1]) or one.chunks == x.chunks
        equal(one, wanted)


def test_calls_that_follow_each_other_are_done_at_once_where_nobody_asks_between() -> None:
    a = image(60, 60)
    x = da.from_array(a, chunks=30).map_blocks(np.positive)
    y = mean(x)
    z = mean(mean(y))
    wanted = mean(mean(mean(a)))
    # Of each chunk the source, its two tasks, and the array that it is taken from.
    assert len(written(z)) == 4 * 4
    equal(z, wanted)
    equal(z[5:8, 28:40], wanted[5:8, 28:40])
    # Somebody asks for what is between.
    both = dask.compute(y, z, scheduler="sync")
    np.testing.assert_array_equal(both[0], mean(a))
    np.testing.assert_array_equal(both[1], wanted)
    assert len(written(y, z)) > 4 * 4
    equal(z - y, wanted - mean(a))
    first, second = far(mean(x), y)
    equal(first + second, sum(far(mean(a), mean(a))))


@pytest.mark.parametrize("chunks", [(2, 6, 6), (10, 6, 6)])
def test_chunks_of_unknown_size_along_a_stack(chunks: tuple[int, ...]) -> None:
    a = image(10, 6, 6)
    stack = da.from_array(a, chunks=chunks)
    some = stack[stack[:, 0, 0] > 400]
    wanted = mean(mean(a[a[:, 0, 0] > 400]))
    made = mean(mean(some))
    assert math.isnan(made.shape[0])
    equal(made, wanted)
    equal(mean(some) + 1, mean(a[a[:, 0, 0] > 400]) + 1)
    flat = image(6, 6)
    for one, other in zip(far(some, flat), far(a[a[:, 0, 0] > 400], flat), strict=True):
        equal(one, other)


def test_chunks_of_unknown_size_across_a_halo_are_refused() -> None:
    x = da.from_array(image(20, 6), chunks=5)
    with pytest.raises(ValueError, match=r"axis 0, so .* call .compute_chunk_sizes\(\)"):
        mean(x[x[:, 0] > 50])
    stack = da.from_array(image(8, 6, 6), chunks=(2, 3, 6))
    with pytest.raises(ValueError, match="axis 0, so"):
        mean(stack[stack[:, 0, 0] > 50])


@npt.stencil(standard_indexing=("w",))
def weighed(x: Any, w: Any) -> Any:
    """Two neighbours, weighed."""
    return w[0] * x[-1, 0] + w[1] * x[1, 0]


@pytest.mark.parametrize("chunks", [(6, 6), (12, 3)])
def test_tables_are_one_node_of_the_graph(chunks: tuple[int, int]) -> None:
    a, table = image(12, 12).astype(float), np.random.default_rng(0).random(5000)
    made = weighed(da.from_array(a, chunks=chunks), table)
    equal(made, weighed(a, table))
    tasks = written(made)
    large = [key for key, task in tasks.items() if len(pickle.dumps(task)) > 5000]
    assert len(large) == 1


def test_explain_tells_the_plan_of_dask_arrays() -> None:
    cut = da.zeros((400, 400), chunks=100)
    text = mean.explain(cut)
    assert "on Dask     mean: edges, 2 tasks a chunk, 38.4 kB of faces, 16" in text
    assert "mean: whole cores, 1 task a chunk, 0 B" in mean.explain(cut.rechunk((400, 400)))
    thin = mean.explain(da.zeros((400, 400), chunks=(2, 400)))
    assert "mean: groups, 2.5 tasks a chunk" in thin
    assert "100 groups" in thin
    many = far.explain(cut, cut)
    assert "far: edges, 5 tasks a chunk" in many


@npt.stencil(boundary="reflect")
def slopes(x: Any) -> Any:
    """Two wide results of one field."""
    return x[-99, 0] - x[99, 0] * 1.0, x[0, -99] - x[0, 99] * 1.0


@npt.stencil(boundary="reflect")
def steep(x: Any) -> Any:
    """One narrow result of two, seen from afar."""
    a, b = slopes(x)
    return np.float32(a[-99, 0] - b[99, 0])


@npt.stencil(boundary="reflect")
def behind(x: Any) -> Any:
    """A stage behind the narrow one."""
    s = steep(x)
    return s[-99, 0] + s[99, 0]


def test_a_halo_that_would_cost_much_is_split_where_little_lies_between() -> None:
    text = behind.explain(da.zeros((5000, 5000), chunks=1000))
    plans = [line.split()[2] for line in text.splitlines() if "on Dask" in line]
    # Not at the two results of `slopes`.
    assert plans == ["steep:", "behind:"]
    assert behind.explain(da.zeros((9000, 9000), chunks=9000 // 2)).count("on Dask") == 1
    a = np.random.default_rng(0).random((30, 30))
    equal(behind(da.from_array(a, chunks=15)), behind(a))


RULES = ("fill", "keep", "constant", "nearest", "reflect", "mirror", "wrap")


@pytest.mark.parametrize("seed", range(12))
def test_random_calls_after_one_another(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = image(*map(int, rng.integers(20, 40, 2)))
    sizes = [int(rng.choice([3, 7, 10, 20])) for _ in a.shape]
    cut = tuple(
        (size,) * (n // size) + (n % size,) for size, n in zip(sizes, a.shape, strict=True)
    )
    arrays, lazy = [a, a[::-1].copy()], [da.from_array(a, chunks=cut)]
    lazy.append(da.from_array(arrays[1], chunks=cut if seed % 2 else 9))
    for _ in range(int(rng.integers(2, 6))):
        kernel = (mean, far)[int(rng.integers(2))]
        rule = "valid" if rng.random() < 0.1 else str(rng.choice(RULES))
        fields = [len(arrays) - 1, int(rng.integers(len(arrays)))][: 1 + (kernel is far)]
        if any(arrays[k].shape != a.shape for k in fields):
            continue
        got = kernel(*(lazy[k] for k in fields), boundary=rule)
        want = kernel(*(arrays[k] for k in fields), boundary=rule)
        lazy += got if isinstance(got, tuple) else [got]
        arrays += want if isinstance(want, tuple) else [want]
    equal(lazy[-1], arrays[-1])
    for one, other in zip(dask.compute(*lazy, scheduler="sync"), arrays, strict=True):
        np.testing.assert_array_equal(one, other)
    tile = tuple(slice(int(n) // 3, int(n) // 3 + 4) for n in arrays[-1].shape)
    equal(lazy[-1][tile], arrays[-1][tile])
