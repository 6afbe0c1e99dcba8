import numpy as np

import ninepoint as npt

WIDTH = 3


@npt.stencil
def twice(x):
    return x[0] + WIDTH[0]


twice(np.zeros(5))
