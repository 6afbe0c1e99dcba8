"""open: every format as NumPy has it, read by regions, and one clear error for each mistake."""

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import dask
import h5py
import numpy as np
import pytest
import tifffile
import xarray as xr
import zarr

import ninepoint as npt
from compared import refuses

A = np.random.default_rng(0).random((60, 80), dtype="f4")
rise = npt.stencil(lambda x: x[1, 0] - x[-1, -2], boundary="reflect")
WANT = rise(A)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def is_right(opened: Any, want: np.ndarray = WANT) -> bool:
    """Whether a stencil gives what it gives for NumPy, one task a chunk, also in a pickle."""
    made = rise(opened)
    data = pickle.loads(pickle.dumps(getattr(made, "data", made)))
    return bool((data.compute(scheduler="sync") == want).all())


def put(path: str, array: np.ndarray = A, **options: Any) -> Any:
    options = {"chunks": (10, 20), "shards": (20, 40)} | options
    made = zarr.create_array(path, shape=array.shape, dtype=array.dtype, overwrite=True, **options)
    made[...] = array
    return made


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_arrays(version: int) -> None:
    put("a.zarr", zarr_format=version, **({"shards": None} if version == 2 else {}))
    opened = npt.open("a.zarr", chunks=20)
    assert isinstance(opened, dask.array.Array)
    assert is_right(opened)
    assert npt.open("a.zarr", chunks=20).name == opened.name
    assert npt.open("a.zarr", chunks=30).name != opened.name
    assert (opened[::-3, 4, None].compute() == A[::-3, 4, None]).all()
    assert npt.open(Path("a.zarr"), chunks={1: 10}).chunksize[1] == 10


def test_chunks_follow_shards_and_groups() -> None:
    # Nothing is written to these, nor read of them: the shapes alone count.
    for shape, dtype, chunks, shards, wanted in [
        ((60, 80), "f4", (5, 5), (40, 40), (60, 80)),
        ((6000, 8000), "f4", (50, 50), (1500, 2000), (1500, 2000)),
        # A shard that is too large is read piece by piece.
        ((10**5, 10**5), "f4", (100, 100), (10**5, 10**5), (1600, 800)),
        ((1000, 1000, 1000), "u1", (1, 1000, 1000), None, (8, 1000, 1000)),
    ]:
        options = {"chunks": chunks, "shards": shards, "overwrite": True}
        zarr.create_array("b.zarr", shape=shape, dtype=dtype, **options)
        assert npt.open("b.zarr").chunksize == wanted
    zarr.open_group("g.zarr/deep", mode="w")
    zarr.open_group("g.zarr", mode="a")
    put("g.zarr/one", shards=None)
    assert is_right(npt.open("g.zarr", chunks=20))
    put("g.zarr/deep/two", 2 * A, shards=None)
    put("g.zarr/deep/three", A[:9], shards=None)
    assert is_right(npt.open("g.zarr", variable="deep/two", chunks=20), rise(2 * A))
    assert npt.open("g.zarr/deep", variable="three").shape == (9, 80)
    both = npt.open("g.zarr", variable="deep", chunks=20)
    assert (both.two.dims[1], both.two.dims[0] != both.three.dims[0]) == (both.three.dims[1], True)
    assert is_right(both.two, rise(2 * A))
    refuses(ValueError, r"no array 'four'; it holds '", npt.open, "g.zarr/deep", variable="four")
    zarr.open_group("h.zarr/below", mode="w")
    zarr.open_group("h.zarr", mode="a")
    refuses(ValueError, r"Open one of its groups: .below.", npt.open, "h.zarr")


def dataset(**more: Any) -> Any:
    u = xr.DataArray(A, dims=("y", "x"), attrs={"units": "K"})
    return xr.Dataset({"u": u, **more}, coords={"y": np.arange(60) / 2})


@pytest.mark.parametrize("engine", ["zarr", "h5netcdf", "scipy"])
def test_labels(engine: Any) -> None:
    pytest.importorskip(engine)
    made = dataset(v=(("y", "x"), 2 * A))
    path = "a.zarr" if engine == "zarr" else "a.nc"
    if engine == "zarr":
        code = {"u": {"chunks": (10, 10), "shards": (20, 20)}}
        made.to_zarr(path, encoding=code, zarr_format=3, consolidated=False)
    else:
        made.to_netcdf(path, engine=engine)
    both = npt.open(path, chunks={"x": 20})
    xr.testing.assert_identical(both.compute(), made)
    assert both.v.chunksizes["x"] == (20, 20, 20, 20)
    assert is_right(both.v, rise(2 * A))
    refuses(ValueError, "chunks names the dimension 'z'", npt.open, path, chunks={"z": 20})
    opened = npt.open(path, variable="u", chunks={"x": 20})
    assert opened.attrs == {"units": "K"}
    found = rise(opened)
    assert (found.dims, found.y.values[1]) == (("y", "x"), 0.5)
    assert is_right(opened)
    assert is_right(npt.open(path, variable="v"), rise(2 * A))
    if engine == "zarr":
        assert npt.open("a.zarr/u", chunks=20).dims == ("y", "x")


