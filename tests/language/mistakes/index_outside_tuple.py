import numpy as np

import ninepoint as npt

OFFSETS = ((-1, 0), (1, 0))


@npt.stencil
def both(image):
    return image[OFFSETS[0]] + image[OFFSETS[2]]


both(np.zeros((5, 5)))
