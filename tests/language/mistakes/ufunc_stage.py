import ninepoint as npt


@npt.stencil
def blur(x):
    return (x[-1] + x[0] + x[1]) / 3


@npt.ufunc
def sharper(x):
    return 2 * x - blur(x)
