import numpy as np

import ninepoint as npt


@npt.gufunc("(n,k),(k)->(n)")
def product(a, x):
    return np.sum(a * x, axis=1)


product(np.ones((3, 4)), np.ones(5))
