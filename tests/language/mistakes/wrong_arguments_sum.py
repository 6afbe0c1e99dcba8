import numpy as np

import ninepoint as npt


@npt.stencil
def total(x):
    return sum(x[-1:2])


total(np.zeros(5))