def test_hdf5_and_missing_values_of_netcdf() -> None:
    x = np.arange(600, dtype="i2").reshape(20, 30)
    d = xr.Dataset({"u": (("y", "x"), np.where(x == 33, np.nan, x / 4).astype("f4"))})
    code = {"dtype": "i2", "scale_factor": 0.25, "_FillValue": -1, "chunksizes": (5, 5)}
    d.to_netcdf("a.nc", engine="h5netcdf", encoding={"u": code})
    opened = npt.open("a.nc", chunks=10)
    with xr.open_dataset("a.nc", engine="h5netcdf") as other:
        np.testing.assert_array_equal(rise(opened).values, rise(other.u.values))
        assert opened.dtype == other.u.dtype
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("deep/u", data=A, chunks=(10, 10))
        file["words"] = "no numbers"
    opened = npt.open("a.h5", chunks=20)
    assert isinstance(opened, dask.array.Array)
    assert is_right(opened)
    with h5py.File("two.h5", "w") as file:
        file["deep/u"], file["v"] = A, 2 * A[:, :9]
    both = npt.open("two.h5")
    assert (both["deep/u"].dims, both.v.dims) == (("dim_0", "dim_1"), ("dim_0", "dim_2"))
    assert is_right(npt.open("two.h5", variable="deep/u"))
    with h5py.File("b.h5", "w") as file:
        for name, values in {"u": A, "y": np.arange(60) / 2, "x": np.arange(80)}.items():
            file[name] = values
        for k, name in enumerate("yx"):
            file[name].make_scale(name)
            file["u"].dims[k].attach_scale(file[name])
    scaled = npt.open("b.h5")
    assert scaled.dims == ("y", "x")
    assert is_right(scaled)


def test_npy_and_images_that_imread_reads() -> None:
    for order in "CF":
        np.save("a.npy", np.asarray(A, order=order))
        assert is_right(npt.open("a.npy", chunks=20))
    np.save("empty.npy", A[:0])
    assert npt.open("empty.npy").compute().shape == (0, 80)
    stack = (A[None] * [[[1]], [[200]]]).astype("u1")
    npt.imsave(stack, "a.tif", progress=False)
    npt.imsave(stack, "f/{}.png", progress=False)
    for found in (npt.open("a.tif"), npt.open("f"), npt.open("f/*.png"), npt.open(["f/0.png"])):
        assert found.shape[1:] == A.shape
    assert (npt.open("a.tif", chunks=1).compute() == stack).all()


@pytest.mark.parametrize("options", [{"tile": (16, 32)}, {"rowsperstrip": 7}])
def test_one_image_of_a_tiff(options: Any) -> None:
    tifffile.imwrite("a.tif", A, compression="zlib", **options)
    opened = npt.open("a.tif", chunks=30)
    assert opened.shape == A.shape
    assert is_right(opened)
    colour = (A[..., None] * [9, 8, 7]).astype("u1")
    tifffile.imwrite("c.tif", colour, photometric="rgb", **options)
    made = rise(npt.open("c.tif", chunks=(30, 30, 3)))
    np.testing.assert_array_equal(made.compute(scheduler="sync"), rise(npt.imread("c.tif"))[0])


def test_what_a_tiff_says_and_holds() -> None:
    tifffile.imwrite("a.ome.tif", A, metadata={"axes": "YX", "PhysicalSizeX": 0.5})
    opened = npt.open("a.ome.tif", chunks={"x": 30})
    assert (opened.dims, list(opened.coords)) == (("y", "x"), ["y", "x"])
    assert opened.x.units == "micrometer"
    assert (opened.x[1], opened.chunksizes["x"]) == (0.5, (30, 30, 20))
    assert is_right(opened)
    stack = np.stack([A, 2 * A, 3 * A])[:, None].repeat(2, 1)
    told = {"axes": "ZCYX", "unit": "um", "spacing": 2.0}
    tifffile.imwrite("i.tif", stack, imagej=True, resolution=(5, 10), metadata=told)
    opened = npt.open("i.tif")
    assert (opened.dims, opened.z[1], opened.x[1]) == (("z", "c", "y", "x"), 2, 0.2)
    assert is_right(opened[1, 0], rise(2 * A))
    with tifffile.TiffWriter("two.ome.tif") as file:
        for scene in stack[:2]:
            file.write(scene, metadata={"axes": "CYX"})
    with pytest.warns(npt.MetadataWarning, match="holds 2 images, of which open gives the first"):
        assert npt.open("two.ome.tif").dims == ("c", "y", "x")
    bits = A > 0.5
    tifffile.imwrite("bits.tif", bits)
    assert (npt.open("bits.tif").compute(scheduler="sync") == bits).all()
    tifffile.imwrite("whole.tif", A)
    Path("cut.tif").write_bytes(Path("whole.tif").read_bytes()[:-500])
    refuses(npt.ImageReadError, "truncated", npt.open("cut.tif").compute, scheduler="sync")
    # Overviews are no frames.
    with tifffile.TiffWriter("o.tif") as file:
        file.write(A, tile=(16, 16), subifds=0)
        file.write(A[::2, ::2], tile=(16, 16), subfiletype=1)
    assert npt.open("o.tif").shape == A.shape


