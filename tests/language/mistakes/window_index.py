import numpy as np

import ninepoint as npt

last = 3


@npt.stencil
def around(image):
    return image[-1:2, -1:2][0, last]


around(np.zeros((5, 5)))
