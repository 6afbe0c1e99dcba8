import ninepoint as npt


@npt.stencil
def halfway(x):
    return x[0.5]
