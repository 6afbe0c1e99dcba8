import numpy as np

import ninepoint as npt


@npt.stencil
def around(image):
    return image[-1:2, -1:2]


around(np.zeros((5, 5)))
