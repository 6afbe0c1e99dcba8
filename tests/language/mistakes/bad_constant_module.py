import math

import ninepoint as npt


@npt.stencil
def smooth(x):
    return x[0] * math
