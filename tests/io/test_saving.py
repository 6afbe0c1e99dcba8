"""save: stores that are right for any chunks, gone on with after anything, or not at all."""

import os
import re
import resource
import signal
import time

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr

import ninepoint as npt
from compared import most_memory, refuses
from seams import limits

IMAGE = np.random.default_rng(0).integers(0, 255, (50, 37)).astype("float32")
ELSE = "begun with another computation"


@npt.stencil(boundary="reflect")
def smooth(x, weight=1):
    return x[-1, 0] + x[0, -1] + weight * x[0, 0] + x[0, 1] + x[1, 0]


@npt.stencil(boundary="reflect")
def rough(x, weight=1):
    return x[-1, 0] - x[0, -1] + weight * x[0, 0] + x[0, 1] + x[1, 0]


WANTED = smooth(IMAGE)


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


def lazy(chunks=10):
    return da.from_array(IMAGE, chunks=chunks)


def stored(path):
    return zarr.open_array(path)[:]


def unfinished(path):
    return "incomplete" in zarr.open(path, mode="r").attrs


class Stop(Exception):
    pass


def stopping(after):
    """A progress that ends the run, as Ctrl-C does, after some units."""

    def progress(done, total):
        if done >= after:
            raise Stop

    return progress


def begun(path, array, after=5, **options):
    refuses(Stop, "", npt.save, array, path, progress=stopping(after), **options)
    assert unfinished(path)


@pytest.mark.parametrize(
    ("lazily", "chunks", "shards"), [(5, 4, 8), ((17, 37), 8, None), (10, None, 16)]
)
def test_any_chunks_give_the_same_values(tmp_path, lazily, chunks, shards):
    path = npt.save(smooth(lazy(lazily)), tmp_path / "a.zarr", chunks=chunks, shards=shards)
    np.testing.assert_array_equal(stored(path), WANTED)
    assert not unfinished(path)
    assert os.listdir(path / ".ninepoint") == ["meaning"]


def test_what_is_not_said_of_chunks_is_chosen(tmp_path):
    large = da.zeros((9000, 8000), dtype="float32", chunks=(3000, 2000))
    begun(tmp_path / "a.zarr", large, 0)
    made = zarr.open_array(tmp_path / "a.zarr")
    assert (made.chunks, made.shards) == ((375, 500), (3000, 2000))
    # A unit is a chunk of Dask where that is whole.
    seen = []
    npt.save(lazy(20), tmp_path / "b.zarr", chunks=5, progress=lambda *n: seen.append(n))
    assert seen[-1] == (6, 6)
    assert zarr.open_array(tmp_path / "b.zarr").chunks == (5, 5)


@pytest.mark.parametrize(
    "array", [np.zeros((0, 4)), np.array(3.0), np.ones((3, 2), bool), np.arange(7)]
)
def test_arrays_of_any_shape(tmp_path, array):
    for path in (npt.save(array, tmp_path / "a.zarr"), npt.save(array, tmp_path / "a.npy")):
        back = np.load(path) if path.suffix == ".npy" else zarr.open_array(path)[...]
        np.testing.assert_array_equal(back, array, strict=True)
    named = xr.DataArray(da.from_array(array, chunks=-1))
    with xr.open_zarr(npt.save(named, tmp_path / "b.zarr")) as back:
        np.testing.assert_array_equal(back["data"], array, strict=True)


