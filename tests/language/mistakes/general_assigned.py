import numpy as np

import ninepoint as npt


@npt.stencil
def clear(x):
    k = 0
    while k < 2:
        k += 1
    y = x
    y[0] = 0
    return x[0]


clear(np.zeros(5))
