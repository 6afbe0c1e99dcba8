import ninepoint as npt


@npt.stencil
def labelled(x):
    return f"{x[0]} px"
