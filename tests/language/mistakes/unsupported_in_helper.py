import ninepoint as npt


def checked(value):
    assert value >= 0
    return value


@npt.stencil
def root(x):
    return checked(x[0]) ** 0.5
