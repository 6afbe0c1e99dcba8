import numpy as np

import ninepoint as npt


@npt.ufunc
def total(x, y, *, k=1):
    return x + k * y


x = np.arange(3.0)
total(2.0, 3.0, out=np.empty(4))
