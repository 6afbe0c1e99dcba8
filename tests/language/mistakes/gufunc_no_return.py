import numpy as np

import ninepoint as npt


@npt.gufunc("(n)->()")
def positive(x):
    if x[0] > 0:
        return x[0]


positive(np.ones(5))
