import numpy as np

import ninepoint as npt


@npt.gufunc("(n,k),(k m)->(n,m)")
def product(a, b):
    return np.dot(a, b)
