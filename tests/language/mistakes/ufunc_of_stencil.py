import ninepoint as npt


@npt.ufunc
@npt.stencil
def half(x):
    return x[0] / 2
