import ninepoint as npt


@npt.stencil(neighborhood=((-1, 1), (-1, 1)))
def line(x):
    return x[-1] + x[1]
