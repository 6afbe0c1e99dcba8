import ninepoint as npt


@npt.stencil
def shifted(x, k):
    return x[k]
