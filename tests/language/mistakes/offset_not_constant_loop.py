import numpy as np

import ninepoint as npt


@npt.stencil
def total(x, n):
    result = 0
    for k in range(n):
        result += x[k]
    return result


total(np.zeros(5), 3)
