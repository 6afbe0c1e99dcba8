import ninepoint as npt


@npt.stencil
def scaled(x, factor):
    return factor * (x[-1] + x[1])


@npt.stencil
def rough(x):
    level = x[0] / 2
    s = scaled(x, level + 1)
    return x[0] - s[0]
