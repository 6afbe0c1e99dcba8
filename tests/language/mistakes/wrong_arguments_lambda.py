import numpy as np

import ninepoint as npt


@npt.stencil
def smooth(x):
    half = lambda v: v / 2
    return half(x[-1], x[1])


smooth(np.zeros(5))
