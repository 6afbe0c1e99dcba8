import numpy as np

import ninepoint as npt


@npt.stencil
def limited(x):
    return np.clip(x[0], 0, a_min=1)


limited(np.zeros(5))
