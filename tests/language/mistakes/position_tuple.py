import numpy as np

import ninepoint as npt


@npt.stencil
def ramp(x):
    return x[0, 0] + npt.index(x)


ramp(np.zeros((2, 2)))
