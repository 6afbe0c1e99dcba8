import numpy as np

import ninepoint as npt


@npt.stencil
def above(x):
    return x[0] > 2**63


above(np.zeros(5, "int32"))
