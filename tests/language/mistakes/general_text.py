import numpy as np

import ninepoint as npt


@npt.stencil
def sign(x):
    k = 0
    while k < x[0]:
        k += 1
    return "positive"


sign(np.zeros(5))
