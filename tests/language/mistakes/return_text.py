import numpy as np

import ninepoint as npt


@npt.stencil
def sign(x):
    return "positive" if x[0] > 0 else "negative"


sign(np.zeros(5))
