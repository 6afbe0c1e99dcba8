import ninepoint as npt


@npt.stencil
def first_row(x):
    i, j = npt.index(x)
    return x[0, 0] - x[-i, 0]
