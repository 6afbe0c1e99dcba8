import ninepoint as npt


@npt.ufunc
def edge(x, y):
    return x[1] - y
