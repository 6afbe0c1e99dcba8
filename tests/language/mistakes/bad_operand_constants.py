import numpy as np

import ninepoint as npt

STEP = 0.5


@npt.stencil
def shifted(x):
    return x[0] + (STEP << 1)


shifted(np.zeros(5))
