import ninepoint as npt


@npt.stencil
def held(x):
    class Pair:
        left = 1

    return x[0]
