import numpy as np

import ninepoint as npt


@npt.gufunc("(3),(3)->()")
def scalar_product(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


scalar_product(np.ones((7, 3)), np.ones((7, 2)))
