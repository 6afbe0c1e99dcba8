import numpy as np

import ninepoint as npt


@npt.stencil
def none_positive(x):
    return not x[-1:2]


none_positive(np.zeros(5))
