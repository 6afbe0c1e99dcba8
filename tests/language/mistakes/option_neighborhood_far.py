import ninepoint as npt


@npt.stencil(neighborhood=((0, 2**62),))
def smooth(x, k):
    return x[k]
