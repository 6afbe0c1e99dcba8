import ninepoint as npt


@npt.stencil
def root(x):
    import math

    return math.sqrt(x[0])
