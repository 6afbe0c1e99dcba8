import math

import numpy as np

import ninepoint as npt


@npt.stencil
def digits(x):
    return math.comb(5, x[0])


digits(np.zeros(5, int))
