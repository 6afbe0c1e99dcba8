import numpy as np

import ninepoint as npt


@npt.stencil
def difference(x, y):
    return x[0] - y[0]


difference(np.zeros(5))
