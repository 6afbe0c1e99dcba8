import numpy as np

import ninepoint as npt


@npt.stencil
def left(x):
    a, b = x[-1:2]
    return a - b


left(np.zeros(5))
