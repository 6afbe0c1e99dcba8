import numpy as np

import ninepoint as npt


@npt.stencil
def quiet(x):
    with np.errstate(all="ignore"):
        return 1 / x[0]
