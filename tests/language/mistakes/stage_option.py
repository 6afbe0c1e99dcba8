import ninepoint as npt


@npt.stencil
def slope(x):
    return x[1] - x[-1]


@npt.stencil
def rough(x):
    s = slope(x, boundary=npt.neumann(0.5))
    return x[0] - s[0]
