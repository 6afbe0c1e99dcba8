import dask.array as da

import ninepoint as npt


@npt.stencil
def smooth(x):
    return x[-1] + x[1]


smooth(da.ones(10, dtype="uint8"), boundary="constant", cval=2.5)
