import numpy as np

import ninepoint as npt

OFFSETS = (-1, 1)


@npt.stencil
def smooth(x):
    return x[0] * OFFSETS.mean()


smooth(np.zeros(5))
