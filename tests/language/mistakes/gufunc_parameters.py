import numpy as np

import ninepoint as npt


@npt.gufunc("(n),(n)->()")
def total(x):
    return np.sum(x)
