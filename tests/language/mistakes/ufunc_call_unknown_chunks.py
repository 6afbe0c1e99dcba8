import dask.array as da
import numpy as np

import ninepoint as npt


@npt.ufunc
def total(x, y):
    return x + y


ones = da.ones(10, chunks=5)
total(ones[ones > 0], np.ones(10))
