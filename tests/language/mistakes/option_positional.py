import ninepoint as npt


@npt.stencil("wrap")
def smooth(x):
    return x[-1] + x[1]
