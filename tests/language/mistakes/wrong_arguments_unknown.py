import numpy as np

import ninepoint as npt


@npt.stencil
def middle(x):
    return x[-1:2].median(middle=True)


middle(np.zeros(5))
