import ninepoint as npt


@npt.stencil
def smooth(x):
    return x[-1] + x[1]


@npt.stencil
def rough(x):
    return x[0] - smooth
