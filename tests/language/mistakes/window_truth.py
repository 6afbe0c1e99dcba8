import numpy as np

import ninepoint as npt


@npt.stencil
def any_positive(x):
    if x[-1:2] > 0:
        return 1
    return 0


any_positive(np.zeros(5))
