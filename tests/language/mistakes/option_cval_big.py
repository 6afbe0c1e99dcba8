import numpy as np

import ninepoint as npt


@npt.stencil
def same(x):
    return max(x[-1], x[1])


same(np.zeros(5, "uint8"), cval=300)
