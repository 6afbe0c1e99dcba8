import numpy as np

import ninepoint as npt


@npt.stencil
def smooth(x):
    return x[-1] + x[1]


smooth(np.zeros(5), out=np.zeros(5, "int32"))
