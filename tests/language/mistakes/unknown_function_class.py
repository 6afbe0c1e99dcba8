import numpy as np

import ninepoint as npt


class Pair:
    def __init__(self, left, right):
        self.left = left


@npt.stencil
def smooth(x):
    return Pair(x[-1], x[1]).left


smooth(np.zeros(5))
