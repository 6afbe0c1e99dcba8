import ninepoint as npt


@npt.stencil
def limited(x, threads=3):
    return min(x[0], threads)
