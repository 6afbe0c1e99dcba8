import numpy as np

import ninepoint as npt


@npt.stencil
def average(x):
    return x[0] / len(3)


average(np.zeros(5))
