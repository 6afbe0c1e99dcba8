import numpy as np

import ninepoint as npt

nothing = np.zeros((3, 3), dtype=bool)


@npt.stencil
def around(image):
    return np.median(image[-1:2, -1:2][nothing])


around(np.zeros((5, 5)))
