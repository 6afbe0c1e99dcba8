import numpy as np

import ninepoint as npt


@npt.stencil(upsample=(2, 2))
def same(x):
    i, j = npt.index()
    return x[i, j // 2]


same(np.ones((4, 4)))
