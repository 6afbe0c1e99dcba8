import numpy as np

import ninepoint as npt


@npt.stencil
def total(x):
    result = x[0]
    for value in x:
        result += value
    return result


total(np.zeros(5))
