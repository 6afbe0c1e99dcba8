import numpy as np

import ninepoint as npt


@npt.stencil
def smooth(image):
    return image[-1:2, -1:2].average()


smooth(np.zeros((5, 5)))
