import numpy as np

import ninepoint as npt


@npt.stencil
def twice(x, gain=3):
    y = 2 * gain
    return x[0] + y[1]


twice(np.zeros(5))
