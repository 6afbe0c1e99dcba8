import numpy as np
import xarray as xr

import ninepoint as npt


@npt.gufunc("(n),(n)->()")
def first(a, b):
    return a[0] * b[0]


first(xr.DataArray(np.ones(3), dims="x"), xr.DataArray(np.ones(3), dims="y"))
