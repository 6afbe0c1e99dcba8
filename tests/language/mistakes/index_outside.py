import numpy as np

import ninepoint as npt


@npt.stencil(standard_indexing="w")
def weigh(x, w):
    return w[0] * x[-1] + w[3] * x[1]


weigh(np.zeros(5), np.ones(3))
