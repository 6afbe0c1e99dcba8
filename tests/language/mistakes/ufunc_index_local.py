import ninepoint as npt


@npt.ufunc
def edge(x):
    d = 2 * x
    return d[1] - d
