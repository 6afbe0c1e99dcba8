import ninepoint as npt


@npt.stencil
def every(x):
    return x[..., 0]
