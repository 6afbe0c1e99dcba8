import numpy as np

import ninepoint as npt


@npt.stencil
def nothing(x):
    y = x[0]
    return ()


nothing(np.zeros(5))
