import numpy as np

import ninepoint as npt


@npt.stencil
def edges(x):
    return x[0], (x[-1], x[1])


edges(np.zeros(5))
