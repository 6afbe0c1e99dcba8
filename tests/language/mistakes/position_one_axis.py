import numpy as np

import ninepoint as npt


@npt.stencil
def ramp(x):
    (i,) = npt.index(x)
    return x[0] + i


ramp(np.zeros(3))
