import numpy as np

import ninepoint as npt

WEIGHTS = np.ones((3, 5))


@npt.stencil
def correlate(image):
    return (image[-1:2, -1:2] * WEIGHTS).sum()


correlate(np.zeros((5, 5)))
