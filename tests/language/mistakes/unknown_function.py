import numpy as np

import ninepoint as npt


@npt.stencil
def named(x):
    return hex(x[0])


named(np.zeros(5, int))
