import numpy as np

import ninepoint as npt


@npt.stencil
def around(x):
    k = 0
    while k < 2:
        k += 1
    return x[-1:2]


around(np.zeros(5))
