import ninepoint as npt

COUNT = 0


@npt.stencil
def counted(x):
    global COUNT
    COUNT += 1
    return x[0]
