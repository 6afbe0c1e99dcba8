import ninepoint as npt


def even(value):
    return odd(value - 1)


def odd(value):
    return even(value - 1)


@npt.stencil
def parity(x):
    return even(x[0])
