"""What is saved as which numbers, and what is refused with what to do."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ninepoint as npt


@npt.ufunc
def total(x, y):
    return x + y


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.jpg"])
@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("lazy", [False, True])
def test_bools_are_saved_black_and_white(tmp_path, name, channels, lazy):
    image = np.zeros((16, 16, *channels), bool)
    image[4:12, 4:12] = True
    given = da.from_array(image, chunks=image.shape) if lazy else image
    npt.imsave(given, tmp_path / name)
    saved = np.asarray(npt.imread(tmp_path / name))[0]
    white = 1 if saved.dtype == bool else 255
    assert abs(saved[5:11, 5:11].astype(int) - white).max() <= 2 * (name == "a.jpg")
    assert saved[:2].astype(int).max() <= 2 * (name == "a.jpg")


def test_an_image_of_four_axes_is_told_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"array\.reshape\(-1, 40, 50\) is one stack, and \.zarr"):
        npt.imsave(np.zeros((2, 3, 40, 50), "uint8"), tmp_path / "a.tif")


@pytest.mark.parametrize("name", ["a.nc", "a.h5", "a.zarr"])
def test_arrays_of_times_are_refused_before_they_are_saved(tmp_path, name):
    times = xr.DataArray(np.arange(4).astype("datetime64[s]"), dims="t", name="when")
    with pytest.raises(TypeError, match=r"npt\.open reads no array of them; save numbers"):
        npt.save(times, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_tables_that_pandas_does_not_lay_beside_columns_are_told():
    table, column = pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1.0, 2.0])
    with pytest.raises(TypeError, match=r"'total' cannot be applied to DataFrame and Series: "):
        total(table, column)
    np.testing.assert_array_equal(total(table, 1)["a"], [2, 3])
