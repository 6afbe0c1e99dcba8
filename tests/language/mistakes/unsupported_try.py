import ninepoint as npt


@npt.stencil
def checked(x):
    try:
        return 1 / x[0]
    except ZeroDivisionError:
        return 0
