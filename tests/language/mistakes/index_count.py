import numpy as np

import ninepoint as npt


@npt.stencil(standard_indexing="w")
def weigh(x, w):
    return w[0, 0] * x[0]


weigh(np.zeros(5), np.ones(3))
