import functools

import ninepoint as npt


@npt.stencil
@functools.cache
def smooth(x):
    return x[-1] + x[1]
