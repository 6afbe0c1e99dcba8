import ninepoint as npt


@npt.stencil
def ramp(x, slope):
    i, j = npt.index(slope)
    return x[0, 0] + slope * i
