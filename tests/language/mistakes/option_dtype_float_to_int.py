import numpy as np

import ninepoint as npt


@npt.stencil
def smooth(x):
    return (x[-1] + x[1]) / 2


smooth(np.zeros(5, "uint8"), dtype="uint8")
