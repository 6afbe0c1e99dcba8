import numpy as np

import ninepoint as npt


@npt.stencil
def sign(x):
    first = x[0]
    return "positive"


sign(np.zeros(5))
