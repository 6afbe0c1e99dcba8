import numpy as np

import ninepoint as npt


@npt.stencil
def scaled(x, weight):
    return weight * x[0]


scaled(np.zeros(5), np.timedelta64(1, "s"))
