import ninepoint as npt


@npt.stencil
def checked(x):
    if x[0] < 0:
        raise ValueError("negative")
    return x[0]
