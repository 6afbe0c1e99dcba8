import numpy as np

import ninepoint as npt


@npt.stencil
def edges(x):
    return (x[-1], x[1]) if x[0] > 0 else x[0]


edges(np.zeros(5))
