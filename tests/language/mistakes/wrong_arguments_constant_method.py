import numpy as np

import ninepoint as npt

WEIGHTS = np.ones(3)


@npt.stencil
def smooth(x):
    return x[0] / WEIGHTS.sum(axis=1)


smooth(np.zeros(5))
