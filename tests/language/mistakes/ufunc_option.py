import ninepoint as npt


@npt.ufunc(target="parallel")
def half(x):
    return x / 2
