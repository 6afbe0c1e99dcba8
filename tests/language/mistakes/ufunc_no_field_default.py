import ninepoint as npt


@npt.ufunc
def half(x=1.0):
    return x / 2
