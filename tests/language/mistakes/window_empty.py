import ninepoint as npt


@npt.stencil
def backwards(x):
    return x[1:-1].sum()
