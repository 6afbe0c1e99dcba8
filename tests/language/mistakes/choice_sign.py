import numpy as np

import ninepoint as npt


@npt.stencil
def marked(x):
    return x[0] if x[0] > 3 else -1


marked(np.zeros(5, "uint64"))