def test_labels_come_back_as_they_were(tmp_path):
    named = xr.DataArray(
        lazy(), dims=("y", "x"), name="u", attrs={"units": "K"},
        coords={"y": np.arange(50) * 0.5, "x": np.arange(37),
                "time": np.datetime64("2020-01-01", "ns"),
                "area": (("y", "x"), lazy(20))},
    )  # fmt: skip
    result = smooth(named)
    path = npt.save(result, tmp_path / "a.zarr", chunks={"y": 5}, shards={"y": 20, "x": 37})
    with xr.open_zarr(path) as back:
        assert back.u.encoding["shards"] == (20, 37)
        xr.testing.assert_identical(back.u.load(), result.load())
        # Its shards are kept.
        again = zarr.open_group(npt.save(smooth(back.u), tmp_path / "again.zarr"))["u"]
        assert (again.chunks, again.shards) == ((5, 37), (20, 37))
    # Variables of a dataset are computed together.
    both = xr.Dataset({"u": (("y", "x"), lazy()), "n": ("x", np.arange(37))})
    both["v"] = smooth(both.u)
    with xr.open_zarr(npt.save(both, tmp_path / "b.zarr", shards={"y": 20})) as back:
        xr.testing.assert_identical(back.load(), both.load())


def test_memory_is_that_of_a_few_units(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((1600, 1600), "float32"))
    array = smooth(smooth(npt.open(tmp_path / "a.npy")))
    npt.save(array[:300, :300], tmp_path / "warm.zarr", chunks=100, shards=200)
    options = {"chunks": 100, "shards": 200}
    peak = most_memory(lambda: npt.save(array, tmp_path / "b.zarr", **options))
    # Two threads, each with a unit of 160 kB, what is read for it and what is compressed.
    assert peak < array.nbytes / 4, peak


def test_what_is_refused_writes_nothing(tmp_path):
    """The words are on the page of messages about files."""
    for array, name, options in (
        (lazy(), "a.zarr", {"shards": 0}),
        (lazy(), "a.zarr", {"part": (0, 2), "overwrite": True}),
        (IMAGE.astype("longdouble"), "a.zarr", {}),
        (lazy()[lazy()[:, 0] > 3], "a.zarr", {}),
        (xr.DataArray(lazy(), dims=("y", "x")).stack(both=("y", "x")), "a.zarr", {}),
        (lazy().astype("complex64"), "a.nc", {}),
        (lazy(), "a.npy", {"part": (0, 2)}),
    ):
        refuses((TypeError, ValueError), "", npt.save, array, tmp_path / name, **options)
        assert not os.listdir(tmp_path)


def test_what_is_there_is_replaced_only_where_that_is_said(tmp_path):
    path = npt.save(lazy(), tmp_path / "a.zarr")
    refuses(FileExistsError, r"exists; overwrite=True replaces it", npt.save, lazy(), path)
    with pytest.raises(ValueError, match="still to be read"):
        npt.save(smooth(da.from_zarr(path)), path, overwrite=True)
    np.testing.assert_array_equal(stored(path), IMAGE)
    np.testing.assert_array_equal(stored(npt.save(smooth(lazy()), path, overwrite=True)), WANTED)
    assert os.listdir(tmp_path) == ["a.zarr"]
    np.save(tmp_path / "a.npy", IMAGE)
    with pytest.raises(FileExistsError, match=r"a\.npy' exists; overwrite=True replaces it"):
        npt.save(lazy(), tmp_path / "a.npy")


def test_what_is_no_store_is_not_replaced(tmp_path):
    (tmp_path / "folder.zarr").mkdir()
    (tmp_path / "folder.zarr" / "thesis").touch()
    (tmp_path / "file.zarr").touch()
    os.symlink(npt.save(lazy(), tmp_path / "a.zarr"), tmp_path / "link.zarr")
    for name, words in [("folder", "no store of Zarr"), ("file", "no folder"),
                        ("link", r"is a link.*save to '.*a\.zarr'")]:  # fmt: skip
        with pytest.raises(FileExistsError, match=words):
            npt.save(lazy(), tmp_path / f"{name}.zarr", overwrite=True)
        with pytest.raises(FileExistsError, match=words):
            npt.save(lazy(), tmp_path / f"{name}.zarr", overwrite=True, dry=True)
    assert (tmp_path / "folder.zarr" / "thesis").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    refuses(PermissionError, "cannot be written", npt.save, lazy(), tmp_path / "a.zarr")
    tmp_path.chmod(0o700)


