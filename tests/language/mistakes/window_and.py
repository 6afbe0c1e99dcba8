import numpy as np

import ninepoint as npt


@npt.stencil
def any_positive(x):
    return (x[-1:2] > 0 and x[-1:2] < 5).any()


any_positive(np.zeros(5))
