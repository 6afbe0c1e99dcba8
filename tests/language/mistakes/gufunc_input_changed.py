import numpy as np

import ninepoint as npt


@npt.gufunc("(n)->(n)")
def doubled(x):
    x[0] *= 2
    return x


doubled(np.ones(5))
