import numpy as np

import ninepoint as npt

STEP = np.float64(1.0)


@npt.stencil
def halfway(x):
    return x[-STEP] + x[STEP]
