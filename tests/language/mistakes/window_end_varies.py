import ninepoint as npt


@npt.stencil
def adaptive(x, radius):
    return x[-radius : radius + 1].mean()
