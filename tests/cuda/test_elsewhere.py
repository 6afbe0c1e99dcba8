"""Arrays and files sent to a GPU and back, states there, and chunks of Dask that lie there."""

import gc

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from cuda_stencils import ROW, X, between, heat, inner, moment, over, striped, turn, twice, two
from PIL import Image

import ninepoint as npt
import on_gpu
from compared import each, refuses
from ninepoint.cli import main
from on_gpu import same

CALLS = {
    "axes": (between, (X, X), {"axes": (2, 0)}), "valid": (inner, (X,), {}),
    "valid along two others": (inner, (X,), {"axes": (0, 2)}),
    "a ring along the first axis": (turn, (X,), {"axes": (0, 1)}), "several": (two, (X, 0.25), {}),
    "fields that broadcast": (between, (X[:, :, :1], X[:1]), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_arrays_are_sent_there_and_back(cupy, limited, name):
    call, given, options = CALLS[name]
    wanted = call.debug(*given, **options)
    found = call(*given, device="cuda", **options)
    assert all(type(one) is np.ndarray for one in each(found))
    same(found, wanted)
    out = tuple(map(np.empty_like, each(wanted)))
    call(*given, device="cuda", out=out, **options)
    same(out, each(wanted))
    # Less room than one array takes: a piece at a time.
    before, cupy.fake.room = cupy.fake.room, cupy.fake.used + 10_000
    cupy.fake.log.clear()
    same(call(*given, device="cuda", **options), wanted)
    assert cupy.fake.log.count("upload") > 2
    # Small pieces, several at a time.
    cupy.fake.room = before
    limited(sent_bytes=2000, sent_reaches=1)
    same(call(*given, device="cuda", **options), wanted)


def test_pieces_are_on_their_way_beside_each_other(cupy, limited):
    limited(sent_bytes=2000, sent_reaches=1)
    frames, row = np.tile(X.reshape(-1, 3, 5)[:32], (10, 1, 1)), ROW[:5]
    wanted = between.debug(frames, row)
    cupy.fake.log.clear()
    same(between(frames, row, device="cuda"), wanted)
    # Each piece is done on the stream of one of three threads, which waits for it alone.
    lanes = [one[1] for one in cupy.fake.log if str(one[0]).startswith("kernel_between")]
    assert len(lanes) > 3
    assert len(set(lanes)) <= 3
    assert 0 not in lanes
    cupy.fake.failing = 701
    refuses(RuntimeError, "does not start kernel", between, X, ROW, device="cuda")
    # What breaks off leaves no copy on its way.
    assert not any(cupy.fake.queues.values())


def test_what_has_no_room_is_refused(cupy):
    # What is left of other tests would make room.
    gc.collect()
    cupy.fake.room = cupy.fake.used + 500
    refuses(MemoryError, "the GPU has no room", between, X, ROW, device="cuda")
    cupy.fake.room = cupy.fake.used + 15_000
    with pytest.raises(MemoryError, match="the GPU has no room: 10,560 bytes"):
        heat.iterate(X, 0.25, steps=2, device="cuda")


def test_what_is_sent_of_other_kinds(cupy):
    """Other bytes, itself, lazy values, names, filters, functions of numbers."""
    wanted = inner.debug(X)
    same(between(X.astype(">f4"), ROW, device="cuda"), between.debug(X, ROW))
    itself = X.copy()
    cupy.fake.room = cupy.fake.used + 10_000
    assert between(itself, ROW, device="cuda", out=itself) is itself
    same(itself, between.debug(X, ROW))
    cupy.fake.room = 1 << 34
    # With positions of a smaller stage, and of none.
    for few in (X[:, :6], X[:, :2]):
        same(striped(few, device="cuda"), striped.debug(few))
    named = xr.DataArray(X, dims=("t", "y", "x"), name="u")
    ways = {
        "lazy": (lambda: inner(npt.lazy(X), device="cuda").compute(), wanted),
        "computed": (lambda: over(inner(npt.lazy(X)), 0.5).compute(device="cuda"),
                     over(wanted, 0.5)),
        "names": (lambda: inner(named, device="cuda", dims=("y", "x")).data, wanted),
        "filter": (lambda: npt.filters.maximum(X, 3, device="cuda"), npt.filters.maximum(X, 3)),
    }  # fmt: skip
    for given in ((X, ROW), (X, 0.5), (0.25, ROW), (X[0, 0, 0], X[1, 0, 0])):
        ways[str(given)] = (lambda g=given: over(*g, device="cuda")), over(*given)
    for way, right in ways.values():
        cupy.fake.log.clear()
        found = way()
        assert "upload" in cupy.fake.log
        assert type(found) is type(right)
        np.testing.assert_array_equal(found, right)
    there = cupy.asarray(X)
    cupy.fake.log.clear()
    found = inner(there, device="cuda")
    assert not {"get", "upload"} & set(cupy.fake.log)
    same(found, wanted)


@npt.gufunc("(n)->()")
def total(x):
    return x.sum()


REFUSED = [
    (lambda: inner(X, device=0), ValueError, "device=0 is unknown"),
    (lambda: inner(npt.lazy(X), device="gpu"), ValueError, "device='gpu' is unknown"),
    (lambda: heat.iterate(X, 0.25, steps=1, device=0), ValueError, "device=0 is unknown"),
    (lambda: npt.lazy(X).compute(device="gpu"), ValueError, "device='gpu' is unknown"),
    (lambda: total(X, device="cuda"), TypeError, r"total\(\) is computed on the CPU, as all"),
    (lambda: inner.tune(X, device="cuda"), TypeError, "measures the CPU"),
    (lambda: inner.bench(npt.lazy(X), device="cuda"), TypeError, "'x' is of type Lazy"),
    (lambda: inner.bench(X[:0], device="cuda"), ValueError, "'x' is empty"),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_device_is_refused(cupy, call, error, words):
    refuses(error, words, call)


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


wave = npt.stencil(lambda u, v, c=0.5: (heat(u, c)[0, 1] - v[0, 0], u[0, 0]), boundary="nearest")


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
    calls = [
        lambda u: heat.iterate(u, [0.125, 0.25, 0.5], steps=3),
        lambda u: heat.iterate(u, 0.5, steps=50, until=0.25),
        lambda u: wave.iterate(u, u, lambda step: step / 8, steps=3),
    ]
    for call in calls:
        same(call(there), call(flat))
    kept, wanted = [], []
    for u, states in ((there, kept), (flat, wanted)):
        heat.iterate(u, 0.25, steps=5, every=2, callback=lambda _, u, own=states: own.append(u))
    same(tuple(kept), tuple(wanted))
    out = cupy.empty(flat.shape, "float32")
    for target in (out, there):
        wanted = heat.iterate(there.get(), 0.25, steps=3)
        assert heat.iterate(there, 0.25, steps=3, out=target) is target
        same(target, wanted)
    with pytest.raises(TypeError, match="out must be an array on a GPU"):
        heat.iterate(there, 0.25, steps=3, out=np.empty_like(flat))


def test_what_is_kept_between_steps_has_the_type_of_the_state(cupy):
    """What is computed is a truth, and what is kept beside it any number."""

    @npt.stencil(boundary=(("nearest", "keep"), "mirror"), dtype="int64")
    def above(x):
        return bool(x[1, 0] > x[0, 1])

    x = np.random.default_rng(0).integers(-99, 99, (10, 11))
    same(above.iterate(cupy.asarray(x), steps=4), above.iterate(x, steps=4))


def halved(_, u):
    u[0] /= 2


@pytest.mark.parametrize(("options", "times"), [
    ({"until": 0.02}, (1, 1)),
    # It is shown, and taken there again as it was left.
    ({"callback": halved, "every": 3}, (3, 3)),
    ({"callback": lambda step, _: step == 4, "every": 2}, (2, 2)),
])  # fmt: skip
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
    two_of_them = (X[0], X[1, :1])
    same(wave.iterate(*two_of_them, steps=3, device="cuda"), wave.iterate(*two_of_them, steps=3))
    found = heat.iterate(X, 0.25, steps=0, device="cuda")
    assert found is not X
    same(found, X)


exchanged = npt.stencil(lambda u, v: (v[0], u[0]))


def test_how_far_a_step_goes(cupy):
    far = np.array([1, np.inf, -np.inf, 2])
    for a, b in (
        (far, far + np.array([0.5, 0, 0, 0])), (np.array([1, np.nan]), np.array([1.0, 2])),
        (np.array([True, False]), np.array([True, True])),
        (np.array([-(2**63)]), np.array([2**63 - 1])),
        (np.array([3], "uint8"), np.array([200], "uint8")), (np.zeros(0), np.zeros(0)),
        (np.array([1j]), np.array([1.0 + 0j])),
    ):  # fmt: skip
        for least in (0, 0.6, 197, 2.0**64):
            # Once exchanged they are seen to have stopped, twice not.
            named = {"steps": 2, "until": least}
            there = exchanged.iterate(cupy.asarray(a), cupy.asarray(b), **named)
            same(there, exchanged.iterate(a, b, **named))


def test_chunks_that_lie_there(cupy):
    x = da.from_array(X, chunks=(3, 7, 12)).map_blocks(cupy.asarray)
    fetched = {"dtype": X.dtype, "meta": np.empty((0,) * 3, X.dtype)}
    with dask.config.set(scheduler="sync"):
        calls = {
            "one": (lambda x: inner(x), inner.debug(X)),
            "a ring": (lambda x: turn(x, axes=(0, 1)), turn.debug(X, axes=(0, 1))),
            "several": (lambda x: two(x)[0], two.debug(X)[0]),
            "positions": (lambda x: moment(x), moment.debug(X)),
            "calls": (lambda x: twice(x, 0.25), twice.debug(X, 0.25)),
            "steps": (lambda x: heat.iterate(x, 0.25, steps=3), heat.iterate(X, 0.25, steps=3)),
            "names": (lambda x: inner(xr.DataArray(x, dims=tuple("tyx"))).data, inner.debug(X)),
            "an array": (lambda x: between(x, cupy.asarray(ROW)), between.debug(X, ROW)),
        }
        with on_gpu.prepared(lambda call=call: call(x).compute() for call, _ in calls.values()):
            pass
        for call, wanted in calls.values():
            one = call(x)
            assert type(one._meta) is cupy.ndarray
            same(one.map_blocks(cupy.asnumpy, **fetched).compute(), wanted)
    for given in ((x, ROW), (da.from_array(X), cupy.asarray(ROW))):
        refuses(TypeError, "some of these arrays lie on a GPU and others in", between, *given)


def test_chunks_are_sent_one_by_one(cupy):
    x = da.from_array(X, chunks=(2, 9, 20))
    calls = {
        "calls": (lambda: twice(x, 0.25, device="cuda"), twice.debug(X, 0.25)),
        "a ring": (lambda: turn(x, device="cuda"), turn.debug(X)),
        "steps": (lambda: heat.iterate(x, 0.25, steps=4, device="cuda"),
                  heat.iterate(X, 0.25, steps=4)),
    }  # fmt: skip
    for call, wanted in calls.values():
        cupy.fake.log.clear()
        lazy = call()
        assert isinstance(lazy._meta, np.ndarray)
        assert not cupy.fake.launches()
        same(lazy.compute(scheduler="sync"), wanted)
        # Each thread has a stream of its own.
        streams = {one[1] for one in cupy.fake.log if "kernel_" in str(one)}
        assert len(streams) == 1
        assert streams != {0}


def test_blocks_that_find_no_room_beside_others_wait(cupy):
    lazily = turn(da.from_array(X[0], chunks=(4, 33)), device="cuda")
    # Each takes about 4 kB.
    cupy.fake.room = cupy.fake.used + 5000
    same(lazily.compute(scheduler="threads", num_workers=4), turn.debug(X[0]))
    cupy.fake.room = cupy.fake.used + 500
    refuses(MemoryError, "the GPU has no room", lazily.compute, scheduler="threads", num_workers=4)


KERNELS = """\
import ninepoint as npt

@npt.stencil(boundary="reflect")
def smooth(x):
    return (x[-1, 0] + x[0, -1] + x[0, 0] + x[0, 1] + x[1, 0]) // 5

@npt.stencil(boundary="nearest")
def before(x):
    return x[0, 0, 0] // 2 + x[-1, 0, 0] // 2

@npt.stencil
def halvings(x):
    count = 0
    while x[0, 0] > 2**count:
        count += 1
    return count
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with kernels.py and five frames."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "frames").mkdir()
    frames = np.random.default_rng(0).integers(0, 256, (5, 31, 45), dtype=np.uint8)
    for k, frame in enumerate(frames):
        Image.fromarray(frame).save(tmp_path / "frames" / f"{k}.png")
    return tmp_path


def written(folder):
    return [np.asarray(Image.open(path)) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize(
    "words", ["kernels.py:smooth --threads 2", "kernels.py:before --threads 1", "median"]
)
def test_frames_go_through_a_gpu(cupy, here, words):
    kernel, *threads = words.split()
    options = ["--dtype", "uint8", "--overflow", "saturate", "--quiet"]
    assert main(["apply", kernel, "frames", "plain", *options]) == 0
    cupy.fake.log.clear()
    assert main(["apply", kernel, "frames", "sent", *options, *threads, "--device", "cuda"]) == 0
    # Frame by frame, save for a kernel that looks from frame to frame: small ones are one block.
    assert len(cupy.fake.launches()) >= (1 if kernel.endswith("before") else 5)
    np.testing.assert_array_equal(written(here / "sent"), written(here / "plain"))


def test_nothing_is_written_where_a_gpu_cannot_compute(cupy, here, capsys):
    words = ["apply", "kernels.py:halvings", "frames", "out", "--device", "cuda"]
    cupy.fake.devices = 0
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("ninepoint: error: --device cuda: there is no GPU to compute on")
    cupy.fake.devices = 1
    assert main(words) == 1
    assert "cannot be computed on a GPU" in capsys.readouterr().err
    assert not (here / "out").exists()
