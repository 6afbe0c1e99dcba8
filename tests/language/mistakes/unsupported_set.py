import ninepoint as npt


@npt.stencil
def member(x):
    return x[0] in {1, 2, 3}
