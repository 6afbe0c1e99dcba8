"""Stencils on Dask arrays: lazy, equal to NumPy for every chunking, on every scheduler."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.axes import behind
from ninepoint.arrays.borders import Boundary
from thorough import only
from windowsum import WindowSum, program, window, work

dask = pytest.importorskip("dask")

import dask.array as da  # noqa: E402

from ninepoint.arrays import chunked as on_dask  # noqa: E402

RULES = ("fill", "keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap")
SIDES = [rule for rule in RULES if rule != "wrap"]


def lazily(prog: WindowSum, *fields: Any, boundary: Any = "fill", **options: Any) -> Any:
    axes, rank = options.pop("axes", None), max(map(np.ndim, fields))
    if axes is not None:
        options["axes"] = behind(axes, rank, prog.ndim)
        fields = tuple(field[(None,) * (rank - field.ndim)] for field in fields)
    one = work(prog, Boundary.of(boundary).on(prog.ndim), **options)
    made = on_dask.lazily(one, fields)
    return made[0] if len(made) == 1 else tuple(made)


def eagerly(prog: WindowSum, *fields: Any, boundary: Any = "fill", **options: Any) -> Any:
    border = Boundary.of(boundary).on(prog.ndim)
    return on_numpy.apply(prog, fields, border=border, threads=1, **options)


def data(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 100, shape).astype(np.float64)


def random_cut(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    """Chunks of any size, also 1 and 0."""
    marks = sorted(int(k) for k in rng.integers(0, n + 1, int(rng.integers(0, 4))))
    return tuple(b - a for a, b in zip([0, *marks], [*marks, n], strict=True))


@pytest.mark.parametrize("seed", only(70, range(120)))
def test_random_chunkings_equal_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    core = int(rng.integers(1, 3))
    shape = [int(k) for k in rng.integers(1, 9, core + int(rng.integers(0, 2)))]
    rules: list[Any] = []
    for _ in range(core):
        rules.append("wrap" if rng.random() < 0.25 else tuple(map(str, rng.choice(SIDES, 2))))
    outputs = []
    for k in range(int(rng.integers(1, 3))):
        low = rng.integers(-4, 3, core)
        high = low + rng.integers(0, 3, core)
        reach = [(int(a), int(b)) for a, b in zip(low, high, strict=True)]
        outputs.append(window(reach, seed + k, field=int(rng.integers(0, 2))))
    prog = program(*outputs, fields=2)
    fields = [data(*shape, seed=seed + k) for k in range(2)]
    if rng.random() < 0.3:
        fields[1] = fields[1][tuple(slice(0, 1 if rng.random() < 0.5 else None) for _ in shape)]
    if rng.random() < 0.2:
        fields[1] = fields[1][0]
    axes = tuple(int(a) for a in rng.permutation(len(shape))[:core])
    cut = [
        da.from_array(field, chunks=tuple(random_cut(rng, n) for n in field.shape))
        if field.ndim
        else da.from_array(field)
        for field in fields
    ]
    if rng.random() < 0.2:
        cut[1] = fields[1]
    got = lazily(prog, *cut, boundary=rules, cval=-9, axes=axes)
    want = eagerly(prog, *fields, boundary=rules, cval=-9, axes=axes)
    if len(outputs) == 1:
        got, want = (got,), (want,)
    for one, other in zip(dask.compute(*got, scheduler="sync"), want, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        for place in np.ndindex(*one.numblocks):
            block = one.blocks[place]
            assert block.compute(scheduler="sync").shape == block.shape


@pytest.mark.parametrize("rule", RULES)
def test_chunks_of_size_one_and_a_reach_beyond_the_array(rule: str) -> None:
    prog = program(window([(-9, 2), (0, 7)]))
    x = data(5, 4)
    got = lazily(prog, da.from_array(x, chunks=1), boundary=rule, cval=3)
    want = eagerly(prog, x, boundary=rule, cval=3)
    np.testing.assert_array_equal(got.compute(scheduler="sync"), want)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0,), (2, 0, 5)])
@pytest.mark.parametrize("rule", RULES)
def test_empty_arrays(shape: Any, rule: str) -> None:
    prog = program(window([(-1, 2)]))
    got = lazily(prog, da.from_array(data(*shape), chunks=2), boundary=rule)
    want = eagerly(prog, data(*shape), boundary=rule)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.compute(scheduler="sync"), want)


def test_nothing_is_computed_at_the_call() -> None:
    computed: list[Any] = []

    def block(block_info: Any = None) -> np.ndarray:
        computed.append(block_info[None]["chunk-location"])
        return np.ones((4, 4))

    source = da.map_blocks(block, chunks=((4,) * 5, (4,) * 5), dtype=float)
    prog = program(window([(-1, 1), (-1, 1)]))
    computed.clear()
    got = lazily(prog, source, boundary="wrap")
    repr(got)
    piece = got[9:11, 8:12]
    assert got.dtype == np.float64
    assert got.chunks == source.chunks
    assert not computed
    piece.compute(scheduler="sync")
    # Each neighbour once, and no others.
    assert sorted(computed) == [(i, j) for i in (1, 2, 3) for j in (1, 2, 3)]


def test_chunks_of_the_result() -> None:
    x = da.zeros((10, 12), chunks=((3, 3, 1, 3), (5, 7)))
    prog = program(window([(-3, 1), (0, 2)]), window([(0, 0), (-6, 0)]))
    one, two = lazily(prog, x, boundary="valid")
    assert one.chunks == ((3, 1, 2), (5, 5))
    assert two.chunks == ((3, 3, 1, 3), (6,))
    one, two = lazily(prog, x)
    assert one.chunks == two.chunks == x.chunks
    assert lazily(program(window([(-10, 1)])), x, axes=(0,), boundary="valid").shape == (0, 12)


@pytest.mark.parametrize("rule", ["fill", "wrap"])
def test_two_tasks_a_block(rule: str) -> None:
    x = da.zeros((100, 100), chunks=10)
    one = lazily(program(window([(-1, 1), (-1, 1)])), x, boundary=rule)
    assert len(one.__dask_graph__()) - len(x.__dask_graph__()) == 200
    many = lazily(program(window([(-1, 1)] * 2), window([(0, 1)] * 2)), x, boundary=rule)
    assert len(many[1].__dask_graph__()) - len(x.__dask_graph__()) == 300


def test_a_stack_of_a_million_images_is_symbolic() -> None:
    x = da.ones((1000000, 1000, 1000), chunks=("auto", -1, -1), dtype="int8")
    prog = program(window([(-1, 1), (-1, 1)]), dtype=np.int8)
    began = time.process_time()
    got = lazily(prog, x)
    assert time.process_time() - began < 0.5
    assert got.chunks == x.chunks
    assert got.dtype == np.int8
    assert all(not layer.is_materialized() for layer in got.dask.layers.values())
    small = da.ones((50, 8, 8), chunks=(7, -1, -1), dtype="int8")
    want = eagerly(prog, np.ones((50, 8, 8), "int8"), boundary="reflect")
    np.testing.assert_array_equal(lazily(prog, small, boundary="reflect").compute(), want)


def test_two_outputs_of_a_stack_under_valid() -> None:
    prog = program(window([(-1, 1), (0, 2)]), window([(0, 0), (-3, 0)]))
    x = data(7, 6, 8)
    got = lazily(prog, da.from_array(x, chunks=(3, -1, -1)), boundary="valid")
    want = eagerly(prog, x, boundary="valid")
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        np.testing.assert_array_equal(one.compute(scheduler="sync"), other)


def test_many_chunks_build_fast() -> None:
    x = da.zeros((2000, 2000), chunks=10)
    prog = program(window([(-1, 1), (-1, 1)]))
    began = time.process_time()
    lazily(prog, x, boundary="wrap")
    took = time.process_time() - began
    # 250 000 chunks in 10 s is the aim; this is 40 000 on a machine that may be busy.
    assert took < 6


def test_a_key_names_its_meaning() -> None:
    x = da.zeros((10, 10), chunks=5)
    y = da.zeros((10, 10), chunks=(5, 10))
    prog = program(window([(-1, 1), (-1, 1)]))
    variants: list[Callable[[], Any]] = [
        lambda: lazily(prog, x),
        lambda: lazily(prog, y),
        lambda: lazily(prog, x, boundary="wrap"),
        lambda: lazily(prog, x, boundary=("fill", ("fill", "keep"))),
        lambda: lazily(prog, x, cval=1),
        lambda: lazily(prog, x, cval=-0.0),
        lambda: lazily(prog, x, cval=0.0),
        lambda: lazily(prog, x, axes=(1, 0)),
        lambda: lazily(prog, x, token="another"),
    ]
    names = [make().name for make in variants]
    assert len(set(names)) == len(names)
    assert names == [make().name for make in variants]


def test_numpy_fields_beside_dask_fields() -> None:
    prog = program(window([(-1, 1)] * 2) | window([(0, 1)] * 2, 1, field=1), fields=2)
    x, y = data(9, 10), data(10, seed=1)
    want = eagerly(prog, x, y, boundary="mirror")
    lazy = da.from_array(x, chunks=4)
    np.testing.assert_array_equal(lazily(prog, lazy, y, boundary="mirror").compute(), want)
    want = eagerly(prog, y, x, boundary="mirror")
    got = lazily(prog, y, lazy, boundary="mirror")
    assert got.chunks == lazy.chunks
    np.testing.assert_array_equal(got.compute(), want)


def test_foreign_byte_order() -> None:
    prog = program(window([(-1, 1)]))
    x = data(20).astype(">f8")
    got = lazily(prog, da.from_array(x, chunks=6), boundary="keep")
    np.testing.assert_array_equal(got.compute(), eagerly(prog, x, boundary="keep"))


def test_unknown_chunks_are_refused() -> None:
    x = da.from_array(data(20), chunks=5)
    with pytest.raises(ValueError, match=r"call .compute_chunk_sizes\(\)"):
        lazily(program(window([(0, 1)])), x[x > 50])


def test_refused_at_the_call() -> None:
    prog = program(window([(0, 1)]))
    with pytest.raises(TypeError, match="dtype datetime64"):
        lazily(prog, da.zeros(4, dtype="M8[s]"))
    with pytest.raises(TypeError, match="filled"):
        lazily(prog, da.ma.masked_array(da.zeros(4), da.zeros(4, dtype=bool)))
    with pytest.raises(ValueError, match="do not broadcast"):
        lazily(program(window([(0, 1)]), fields=2), da.zeros(4), da.zeros(5))
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        lazily(program(window([(0, 1)] * 2)), da.zeros(4))
    with pytest.raises(ValueError, match="cval=nan does not fit"):
        lazily(program(window([(0, 1)]), dtype=np.int32), da.zeros(4, int), cval=np.nan)
    with pytest.raises(ValueError, match="axis 1 does not exist"):
        lazily(prog, da.zeros(4), axes=(1,))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers(scheduler: str) -> None:
    prog = program(window([(-2, 1), (-1, 3)]))
    x = data(40, 50)
    got = lazily(prog, da.from_array(x, chunks=(13, 9)), boundary=("wrap", "mirror"))
    want = eagerly(prog, x, boundary=("wrap", "mirror"))
    np.testing.assert_array_equal(got.compute(scheduler=scheduler, num_workers=2), want)


def test_a_lazy_result_pickles() -> None:
    prog = program(window([(-1, 1)]))
    got = lazily(prog, da.from_array(data(20), chunks=6), boundary="wrap")
    again = pickle.loads(pickle.dumps(got))
    np.testing.assert_array_equal(again.compute(scheduler="sync"), got.compute(scheduler="sync"))


def test_distributed(dask_client) -> None:
    prog = program(window([(-2, 1), (-1, 3)]), window([(0, 1), (0, 0)]))
    x = data(40, 50)
    with dask_client(workers=2, threads=1, processes=True):
        got = lazily(prog, da.from_array(x, chunks=(13, 9)), boundary="reflect")
        computed = dask.compute(*got)
    for one, other in zip(computed, eagerly(prog, x, boundary="reflect"), strict=True):
        np.testing.assert_array_equal(one, other)
