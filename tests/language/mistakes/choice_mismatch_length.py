import ninepoint as npt


@npt.stencil
def edges(x):
    pair = (x[-1], x[1]) if x[0] > 0 else (x[-1], x[0], x[1])
    return pair[0]
