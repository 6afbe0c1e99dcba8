import ninepoint as npt


@npt.ufunc("float64(float64)")
def half(x):
    return x / 2
