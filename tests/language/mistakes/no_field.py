import ninepoint as npt


@npt.stencil
def double(x):
    return 2 * x
