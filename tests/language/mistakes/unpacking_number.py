import numpy as np

import ninepoint as npt


@npt.stencil
def left(x):
    a, b = x[0]
    return a - b


left(np.zeros(5))
