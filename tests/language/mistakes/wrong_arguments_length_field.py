import numpy as np

import ninepoint as npt


@npt.stencil
def share(x):
    return x[0] / len(x)


share(np.zeros(5))
