"""However a Dask array is cut, the result is that of the whole array, and the reference's.

Each kernel is compiled once and applied under many chunkings; seeds are fixed.
"""

from __future__ import annotations

import time
from random import Random
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import agreement
import ninepoint as npt
from sliced import sliced
from thorough import only

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

KERNELS = 12
CHUNKINGS = 9


def random_chunks(rng: Random, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Cuts of every kind: whole, single elements, even ones, and any, with empty ones."""

    def cuts(n: int) -> tuple[int, ...]:
        way = rng.randrange(6)
        if way == 0 or n == 0:
            return (n,)
        if way == 1:
            return (1,) * n
        if way == 2:
            size = rng.randint(1, n)
            return (size,) * (n // size) + ((n % size,) if n % size else ())
        ends = sorted(rng.randint(0, n) for _ in range(rng.randint(1, 3)))
        return tuple(b - a for a, b in zip([0, *ends], [*ends, n], strict=True))

    return tuple(cuts(n) for n in shape)


def cut(rng: Random, drawn: agreement.Drawn, *, alone: bool) -> dict[str, Any]:
    """The arrays of a kernel, its fields as Dask arrays; one may stay as it is."""
    values = drawn.values
    fields = list(drawn.case.fields)
    cuts = [name for name in fields if not alone or rng.random() < 0.7] or fields[:1]
    # Every other time they are views, of which tasks may read regions.
    made = sliced if rng.random() < 0.5 else da.from_array
    return values | {
        name: made(values[name], random_chunks(rng, values[name].shape)) for name in cuts
    }


def computed(results: Any, **options: Any) -> tuple[np.ndarray, ...]:
    lazy = results if isinstance(results, tuple) else (results,)
    values = dask.compute(*lazy, **options)
    for one, value in zip(lazy, values, strict=True):
        assert isinstance(one, da.Array)
        assert value.dtype == one.dtype == one._meta.dtype
        assert value.shape == one.shape
    return values


def assert_same(actual: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]) -> None:
    """Bit for bit; a NaN is a NaN."""
    assert len(actual) == len(wanted)
    for one, other in zip(actual, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", only(6, range(70_000, 70_000 + KERNELS)))
def test_random_kernels_under_random_chunkings(seed):
    rng = Random(seed)
    drawn = agreement.draw(seed, approximate=False)
    borders = [drawn.boundary]
    borders += [agreement.kernels.random_boundary(rng, drawn.case.ndim) for _ in range(3)]
    # Where a value may be kept, the kernel is compiled again: one such border is enough.
    borders[1:] = [b for b in borders[1:] if "keep" not in str(b)]
    shape = agreement.kernels.random_shape(rng, drawn.case.ndim)
    for number in range(CHUNKINGS):
        arrays = drawn.arrays
        if number % 3 == 1:
            arrays = agreement.kernels.random_arrays(rng, drawn.case, (rng.randint(1, 3), *shape))
        one = agreement.Drawn(drawn.case, arrays, borders[number % len(borders)], drawn.stencil)
        cval = rng.choice([0, 1])
        wanted = agreement.by_call(one, cval)
        agreement.compare(one, wanted, agreement.expected(one, cval))
        values = cut(rng, one, alone=number > 3)
        lazy = one.stencil(**values, boundary=one.boundary, cval=cval)
        words = f"{one.case}\n{values}\n{one.boundary}"
        try:
            assert_same(computed(lazy, scheduler="sync"), wanted)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{words}") from error


@npt.stencil
def far(x, y, gain=2):
    """Reads further to one side than small arrays are long, and two fields differently."""
    return x[-3, 1] * gain - y[0, 4], x[1:3, -2:1].max()


RULES = agreement.kernels.RULES


@pytest.mark.parametrize("rule", RULES)
def test_every_border_with_chunks_smaller_than_the_reach(rule):
    rng = Random(RULES.index(rule))
    for shape in ((7, 9), (2, 3), (1, 1), (3, 5, 4), (0, 4), (6, 0)):
        x = np.arange(np.prod(shape), dtype="int16").reshape(shape) % 11
        y = (x * 7 % 13).astype("int16")[..., :1, :]
        wanted = far(x, y, boundary=rule, cval=3)
        for chunks in (1, 2, (3,) * len(shape), None):
            first = random_chunks(rng, shape) if chunks is None else chunks
            lazy = far(
                da.from_array(x, chunks=first),
                da.from_array(y, chunks=random_chunks(rng, y.shape)),
                boundary=rule,
                cval=3,
            )
            assert_same(computed(lazy, scheduler="sync"), wanted)


@pytest.mark.parametrize("rule", [("wrap", "fill"), (("keep", "valid"), "mirror"), "constant"])
def test_axes(rule):
    rng = Random(1)
    x = np.arange(4 * 6 * 5, dtype="int16").reshape(4, 6, 5) % 17
    for axes in ((0, 1), (2, 0), (-1, -2)):
        wanted = far(x, x[::-1], boundary=rule, axes=axes, cval=1)
        for _ in range(3):
            lazy = far(
                da.from_array(x, chunks=random_chunks(rng, x.shape)),
                da.from_array(x[::-1], chunks=random_chunks(rng, x.shape)),
                boundary=rule,
                axes=axes,
                cval=1,
            )
            assert_same(computed(lazy, scheduler="sync"), wanted)


@npt.stencil(standard_indexing="w", boundary="reflect")
def weighted(x, w, gain=1.5, *, flag=True):
    total = 0.0
    for k in range(3):
        total += x[k - 1, 0] * w[k]
    return total * gain if flag else total


@npt.stencil(neighborhood=((-1, 1), (0, 2)), boundary="mirror")
def general(x, n):
    found = x[0, 0]
    while n > 0:
        if x[-1, n] > found:
            found = x[-1, n]
        n -= 1
    return found


def problems() -> list[tuple[Any, np.ndarray]]:
    """Lazy results of all kinds, each with what it should be."""
    rng = Random(5)
    x = np.random.default_rng(5).integers(0, 99, (3, 40, 30)).astype("float32")
    w = np.array([1.0, 2.0, 0.5])

    def lazy(array: np.ndarray) -> Any:
        return da.from_array(array, chunks=random_chunks(rng, array.shape))

    def local(step: int) -> npt.Stencil:
        return npt.stencil(boundary="wrap")(lambda v: v[0, step] - v[-step, 0])

    found = [
        (weighted(lazy(x), w, flag=False), weighted(x, w, flag=False)),
        (weighted(lazy(x[0]), w, 3), weighted(x[0], w, 3)),
        (general(lazy(x), 2), general(x, 2)),
        (local(2)(lazy(x)), local(2)(x)),
    ]
    ints = x.astype("uint8")
    several = far(lazy(ints), lazy(ints[0]), boundary="wrap")
    found += zip(several, far(ints, ints[0], boundary="wrap"), strict=True)
    return found


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers(scheduler):
    lazy, wanted = zip(*problems(), strict=True)
    assert_same(dask.compute(*lazy, scheduler=scheduler, num_workers=2), wanted)


@pytest.mark.filterwarnings("ignore:.*unclosed.*:ResourceWarning")
def test_distributed(dask_client):
    lazy, wanted = zip(*problems(), strict=True)
    with dask_client(workers=1, threads=2, processes=True):
        assert_same(dask.compute(*lazy), wanted)


def test_nothing_is_computed_at_the_call():
    def never(block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    source = da.zeros((20, 30), chunks=(7, 8), dtype="uint8").map_blocks(never, dtype="uint8")
    lazy = general(source, 2)
    assert (lazy.dtype, lazy.chunks) == (np.dtype("int64"), source.chunks)
    assert isinstance(lazy._meta, np.ndarray)
    assert lazy._meta.shape == (0, 0)
    first, second = far(source, source, boundary="valid")
    assert first.shape == (17, 26)
    assert second.shape == (18, 28)
    assert (first.dtype, second.dtype) == (np.dtype("int64"), np.dtype("uint8"))


def test_the_call_on_a_million_images():
    x = da.ones((1000000, 1000, 1000), chunks=("auto", -1, -1), dtype="int8")

    @npt.stencil
    def smooth(x):
        return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
                x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
                x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip

    began = time.process_time()
    y = smooth(x)
    assert time.process_time() - began < 1
    assert (y.dtype, y.chunks) == (x.dtype, x.chunks)
    some = y[:2].compute(scheduler="sync")
    np.testing.assert_array_equal(some, np.pad(np.ones((2, 998, 998), "int8"), [(0,), (1,), (1,)]))


def make(step: int = 1, extra: float = 0.5, weights: tuple[int, ...] = (1, 2, 1)) -> npt.Stencil:
    constant = np.array(weights)

    @npt.stencil
    def kernel(x, gain=1):
        return (x[-1:2] * constant).sum() * gain + x[step] + extra

    return kernel


def test_equal_meanings_have_equal_keys_and_others_do_not():
    x = da.zeros(12, chunks=5)
    calls = {
        "plain": lambda: make()(x),
        "step": lambda: make(step=2)(x),
        "int": lambda: make(extra=1)(x),
        "float": lambda: make(extra=1.0)(x),
        "zero": lambda: make(extra=0.0)(x),
        "minus zero": lambda: make(extra=-0.0)(x),
        "weights": lambda: make(weights=(1, 2, 3))(x),
        "gain": lambda: make()(x, 2),
        "gain, bool": lambda: make()(x, True),
        "gain, float": lambda: make()(x, 2.0),
        "gain, float32": lambda: make()(x, np.float32(2)),
        "boundary": lambda: make()(x, boundary="wrap"),
        "sides": lambda: make()(x, boundary=(("fill", "nearest"),)),
        "cval": lambda: make()(x, cval=1),
        "nan": lambda: make()(x, cval=np.nan),
        "dtype": lambda: make()(x, dtype="float32"),
        "wrap": lambda: make()(x, dtype="int8", overflow="wrap"),
        "saturate": lambda: make()(x, dtype="int8", overflow="saturate"),
        "fastmath": lambda: npt.stencil(fastmath=True)(make().__wrapped__)(x),
        "chunks": lambda: make()(da.zeros(12, chunks=4)),
        "field": lambda: make()(da.zeros(12, chunks=5, dtype="float32")),
    }
    names = {what: call().name for what, call in calls.items()}
    assert len(set(names.values())) == len(names)
    assert names == {what: call().name for what, call in calls.items()}


def test_tables_in_the_key():
    x = da.zeros((6, 6), chunks=3)
    w = np.array([1.0, 2.0, 3.0])
    name = weighted(x, w).name
    assert weighted(x, w.copy()).name == name
    assert weighted(x, np.array([1.0, 0, 2.0, 0, 3.0])[::2]).name == name
    assert weighted(x, w + 1).name != name
    assert weighted(x, w.astype("float32")).name != name


def test_changed_values_do_not_reach_a_lazy_result():
    """A table, and a scalar in an array of no dimensions, are read at the call."""
    x, w = np.ones((5, 5)), np.array([1.0, 2.0, 3.0])
    lazy = weighted(da.from_array(x, chunks=2), w)
    wanted = weighted(x, w)
    w[:] = 0
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), wanted)
