import ninepoint as npt


@npt.stencil
def wide(x):
    return x[-1.5:1.5].mean()
