import numpy as np

import ninepoint as npt


@npt.stencil
def edges(x):
    return x[-1], x[1]


result = np.zeros(5)
edges(np.zeros(5), out=(result, result))
