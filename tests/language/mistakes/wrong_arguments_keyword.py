import numpy as np

import ninepoint as npt


def mix(a, b):
    return a + b


@npt.stencil
def smooth(x):
    return mix(x[-1], b=1, c=2)


smooth(np.zeros(5))
