import ninepoint as npt


def gradient(field, axis):
    return field[1.0] - field[-1]


@npt.stencil
def slope(x):
    return gradient(x, 0)
