import numpy as np

import ninepoint as npt


@npt.stencil
def step(x):
    return x[1] - x[0]


step(np.zeros(5, [("red", "u1"), ("blue", "u1")]))
