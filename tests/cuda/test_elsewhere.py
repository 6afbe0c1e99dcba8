"""Arrays sent to a GPU and back, states there, and Dask arrays whose chunks lie there."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from nightly import only

RNG = np.random.default_rng(0)
X = RNG.random((4, 20, 33)).astype("float32")
ROW = RNG.random(33).astype("float32")


@npt.stencil(boundary="nearest")
def between(x, y):
    return x[-1, 1] - y[0, 2] * x[1, 0]


@npt.stencil(boundary="valid")
def inner(x):
    return x[-1, 1] - x[1, -2]


@npt.stencil(boundary="nearest")
def two(x, r=0.5):
    s = between(x, x)
    return s[0, 0] + r * x[1, 1], s[0, 1] > 0.5


@npt.stencil(boundary="nearest")
def striped(x):
    s = inner(x)
    return s[-1, 1] if npt.index(s)[1] % 2 else s[1, 0]


@npt.stencil(boundary="wrap")
def turn(x):
    return x[-2, 1] - x[1, 0]


@npt.stencil(boundary="keep")
def heat(u, r):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] - 2 * u[0, 0])


@npt.stencil(boundary="nearest")
def wave(u, v, c=0.5):
    s = heat(u, c)
    return s[0, 1] - v[0, 0], u[0, 0]


@npt.stencil(boundary="nearest")
def twice(u, r):
    s = heat(u, r)
    return s[0, 1] - r * s[-1, 0]


@npt.ufunc
def over(x, y, *, gain=1.0):
    return gain * (x - y) if x > y else x


@npt.gufunc("(n)->()")
def total(x):
    return x.sum()


def pairs(found, wanted):
    if not isinstance(wanted, tuple):
        found, wanted = (found,), (wanted,)
    return zip(found, wanted, strict=True)


def same(found, wanted):
    for one, other in pairs(found, wanted):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one if isinstance(one, np.ndarray) else one.get(), other)


# There and back.

CALLS = {
    "one": (between, (X, ROW), {}),
    "axes": (between, (X, X), {"axes": (2, 0)}),
    "valid": (inner, (X,), {}),
    "valid along two others": (inner, (X,), {"axes": (0, 2)}),
    "a ring": (turn, (X,), {}),
    "a ring along the first axis": (turn, (X,), {"axes": (0, 1)}),
    "several": (two, (X, 0.25), {}),
    "fields that broadcast": (between, (X[:, :, :1], X[:1]), {}),
}


@pytest.mark.parametrize("name", only(6, CALLS))
def test_arrays_are_sent_there_and_back(cupy, name):
    call, given, options = CALLS[name]
    wanted = call.debug(*given, **options)
    found = call(*given, device="cuda", **options)
    assert all(type(one) is np.ndarray for one, _ in pairs(found, wanted))
    same(found, wanted)
    # Less room than one array takes: a piece at a time.
    del found
    cupy.fake.room = cupy.fake.used + 10_000
    cupy.fake.log.clear()
    same(call(*given, device="cuda", **options), wanted)
    assert cupy.fake.log.count("upload") > 2
    out = tuple(np.empty_like(other) for _, other in pairs(wanted, wanted))
    call(*given, device="cuda", out=out, **options)
    same(out if len(out) > 1 else out[0], wanted)


def test_pieces_are_on_their_way_beside_each_other(cupy, limited):
    limited(sent_bytes=2000)
    limited(sent_reaches=1)
    for call, given, options in CALLS.values():
        cupy.fake.log.clear()
        found = call(*given, device="cuda", **options)
        same(found, call.debug(*given, **options))
    frames, row = np.tile(X.reshape(-1, 3, 5)[:32], (10, 1, 1)), ROW[:5]
    wanted = between.debug(frames, row)
    cupy.fake.log.clear()
    same(between(frames, row, device="cuda"), wanted)
    # Each piece is done on the stream of one of three threads, which waits for it alone.
    lanes = [one[1] for one in cupy.fake.log if str(one[0]).startswith("kernel_between")]
    assert len(lanes) > 3
    assert len(set(lanes)) <= 3
    assert 0 not in lanes


def test_a_piece_that_breaks_off_leaves_no_copy_on_its_way(cupy, limited):

    limited(sent_bytes=2000)
    limited(sent_reaches=1)
    cupy.fake.failing = 701
    with pytest.raises(RuntimeError, match="does not start kernel"):
        between(X, ROW, device="cuda")
    assert not any(cupy.fake.queues.values())


def test_what_cannot_be_cut_and_has_no_room_is_refused(cupy):
    cupy.fake.room = cupy.fake.used + 500
    with pytest.raises(MemoryError, match="the GPU has no room"):
        between(X, ROW, device="cuda")


def test_bytes_in_the_other_order_are_turned_round(cupy):
    other = X.astype(X.dtype.newbyteorder())
    same(between(other, ROW, device="cuda"), between.debug(X, ROW))


def test_sent_in_place(cupy):
    cupy.fake.room = cupy.fake.used + 10_000
    over_itself = X.copy()
    assert between(over_itself, ROW, device="cuda", out=over_itself) is over_itself
    np.testing.assert_array_equal(over_itself, between.debug(X, ROW))


@pytest.mark.parametrize("rows", [2, 20])
def test_sent_with_positions_of_a_smaller_stage(cupy, rows):
    fields = X[:, :rows]
    same(striped(fields, device="cuda"), striped.debug(fields))


def test_sent_lazily_and_by_names(cupy):
    wanted = inner.debug(X)
    cupy.fake.log.clear()
    same(inner(npt.lazy(X), device="cuda").compute(), wanted)
    assert "upload" in cupy.fake.log
    named = xr.DataArray(X, dims=("t", "y", "x"), name="u")
    found = inner(named, device="cuda", dims=("y", "x"))
    same(found.data, wanted)
    same(npt.filters.maximum(X, 3, device="cuda"), npt.filters.maximum(X, 3))


def test_what_lies_there_stays_there(cupy):
    there = cupy.asarray(X)
    cupy.fake.log.clear()
    found = inner(there, device="cuda")
    assert not {"get", "upload"} & set(cupy.fake.log)
    same(found, inner.debug(X))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: inner(X, device="gpu"), ValueError, "device='gpu' is unknown; use \"cuda\""),
        (lambda: inner(X, device=0), ValueError, "device=0 is unknown"),
        (lambda: inner(npt.lazy(X), device="gpu"), ValueError, "device='gpu' is unknown"),
        (lambda: heat.iterate(X, 0.25, steps=1, device=0), ValueError, "device=0 is unknown"),
        (lambda: npt.lazy(X).compute(device="gpu"), ValueError, "device='gpu' is unknown"),
        (lambda: total(X, device="cuda"), TypeError, r"total\(\) is computed on the CPU, as all"),
        (lambda: inner.tune(X, device="cuda"), TypeError, "measures the CPU"),
        (lambda: inner.bench(npt.lazy(X), device="cuda"), TypeError, "'x' is of type Lazy"),
        (lambda: inner.bench(X[:0], device="cuda"), ValueError, "'x' is empty"),
    ],
)
def test_device_is_refused(cupy, call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_calls_on_a_gpu_are_measured(cupy):
    again = npt.stencil(boundary="keep")(heat.__wrapped__)
    found = again.bench(cupy.asarray(X), 0.25, repeat=3)
    assert (found.points, found.bytes, found.copy_bytes) == (X.size, 2 * X.nbytes, 2 * X.nbytes)
    assert 1 <= found.samples <= 3
    assert "of a copy" in str(found)
    assert ", Stand-in; before: " in str(found)
    assert again.bench(cupy.asarray(X), 0.25, repeat=1).preparation == "already compiled"
    cupy.fake.log.clear()
    assert over.bench(X, 0.5, repeat=1, device="cuda").device == "Stand-in"
    assert {"upload", "get"} <= set(cupy.fake.log)


# States.


def test_states_stay_there(cupy):
    there, flat = cupy.asarray(X[0]), X[0]
    cupy.fake.log.clear()
    found = heat.iterate(there, 0.25, steps=7)
    assert [one[0].removesuffix("_plain") for one in cupy.fake.log] == ["kernel_heat"] * 7
    same(found, heat.iterate(flat, 0.25, steps=7))
    np.testing.assert_array_equal(there.get(), flat)
    none = heat.iterate(there, 0.25, steps=0)
    assert none is not there
    same(none, flat)
    rates = [0.125, 0.25, 0.5]
    same(heat.iterate(there, rates, steps=3), heat.iterate(flat, rates, steps=3))
    same(
        heat.iterate(there, 0.5, steps=50, until=0.25),
        heat.iterate(flat, 0.5, steps=50, until=0.25),
    )
    same(wave.iterate(there, there, steps=5), wave.iterate(flat, flat, steps=5))
    lagging = lambda step: step / 8  # noqa: E731
    same(wave.iterate(there, there, lagging, steps=3), wave.iterate(flat, flat, lagging, steps=3))


def test_what_is_kept_between_steps_has_the_type_of_the_state(cupy):
    """What is computed is a truth, and what is kept beside it any number."""

    @npt.stencil(boundary=(("nearest", "keep"), "mirror"), dtype="int64")
    def above(x):
        return bool(x[1, 0] > x[0, 1])

    x = np.random.default_rng(0).integers(-99, 99, (10, 11))
    made = above.iterate(cupy.asarray(x), steps=4)
    np.testing.assert_array_equal(cupy.asnumpy(made), above.iterate(x, steps=4))


def halved(_, u):
    u[0] /= 2


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({}, (1, 1)),
        ({"until": 0.02}, (1, 1)),
        # It is shown, and taken there again as it was left.
        ({"callback": halved, "every": 3}, (3, 3)),
        ({"callback": lambda step, _: step == 4, "every": 2}, (2, 2)),
    ],
)
def test_states_are_sent_once_and_come_back_once(cupy, options, times):
    wanted = heat.iterate(X, 0.25, steps=8, **options)
    cupy.fake.log.clear()
    found = heat.iterate(X, 0.25, steps=8, device="cuda", **options)
    assert type(found) is np.ndarray
    same(found, wanted)
    assert (cupy.fake.log.count("upload"), cupy.fake.log.count("get")) == times
    out = np.empty_like(X)
    assert heat.iterate(X, 0.25, steps=8, device="cuda", out=out, **options) is out
    same(out, wanted)


def test_states_of_all_kinds_are_sent(cupy):
    wanted = heat.iterate(X, 0.25, steps=3)
    named = heat.iterate(xr.DataArray(X, dims=tuple("tyx")), 0.25, steps=3, device="cuda")
    same(named.data, wanted)
    cupy.fake.log.clear()
    with dask.config.set(scheduler="sync"):
        lazily = heat.iterate(da.from_array(X, chunks=(4, 20, 17)), 0.25, steps=3, device="cuda")
        same(lazily.compute(), wanted)
    assert "upload" in cupy.fake.log
    same(
        wave.iterate(X[0], X[1, :1], steps=3, device="cuda"),
        wave.iterate(X[0], X[1, :1], steps=3),
    )
    found = heat.iterate(X, 0.25, steps=0, device="cuda")
    assert found is not X
    same(found, X)


def test_a_state_that_has_no_room_is_refused(cupy):
    cupy.fake.room = cupy.fake.used + 15_000
    with pytest.raises(MemoryError, match="the GPU has no room: 10,560 bytes"):
        heat.iterate(X, 0.25, steps=2, device="cuda")


def test_functions_of_numbers_are_sent(cupy):
    for given in ((X, ROW), (X, 0.5), (0.25, ROW), (X[0, 0, 0], X[1, 0, 0])):
        cupy.fake.log.clear()
        found, wanted = over(*given, gain=3, device="cuda"), over(*given, gain=3)
        assert type(found) is type(wanted)
        np.testing.assert_array_equal(found, wanted)
        assert "upload" in cupy.fake.log
    cupy.fake.log.clear()
    found = over(inner(npt.lazy(X)), 0.5).compute(device="cuda")
    np.testing.assert_array_equal(found, over(inner(X), 0.5))
    assert "upload" in cupy.fake.log


def test_several_calls(cupy):
    there = cupy.asarray(X)
    for options in ({}, {"axes": (2, 0)}):
        wanted = twice(X, 0.25, **options)
        # The first call, and one that is settled.
        for _ in range(2):
            same(twice(there, 0.25, **options), wanted)
        out = cupy.empty(X.shape, "float32")
        for _ in range(2):
            twice(there, 0.5, out=out, **options)
            same(out, twice(X, 0.5, **options))


def test_a_callback_may_keep_the_states(cupy):
    kept, wanted = [], []
    heat.iterate(cupy.asarray(X), 0.25, steps=5, every=2, callback=lambda _, u: kept.append(u))
    heat.iterate(X, 0.25, steps=5, every=2, callback=lambda _, u: wanted.append(u))
    for one, other in zip(kept, wanted, strict=True):
        same(one, other)


def test_states_in_out(cupy):
    wanted = heat.iterate(X, 0.25, steps=3)
    there, out = cupy.asarray(X), cupy.empty(X.shape, "float32")
    assert heat.iterate(there, 0.25, steps=3, out=out) is out
    same(out, wanted)
    assert heat.iterate(there, 0.25, steps=3, out=there) is there
    same(there, wanted)
    with pytest.raises(TypeError, match="out must be an array on a GPU"):
        heat.iterate(there, 0.25, steps=3, out=np.empty_like(X))


@npt.stencil
def exchanged(u, v):
    return v[0], u[0]


def test_how_far_a_step_goes(cupy):
    far = np.array([1, np.inf, -np.inf, 2])
    for a, b in (
        (far, far + np.array([0.5, 0, 0, 0])),
        (np.array([1, np.nan]), np.array([1.0, 2])),
        (np.array([True, False]), np.array([True, True])),
        (np.array([-(2**63)]), np.array([2**63 - 1])),
        (np.array([3], "uint8"), np.array([200], "uint8")),
        (np.zeros(0), np.zeros(0)),
        (np.array([1j]), np.array([1.0 + 0j])),
    ):
        for least in (0, 0.6, 197, 2.0**64):
            # Once exchanged they are seen to have stopped, twice not.
            named = {"steps": 2, "until": least}
            same(
                exchanged.iterate(cupy.asarray(a), cupy.asarray(b), **named),
                exchanged.iterate(a, b, **named),
            )


# Dask.


def test_chunks_that_lie_there(cupy):
    x = da.from_array(X, chunks=(3, 7, 12)).map_blocks(cupy.asarray)
    with dask.config.set(scheduler="sync"):
        for call, debug, options in (
            (inner, inner.debug, {}),
            (turn, turn.debug, {"axes": (0, 1)}),
            (two, two.debug, {}),
        ):
            wanted = debug(X, **options)
            for one, other in pairs(call(x, **options), wanted):
                assert type(one._meta) is cupy.ndarray
                assert one._meta.dtype == other.dtype
                found = one.map_blocks(cupy.asnumpy, dtype=one.dtype).compute()
                np.testing.assert_array_equal(found, other)
        state = heat.iterate(x, 0.25, steps=3).map_blocks(cupy.asnumpy).compute()
        np.testing.assert_array_equal(state, heat.iterate(X, 0.25, steps=3))
        named = xr.DataArray(x, dims=("t", "y", "x"))
        found = inner(named).data.map_blocks(cupy.asnumpy).compute()
        np.testing.assert_array_equal(found, inner.debug(X))


def test_calls_on_blocks_and_pieces(cupy):
    wanted = twice.debug(X, 0.25)
    x = da.from_array(X, chunks=(2, 9, 20))
    with dask.config.set(scheduler="sync"):
        found = twice(x.map_blocks(cupy.asarray), 0.25).map_blocks(cupy.asnumpy).compute()
        same(found, wanted)
        same(twice(x, 0.25, device="cuda").compute(), wanted)
        # Steps too: those of a task.
        lazily = heat.iterate(x, 0.25, steps=4, device="cuda")
        same(lazily.compute(), heat.iterate(X, 0.25, steps=4))
    cupy.fake.log.clear()
    cupy.fake.room = cupy.fake.used + 14_000
    same(twice(X, 0.25, device="cuda"), wanted)
    assert cupy.fake.log.count("upload") > 1


def test_an_array_beside_chunks(cupy):
    x = da.from_array(X, chunks=(3, 7, 12)).map_blocks(cupy.asarray)
    wanted = between.debug(X, ROW)
    with dask.config.set(scheduler="sync"):
        found = between(x, cupy.asarray(ROW)).map_blocks(cupy.asnumpy).compute()
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(TypeError, match="some of these arrays lie on a GPU and others in"):
        between(x, ROW)
    with pytest.raises(TypeError, match="some of these arrays lie on a GPU and others in"):
        between(da.from_array(X), cupy.asarray(ROW))
