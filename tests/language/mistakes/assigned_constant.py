import numpy as np

import ninepoint as npt

WEIGHTS = np.ones(3)


@npt.stencil
def weigh(x):
    WEIGHTS[0] = 2
    return x[0] * WEIGHTS[0]


weigh(np.zeros(5))