def test_resume_writes_what_is_left_and_nothing_else(tmp_path):
    path = tmp_path / "a.zarr"
    begun(path, smooth(lazy()), 5)
    refuses(FileExistsError, "resume=True goes on with it", npt.save, smooth(lazy()), path)
    seen = []
    npt.save(smooth(lazy()), path, resume=True, progress=lambda *n: seen.append(n))
    assert seen[-1][0] == seen[-1][1] <= 15
    np.testing.assert_array_equal(stored(path), WANTED)
    assert not unfinished(path)
    npt.save(smooth(lazy()), path, resume=True, progress=stopping(0))
    zarr.save_array(tmp_path / "b.zarr", IMAGE)
    with pytest.raises(FileExistsError, match="nothing that save has begun"):
        npt.save(lazy(), tmp_path / "b.zarr", resume=True)


def test_a_dry_run_writes_nothing_and_progress_is_told_once_for_each_number(tmp_path):
    for name in ("a.zarr", "a.nc", "a.npy", "a.tif", "{:02d}.tif"):
        text = npt.save(smooth(lazy()), tmp_path / name, dry=True)
        assert text.startswith("Give each thread ")
        assert "smooth: " in text
    assert not os.listdir(tmp_path)
    assert "7 of 7 units of part (1, 3)" in npt.save(
        lazy(), tmp_path / "a.zarr", chunks=10, part=(1, 3), dry=True
    )
    path = tmp_path / "a.zarr"
    begun(path, smooth(lazy()), 5)
    there = sorted(path.rglob("*"))
    text = npt.save(smooth(lazy()), path, resume=True, dry=True)
    assert re.search(r"To write: [\d.]+ kB, \d+ of 20 units\.", text)
    assert "To write: 7.4 kB, 20 of 20" in npt.save(smooth(lazy()), path, overwrite=True, dry=True)
    with pytest.raises(FileExistsError, match="resume=True goes on with it"):
        npt.save(smooth(lazy()), path, dry=True)
    assert sorted(path.rglob("*")) == there
    for scheduler in ("threads", "sync"):
        seen, path = [], tmp_path / f"{scheduler}.npy"
        with dask.config.set(scheduler=scheduler):
            npt.save(smooth(lazy()), path, progress=lambda *n, seen=seen: seen.append(n))
        assert len(seen) == len(set(seen)) == seen[-1][1]


def test_another_meaning_is_not_gone_on_with(tmp_path):
    path, source = tmp_path / "a.zarr", tmp_path / "source.zarr"
    begun(path, smooth(lazy()))
    others = {
        "kernel": rough(lazy()), "number": smooth(lazy(), weight=2),
        "border": smooth(lazy(), boundary="wrap"), "type": smooth(lazy(), dtype="float64"),
        "array": smooth(lazy() + 1),
    }  # fmt: skip
    for other in others.values():
        refuses(ValueError, rf"a\.zarr' was {ELSE}", npt.save, other, path, resume=True)
    refuses(ValueError, ELSE, npt.save, smooth(lazy()), path, resume=True, chunks=5)
    npt.save(smooth(lazy()), path, resume=True)
    np.testing.assert_array_equal(stored(path), WANTED)
    # Nor what is made of a source that has changed.
    npt.save(lazy(), source)
    begun(tmp_path / "b.zarr", smooth(da.from_zarr(source)))
    npt.save(lazy() + 1, source, overwrite=True)
    with pytest.raises(ValueError, match=ELSE):
        npt.save(smooth(da.from_zarr(source)), tmp_path / "b.zarr", resume=True)


