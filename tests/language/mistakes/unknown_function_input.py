import numpy as np

import ninepoint as npt


@npt.stencil
def asked(x):
    return x[0] * float(input("weight? "))


asked(np.zeros(5))
