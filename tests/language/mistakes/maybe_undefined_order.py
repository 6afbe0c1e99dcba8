import ninepoint as npt


@npt.stencil
def swapped(x):
    y = z + x[0]
    z = x[1]
    return y + z
