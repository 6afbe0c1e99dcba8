import numpy as np

import ninepoint as npt


def mix(a, b):
    return a + b


@npt.stencil
def smooth(x):
    return mix(x[-1], x[0], x[1])


smooth(np.zeros(5))
