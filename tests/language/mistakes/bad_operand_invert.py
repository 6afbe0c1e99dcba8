import numpy as np

import ninepoint as npt


@npt.stencil
def inverted(x):
    return ~x[0]


inverted(np.zeros(5))
