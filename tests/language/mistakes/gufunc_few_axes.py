import numpy as np

import ninepoint as npt


@npt.gufunc("(n,m)->()")
def first(x):
    return x[0, 0]


first(np.ones(5))