def test_a_piece_that_was_cut_off_does_not_count(tmp_path):
    path = tmp_path / "a.zarr"
    begun(path, smooth(lazy()), 1, part=(0, 4))
    with zarr.config.set({"array.write_empty_chunks": True}):
        other = zarr.open_array(path)
    other[40:, 10:20] = 0
    (path / "c" / "3").mkdir(exist_ok=True)
    (path / "c" / "3" / "1.0123.partial").write_bytes(b"17")
    seen = []
    npt.save(smooth(lazy()), path, resume=True, progress=lambda *n: seen.append(n[1]))
    assert 14 <= seen[0] <= 18
    # Nobody has written this piece, as somebody claimed.
    np.testing.assert_array_equal(stored(path)[:40], WANTED[:40])
    assert not stored(path)[40:, 10:20].any()


def test_a_full_disk(tmp_path):
    noise = np.random.default_rng(0).random((200, 200))
    small = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, small[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: \[0:200, .* resume=True goes on"):
            npt.save(noise, tmp_path / "a.zarr", chunks=(200, 50))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, small)
    assert unfinished(tmp_path / "a.zarr")
    npt.save(noise, tmp_path / "a.zarr", chunks=(200, 50), resume=True)
    np.testing.assert_array_equal(stored(tmp_path / "a.zarr"), noise)


def test_parts_come_in_any_order_and_the_last_one_completes_the_store(tmp_path):
    path = tmp_path / "a.zarr"
    for part in (2, 0):
        npt.save(smooth(lazy()), path, shards=8, part=(part, 3))
        assert unfinished(path)
    refuses(ValueError, ELSE, npt.save, smooth(lazy(), weight=2), path, shards=8, part=(1, 3))
    npt.save(smooth(lazy()), path, shards=8, part=(1, 3))
    assert not unfinished(path)
    np.testing.assert_array_equal(stored(path), WANTED)
    refuses(FileExistsError, "is complete", npt.save, smooth(lazy()), path, shards=8, part=(1, 3))
    # More parts than units.
    for part in (1, 2, 0):
        npt.save(da.arange(6, chunks=3), tmp_path / "b.zarr", part=(np.int64(part), 3))
    np.testing.assert_array_equal(stored(tmp_path / "b.zarr"), np.arange(6))


def pausing(block):
    time.sleep(0.05)
    return block


@pytest.mark.nightly
def test_workers_that_are_killed_lose_nothing(tmp_path):
    distributed = pytest.importorskip("distributed")
    film = da.from_array(IMAGE[:, :, None].astype("uint8"), chunks=(5, 37, 1))
    given = {"a.zarr": (smooth(lazy()), {"shards": 20}), "{}.png": (film, {})}
    with distributed.LocalCluster(
        n_workers=4, threads_per_worker=1, processes=True, dashboard_address=":0",
        memory_limit="2GB", silence_logs=50,
    ) as cluster, distributed.Client(cluster, set_as_default=False) as client:  # fmt: skip
        for name, (array, options) in given.items():
            # The one that was killed before may not be known to be gone.
            workers = list(client.run(os.getpid, on_error="ignore").values())

            def kill(done, total, workers=workers):
                if done >= 3 and workers:
                    os.kill(workers.pop(), signal.SIGKILL)
                    workers.clear()

            with dask.config.set(scheduler=client):
                slow = array.map_blocks(pausing, dtype=array.dtype)
                npt.save(slow, tmp_path / name, progress=kill, **options)
            assert not workers
    np.testing.assert_array_equal(stored(tmp_path / "a.zarr"), WANTED)
    assert not unfinished(tmp_path / "a.zarr")
    np.testing.assert_array_equal(npt.imread(tmp_path / "*.png"), IMAGE[:, :, None])


def test_npy_and_images(tmp_path):
    path = npt.save(smooth(lazy()), tmp_path / "a.npy")
    np.testing.assert_array_equal(np.load(path), WANTED)
    refuses(ValueError, "written as a whole", npt.save, smooth(lazy()), path, resume=True)
    np.testing.assert_array_equal(np.load(npt.save(lazy(), path, overwrite=True)), IMAGE)
    with pytest.warns(npt.MetadataWarning, match="neither coordinates"):
        npt.save(xr.DataArray(IMAGE, attrs={"units": "K"}), tmp_path / "b.npy")
    stack = np.arange(5 * 6 * 7, dtype="uint8").reshape(5, 6, 7)
    frames, pattern = da.from_array(stack, chunks=(2, 6, 7)), tmp_path / "{:02d}.png"
    npt.save(frames, pattern, part=(1, 2))
    assert sorted(p.name for p in tmp_path.glob("*.png")) == ["02.png", "03.png", "04.png"]
    npt.save(frames, pattern, resume=True)
    np.testing.assert_array_equal(npt.imread(tmp_path), frames)
    refuses(ValueError, ELSE, npt.save, frames + np.uint8(1), pattern, resume=True)


@pytest.mark.parametrize("suffix", [".nc", ".h5"])
def test_netcdf(tmp_path, suffix):
    named = xr.DataArray(
        lazy(), dims=("y", "x"), name="u", attrs={"units": "K"},
        coords={"y": np.arange(50) * 0.5, "area": (("y", "x"), IMAGE)},
    )  # fmt: skip
    path = npt.save(smooth(named), tmp_path / f"a{suffix}", chunks=16)
    with xr.open_dataset(path, engine="h5netcdf") as back:
        assert back.u.encoding["chunksizes"] == (16, 16)
        xr.testing.assert_identical(back.u.load(), smooth(named).load())


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_numbers_that_were_scaled_are_scaled_again(tmp_path, name):
    packed = xr.DataArray(np.arange(600).reshape(20, 30) / 4, dims=("y", "x"), name="u")
    code = {"dtype": "i2", "scale_factor": 0.25, "_FillValue": -1}
    packed.to_netcdf(tmp_path / "in.nc", engine="h5netcdf", encoding={"u": code})
    with xr.open_dataset(tmp_path / "in.nc", engine="h5netcdf", chunks={"y": 5}) as source:
        path = npt.save(source, tmp_path / name)
        engine = "h5netcdf" if name == "a.nc" else "zarr"
        with xr.open_dataset(path, engine=engine) as back:
            assert back.u.encoding["dtype"] == np.int16
            xr.testing.assert_identical(back.load(), source.load())


@pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")
def test_geotiff(tmp_path):
    rioxarray = pytest.importorskip("rioxarray")
    places = {"y": np.arange(50), "x": np.arange(37)}
    named = xr.DataArray(lazy(), dims=("y", "x"), coords=places)
    path = npt.save(smooth(named.rio.write_crs("EPSG:32633")), tmp_path / "a.tif")
    with rioxarray.open_rasterio(path) as back:
        assert back.rio.crs.to_epsg() == 32633
        np.testing.assert_array_equal(back.values[0], WANTED)
        assert back.rio.transform() == named.rio.transform()


@pytest.mark.parametrize("suffix", [".ome.zarr", ".ome.tif"])
def test_axes_scales_and_channels_of_ome_are_kept(tmp_path, suffix):
    start = 3 if suffix == ".ome.zarr" else 0
    cells = xr.DataArray(
        da.from_array(np.arange(2 * 9 * 8, dtype="float32").reshape(2, 9, 8), chunks=4),
        dims=("c", "y", "x"), name="cells",
        coords={"c": ["dapi", "gfp"], "x": 0.5 * np.arange(8),
                "y": ("y", start + 0.1 * np.arange(9), {"units": "nanometer"})},
    )  # fmt: skip
    given = {"shards": 8, "chunks": 4} if suffix == ".ome.zarr" else {}
    result = smooth(npt.open(npt.save(cells, tmp_path / f"a{suffix}", **given)))
    back = npt.open(npt.save(result, tmp_path / f"b{suffix}"))
    xr.testing.assert_identical(back.load(), result.load())
    assert list(back.c.values) == ["dapi", "gfp"]
    for dims in (("y", "c", "x"), ("x", "y", "c")):
        with pytest.raises(ValueError, match="rename and transpose"):
            npt.save(cells.transpose(*dims), tmp_path / f"c{suffix}")
    with pytest.raises(ValueError, match="names no axes; give a DataArray"):
        npt.save(cells.data, tmp_path / f"c{suffix}")
    if suffix == ".ome.tif":
        for dims, shape in (("zcyx", (2, 3, 20, 30)), ("tyxs", (2, 20, 30, 3))):
            array = xr.DataArray(np.ones(shape, bool), dims=tuple(dims))
            back = npt.open(npt.save(array, tmp_path / f"{dims}.ome.tif"))
            assert (back.dims, back.shape, back.values.min()) == (tuple(dims), shape, 255)
        with pytest.warns(npt.MetadataWarning, match="along 'y', which begin at 0.2"):
            npt.save(cells[:, 2:], tmp_path / "c.ome.tif")
    # What has names of its own for its channels, and is no image, is a group of variables.
    with xr.open_zarr(npt.save(cells, tmp_path / "d.zarr")) as plain:
        xr.testing.assert_identical(plain.cells.load(), cells.load())


def test_states_of_a_long_chain_lie_in_files_where_memory_is_short(tmp_path):
    state = np.random.default_rng(1).random((300, 40), "float32")
    source = npt.save(state, tmp_path / "source.zarr", chunks=60)
    array, path = smooth.iterate(npt.open(source, chunks=60), 0, steps=48), tmp_path / "out.zarr"
    with pytest.raises(
        MemoryError, match="memory='2 kB' is less; give shorter shards= or chunks="
    ):
        npt.save(array, path, memory="2 kB")
    begun(path, array, 1, memory="60 kB")
    left = tmp_path / ".out.zarr.scratch"
    assert [one.suffix for one in left.iterdir()] == [".zarr"]
    stamps = [os.stat(one).st_mtime_ns for one in left.iterdir()]
    refuses(Stop, "", npt.save, array, path, memory="60 kB", resume=True, progress=stopping(1))
    assert [os.stat(one).st_mtime_ns for one in left.iterdir()] == stamps
    npt.save(array, path, memory="60 kB", resume=True)
    np.testing.assert_array_equal(stored(path), smooth.iterate(state, 0, steps=48))
    # Equal states that were made twice are one.
    again = smooth.iterate(npt.open(source, chunks=60), 0, steps=48)
    both = npt.stencil(lambda x, y: x[0, 2] + y[2, 0])
    npt.save(both(array, again), path, memory="60 kB", overwrite=True)
    np.testing.assert_array_equal(stored(path), both(*[smooth.iterate(state, 0, steps=48)] * 2))
    # States of a type that no store has stay in memory.
    half = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    step, last = (npt.stencil(lambda x: x[0, 1], dtype=dtype) for dtype in (half, "float32"))
    made = last(step.iterate(npt.open(source, chunks=60).astype(half), steps=48))
    npt.save(made, tmp_path / "of_halves.zarr", memory="60 kB")
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "of_halves.zarr", "out.zarr", "source.zarr",
    ]  # fmt: skip


def test_units_are_given_to_the_scheduler_in_windows(tmp_path):
    array = smooth(smooth(lazy(5)) - 1)
    with limits(window_units=6, least_units=2):
        npt.save(array, tmp_path / "many.zarr", chunks=5)
        npt.save(array, tmp_path / "few.zarr", chunks=5, memory="2 kB")
        # What follows from all of the array is computed once.
        npt.save(array - array.mean(), tmp_path / "one.zarr", chunks=5)
    want = smooth(smooth(IMAGE) - 1)
    for name in ("many", "few"):
        np.testing.assert_array_equal(stored(tmp_path / f"{name}.zarr"), want)
    np.testing.assert_allclose(stored(tmp_path / "one.zarr"), want - want.mean(), rtol=1e-3)
