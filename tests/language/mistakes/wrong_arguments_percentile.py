import numpy as np

import ninepoint as npt


@npt.stencil
def high(x):
    return np.percentile(x[-1:2], 120)


high(np.zeros(5))
