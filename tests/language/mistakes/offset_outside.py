import ninepoint as npt


@npt.stencil(neighborhood=((-1, 1),))
def far(x):
    return x[-2] + x[1]
