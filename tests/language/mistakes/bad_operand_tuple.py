import numpy as np

import ninepoint as npt


@npt.stencil
def scaled(x):
    return x[0] * (1, 2)


scaled(np.zeros(5))
