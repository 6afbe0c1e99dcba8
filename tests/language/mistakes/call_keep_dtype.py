import numpy as np

import ninepoint as npt


@npt.stencil(boundary="keep")
def highest(x, y):
    return max(x[-1], y[1])


highest(np.zeros(5), np.zeros(5, "int8"), dtype="int8", overflow="wrap")
