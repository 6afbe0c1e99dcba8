import numpy as np

import ninepoint as npt

WEIGHTS = np.ones((3, 3))


@npt.stencil
def weigh(image):
    return image[0, 0] * WEIGHTS[1, 3]


weigh(np.zeros((5, 5)))
