import ninepoint as npt


@npt.stencil
def scaled(x, by):
    return x[0] * by


@npt.stencil
def ramp(x):
    s = scaled(x, npt.index())
    return s[0]
