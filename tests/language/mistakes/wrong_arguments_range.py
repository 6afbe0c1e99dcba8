import numpy as np

import ninepoint as npt


@npt.stencil
def total(x):
    result = 0.0
    for k in range(0, 1.5):
        result += x[k]
    return result


total(np.zeros(5))
