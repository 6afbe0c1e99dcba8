"""Damaged files and stores end in an array, or in one error that names the file."""

import json
import pickle

import numpy as np
import pytest
import tifffile
import xarray as xr
import zarr

import ninepoint as npt
from nightly import only

X = np.random.default_rng(1).integers(0, 50, (40, 48)).astype("float32")


def plain(path, **options):
    zarr.create_array(store=str(path), data=X, chunks=(10, 12), **options)


def npy_header(path):
    # Of version 2, and longer.
    with open(path, "wb") as file:
        np.lib.format.write_array(file, X, version=(2, 0))


def labelled(path):
    xr.DataArray(X, dims=("y", "x"), name="t").to_dataset().to_zarr(path, zarr_format=2)


def ome(path):
    group = zarr.create_group(store=str(path), zarr_format=2)
    group.create_array("0", data=X, chunks=(20, 24))
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    transforms = [{"type": "scale", "scale": [0.5, 0.5]}]
    datasets = [{"path": "0", "coordinateTransformations": transforms}]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]


def netcdf(path, engine="h5netcdf"):
    xr.DataArray(X, dims=("y", "x"), name="t").to_netcdf(path, engine=engine)


def tif(path, **options):
    options = options or {"compression": "zlib", "rowsperstrip": 7}
    tifffile.imwrite(path, X.astype("uint8"), **options)


KINDS = {
    "a.npy": lambda path: np.save(path, X),
    "b.npy": npy_header,
    "a.zarr": plain,
    "old.zarr": lambda path: plain(path, zarr_format=2),
    "shards.zarr": lambda path: plain(path, shards=(20, 24)),
    "names.zarr": labelled,
    "ome.zarr": ome,
    "a.nc": netcdf,
    "old.nc": lambda path: netcdf(path, "scipy"),
    "a.tif": tif,
    "tiled.tif": lambda path: tif(path, tile=(16, 16)),
    "a.png": lambda path: npt.imsave(X.astype("uint8"), path),
    "a.jpg": lambda path: npt.imsave(X.astype("uint8"), path),
}


def files_of(path):
    if path.is_file():
        return [path]
    found = [one for one in sorted(path.rglob("*")) if one.is_file()]
    # What describes it is as often damaged as all chunks together.
    told = [one for one in found if one.name in ("zarr.json", ".zarray", ".zattrs", ".zgroup")]
    return found + told * (1 + len(found) // len(told))


def damaged(whole, rng):
    how = rng.integers(4)
    if how == 0:
        return whole[: rng.integers(len(whole))]
    data = bytearray(whole)
    least = min(len(data), 200) if how < 3 else len(data)
    for at in rng.integers(0, least, 1 + how):
        data[at] = rng.choice([0, 32, 34, 44, 123, 255, rng.integers(256)])
    return bytes(data)


@pytest.mark.parametrize("turns", only(1, [range(15), range(15, 300)]), ids=["few", "many"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_damage_of_any_kind_ends_in_one_error(tmp_path, name, turns):
    path = tmp_path / name
    KINDS[name](path)
    files, wrong, wanted = files_of(path), [], npt.open(path).compute()
    for turn in turns:
        rng = np.random.default_rng((5, turn))
        file = files[rng.integers(len(files))]
        whole = file.read_bytes()
        data = damaged(whole, rng)
        file.write_bytes(data)
        try:
            found = npt.open(path)
            if found.size < 10**6:
                found = found.compute(scheduler="sync")
                # What is cut short gives no numbers of its own; but the library of Blosc takes
                # what lies in memory behind a chunk for the rest of it, and mostly notices.
                is_short = len(data) < len(whole) and (name, file.name) != ("names.zarr", "0.0")
                if is_short and not np.array_equal(found, wanted):
                    wrong.append((turn, file.name, "other numbers"))
        except (ValueError, OSError) as error:
            if str(path) not in str(error) or len(str(error)) > 1000 + len(str(path)):
                wrong.append((turn, file.name, repr(error)))
            pickle.loads(pickle.dumps(error))
        except Exception as error:
            wrong.append((turn, file.name, repr(error)))
        file.write_bytes(whole)
    assert not wrong
    assert npt.open(path).shape[-2:] == X.shape


@pytest.mark.parametrize(("name", "chunk"), [("a.zarr", "c/2/3"), ("old.zarr", "2.3")])
def test_the_elements_that_are_damaged_are_named(tmp_path, name, chunk):
    path = tmp_path / name
    KINDS[name](path)
    (path / chunk).write_bytes(b"no chunk")
    opened = npt.open(path, chunks=(20, 48))
    np.testing.assert_array_equal(opened[:20].compute(), X[:20])
    with pytest.raises(OSError, match=r", at the elements \[20:40, 0:48\]") as caught:
        opened[20:].compute()
    assert str(path) in str(caught.value)
    assert caught.value.__cause__ is not None


def test_descriptions_of_ome_zarr_that_make_no_sense(tmp_path):
    path = tmp_path / "ome.zarr"
    ome(path)
    attrs = path / ".zattrs"
    whole = json.loads(attrs.read_text())
    for change in (
        lambda one: one["datasets"][0].pop("path"),
        lambda one: one["datasets"][0].update(path="1"),
        lambda one: one["datasets"][0].update(coordinateTransformations=[{"scale": "x"}]),
        lambda one: one.update(axes=[{}, {}]),
        lambda one: one.update(datasets=3),
    ):
        told = json.loads(json.dumps(whole))
        change(told["multiscales"][0])
        attrs.write_text(json.dumps(told))
        with pytest.raises((ValueError, OSError), match=r"ome\.zarr"):
            npt.open(path)
    attrs.write_text("{")
    with pytest.raises(ValueError, match=r"ome.zarr.* cannot be opened"):
        npt.open(path)


def test_numbers_by_the_hundred_are_no_message(tmp_path):
    """Of a tag with many values in the place of one the reason lists all."""
    path = tmp_path / "a.tif"
    tif(path)
    data = bytearray(path.read_bytes())
    compression = bytes([3, 1, 3, 0, 1, 0, 0, 0])
    data[data.index(compression) + 4] = 250
    path.write_bytes(data)
    with pytest.raises(
        npt.ImageReadError, match=r"cannot read frame 0 from .*a\.tif.* \.\.\."
    ) as caught:
        npt.open(path).compute(scheduler="sync")
    assert len(str(caught.value)) < 500 + len(str(path))
