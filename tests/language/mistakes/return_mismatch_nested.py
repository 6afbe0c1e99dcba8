import ninepoint as npt


@npt.stencil
def edges(x):
    if x[0] > 0:
        return x[-1], x[1]
    else:
        return x[-1], x[0], x[1]
