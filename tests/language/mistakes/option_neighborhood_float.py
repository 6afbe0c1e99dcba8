import ninepoint as npt


@npt.stencil(neighborhood=((-1.0, 1.0),))
def smooth(x):
    return x[-1] + x[1]
