import ninepoint as npt


@npt.ufunc
def edge(x):
    while x[0] > 1:
        x = x / 2
    return x
