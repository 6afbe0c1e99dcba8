import numpy as np

import ninepoint as npt


@npt.stencil(standard_indexing="w")
def scaled(x, w):
    return w[0] * x[0]


scaled(np.zeros(5), np.ma.masked_less(np.ones(3), 0))
