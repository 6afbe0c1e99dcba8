import ninepoint as npt


@npt.stencil
def positive(x):
    if x[0] > 0:
        return x[0]
