import ninepoint as npt


@npt.stencil(boundary=(("wrap", "nearest"),))
def smooth(x):
    return x[-1] + x[1]
