import numpy as np

import ninepoint as npt


def half(value):
    return value / 2


@npt.stencil
def scaled(x):
    return x[0] * half


scaled(np.zeros(5))
