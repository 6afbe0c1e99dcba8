import dask.array as da
import numpy as np

import ninepoint as npt


@npt.stencil
def smooth(x):
    return x[-1] + x[1]


smooth(da.ma.masked_less(da.zeros(5), 0))