# Of the library that rasterio multiplies its matrices with.
@pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")
def test_geotiff() -> None:
    rasterio = pytest.importorskip("rasterio")
    rioxarray = pytest.importorskip("rioxarray")
    where = rasterio.transform.Affine(2, 0, 10, 0, -2, 20)
    with rasterio.open("a.tif", "w", driver="COG", height=600, width=800, count=1, blocksize=128,
                       dtype="float32", crs="EPSG:32633", transform=where) as file:  # fmt: skip
        file.write(np.tile(A, (10, 10)), 1)
    with rasterio.open("a.tif") as file:
        assert file.overviews(1)
    opened = npt.open("a.tif", chunks={"x": 512, "y": 512})
    assert opened.dims == ("band", "y", "x")
    made = rise(opened)
    assert made.rio.crs.to_epsg() == 32633
    np.testing.assert_array_equal(made.values[0], rise(np.tile(A, (10, 10))))
    assert npt.imread("a.tif").shape == (1, 600, 800)
    other = rise(rioxarray.open_rasterio("a.tif", chunks={"x": 512, "y": 512}))
    np.testing.assert_array_equal(other.values, made.values)


def image(path: str, version: str) -> None:
    levels = [
        {"path": str(k), "coordinateTransformations": [
            {"type": "scale", "scale": [1, 0.5 * 2**k, 0.25 * 2**k]},
            {"type": "translation", "translation": [0, 3, 0]}]}
        for k in range(2)
    ]  # fmt: skip
    axes: list[dict[str, str]] = [{"name": "c", "type": "channel"}]
    axes += [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    said: Any = {
        "multiscales": [{"name": "cells", "axes": axes, "datasets": levels}],
        "omero": {"channels": [{"label": "DAPI"}, {"label": "GFP"}]},
    }
    form = 2 if version == "0.4" else 3
    zarr.open_group(path, mode="w", zarr_format=form,
                    attributes=said if form == 2 else {"ome": said})  # fmt: skip
    for k in range(2):
        put(f"{path}/{k}", np.stack([A, 2 * A])[:, :: k + 1, :: k + 1], chunks=(1, 30, 40),
            shards=None, zarr_format=form)  # fmt: skip


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr(version: str) -> None:
    image("i.zarr", version)
    opened = npt.open("i.zarr", chunks={"y": 30, "x": 40})
    assert (opened.name, opened.dims) == ("cells", ("c", "y", "x"))
    assert list(opened.c.values) == ["DAPI", "GFP"]
    assert opened.y.values[:2].tolist() == [3, 3.5]
    assert opened.x.attrs["units"] == "micrometer"
    made = rise(opened.sel(c="GFP"))
    assert (made.values == rise(2 * A)).all()
    small = npt.open("i.zarr", level=1)
    assert (small.shape, small.y.values[1]) == ((2, 30, 40), 4)
    refuses(ValueError, r"has 2 levels.*there is no level=2", npt.open, "i.zarr", level=2)


def test_urls_of_zarr_and_folders_that_are_no_stores() -> None:
    fsspec = pytest.importorskip("fsspec")
    put("a.zarr")
    target = fsspec.filesystem("memory")
    for folder, _, names in os.walk("a.zarr"):
        for name in names:
            target.pipe(f"/{folder}/{name}", Path(folder, name).read_bytes())
    assert is_right(npt.open("memory://a.zarr", chunks=20))
    # What else cannot be opened is on the page of messages about files.
    for name, text, words in (
        ("empty", "", "is no Zarr store"),
        ("bad", "[]", "cannot be opened"),
    ):
        Path(name + ".zarr").mkdir()
        if text:
            Path(name + ".zarr", "zarr.json").write_text(text)
        refuses(ValueError, rf"'{name}\.zarr' {words}", npt.open, name + ".zarr")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_what_one_may_not_read() -> None:
    np.save("a.npy", A)
    os.chmod("a.npy", 0)
    refuses(PermissionError, r"a\.npy", npt.open, "a.npy")


def test_a_store_that_has_changed_is_no_longer_read() -> None:
    np.save("a.npy", A)
    opened = rise(npt.open("a.npy", chunks=40))
    np.save("a.npy", A[:9])
    with pytest.raises(OSError, match=r"a\.npy' has changed since it was opened; open it again"):
        opened.compute(scheduler="sync")
    assert npt.open("a.npy").shape == (9, 80)
    os.remove("a.npy")
    refuses(FileNotFoundError, "was there when it was opened", opened.compute, scheduler="sync")
    put("a.zarr")
    opened = npt.open("a.zarr")
    put("a.zarr", A[:20])
    refuses(OSError, "has changed since it was opened", opened.compute, scheduler="sync")


def test_without_zarr_it_is_told_what_to_install(monkeypatch: Any) -> None:
    put("a.zarr")
    monkeypatch.setitem(sys.modules, "zarr", None)
    refuses(ImportError, r"pip install 'zarr>=3'", npt.open, "a.zarr")
