import numpy as np

import ninepoint as npt


@npt.stencil
def minus(x):
    return -x + x[0]


minus(np.zeros(5))
