import ninepoint as npt


@npt.ufunc
def share(x, total):
    return x / (total * len(x))
