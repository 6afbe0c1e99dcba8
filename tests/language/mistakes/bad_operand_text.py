import numpy as np

import ninepoint as npt


@npt.stencil
def labelled(x):
    return x[0] + "px"


labelled(np.zeros(5))
