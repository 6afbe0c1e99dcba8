import numpy as np

import ninepoint as npt


@npt.stencil
def choose(x):
    w = x[-1:2] if x[0] > 0 else x[-2:3]
    return w.sum()


choose(np.zeros(5))
