import ninepoint as npt


@npt.stencil
def clear(x):
    x[0] = 0
    return x[0]
