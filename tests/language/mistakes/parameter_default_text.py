import numpy as np

import ninepoint as npt


@npt.stencil
def scaled(x, unit="m"):
    return x[0] * unit


scaled(np.zeros(5))
