import numpy as np

import ninepoint as npt


@npt.stencil(neighborhood=((-1, 1),))
def total(x):
    k = 0
    result = 0.0
    while k < 2:
        result += x[2]
        k += 1
    return result


total(np.zeros(5))
