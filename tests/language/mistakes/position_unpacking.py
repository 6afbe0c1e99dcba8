import numpy as np

import ninepoint as npt


@npt.stencil
def ramp(x):
    i, j = npt.index(x)
    return x[0, 0, 0] + i


ramp(np.zeros((2, 2, 2)))
