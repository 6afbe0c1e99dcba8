import numpy as np

import ninepoint as npt


@npt.stencil
def low(x):
    return min(x[-1:2])


low(np.zeros(5))
