import numpy as np

import ninepoint as npt


@npt.stencil
def same(x):
    y = x[0]
    return x


same(np.zeros(5))
