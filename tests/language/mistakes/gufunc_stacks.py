import numpy as np

import ninepoint as npt


@npt.gufunc("(n),(n)->()")
def first(a, b):
    return a[0] * b[0]


first(np.ones((4, 3)), np.ones((5, 3)))
