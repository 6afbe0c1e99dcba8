import ninepoint as npt


@npt.stencil
def both(x):
    return {"left": x[-1], "right": x[1]}
