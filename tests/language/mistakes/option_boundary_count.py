import numpy as np

import ninepoint as npt


@npt.stencil
def smooth(image):
    return image[-1, 0] + image[1, 0]


smooth(np.zeros((5, 5)), boundary=("wrap", "nearest", "fill"))
