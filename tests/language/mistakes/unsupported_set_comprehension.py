import ninepoint as npt


@npt.stencil
def table(x):
    return len({x[k] for k in range(3)})
