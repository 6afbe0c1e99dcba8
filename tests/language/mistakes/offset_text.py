import ninepoint as npt


@npt.stencil
def named(x):
    return x["left"]
