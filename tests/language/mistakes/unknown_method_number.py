import numpy as np

import ninepoint as npt


@npt.stencil
def smooth(x):
    return x[0].sum()


smooth(np.zeros(5))
