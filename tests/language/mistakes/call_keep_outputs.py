import numpy as np

import ninepoint as npt


@npt.stencil(boundary="keep")
def edges(x):
    return x[-1], x[1]


edges(np.zeros(5))
