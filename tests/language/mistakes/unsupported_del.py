import ninepoint as npt


@npt.stencil
def tidy(x):
    y = x[0]
    del y
    return x[0]
