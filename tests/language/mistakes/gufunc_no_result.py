import numpy as np

import ninepoint as npt


@npt.gufunc("(n)->()")
def total(x):
    sum(x)
