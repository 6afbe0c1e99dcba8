import numpy as np

import ninepoint as npt


@npt.stencil
def above(x, least):
    if x[0] > least:
        return 1
    return 0


above(np.zeros(5), np.ones(5))
