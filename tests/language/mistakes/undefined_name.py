import ninepoint as npt


@npt.stencil
def smooth(x):
    return wieght * (x[-1] + x[1])
