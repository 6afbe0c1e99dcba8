import numpy as np
import xarray as xr

import ninepoint as npt


@npt.stencil
def smooth(x):
    return x[-1] + x[1]


smooth(xr.DataArray(np.zeros((3, 4)), dims=("lat", "lon")), dims=("time",))
