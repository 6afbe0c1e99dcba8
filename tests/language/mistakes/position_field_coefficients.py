import numpy as np

import ninepoint as npt


@npt.stencil(standard_indexing=("w",))
def weighted(x, w):
    return x[0] * w[0] + npt.index(w)


weighted(np.arange(4.0), np.ones(3))
