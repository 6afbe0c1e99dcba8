import ninepoint as npt


@npt.stencil
def checked(x):
    assert x[0] >= 0, "negative"
    return x[0]
