import ninepoint as npt


@npt.ufunc
def half(*, x):
    return x / 2
