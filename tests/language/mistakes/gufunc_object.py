import numpy as np

import ninepoint as npt


@npt.gufunc("(n)->()")
def first(x):
    return x[0]


first(np.array([1, None]))
