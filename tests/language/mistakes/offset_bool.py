import ninepoint as npt


@npt.stencil
def one(x):
    return x[True]
