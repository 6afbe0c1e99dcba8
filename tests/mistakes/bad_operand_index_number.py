import numpy as np

import ninepoint as npt


@npt.stencil
def twice(x):
    y = x[0]
    return y[1] + y[0]


twice(np.zeros(5))
