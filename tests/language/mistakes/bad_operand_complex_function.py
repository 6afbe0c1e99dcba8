import numpy as np

import ninepoint as npt


@npt.stencil
def highest(x):
    return x[-1:2].max()


highest(np.zeros(5, complex))
