import numpy as np

import ninepoint as npt


@npt.stencil
def larger(x):
    return x[1] if x[1] > x[0] else x[0]


larger(np.zeros(5, complex))
