import ninepoint as npt


def power(value, n):
    return 1 if n == 0 else value * power(value, n - 1)


@npt.stencil
def cube(x):
    return power(x[0], 3)
