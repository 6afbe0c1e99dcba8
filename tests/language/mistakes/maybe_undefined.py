import ninepoint as npt


@npt.stencil
def threshold(x):
    if x[0] > 10:
        high = x[0]
    return high
