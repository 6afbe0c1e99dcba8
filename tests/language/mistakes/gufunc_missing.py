import numpy as np

import ninepoint as npt


@npt.gufunc("(n)->(n)")
def scaled(x, factor):
    return x * factor


scaled(np.ones(5))
