# The name of the kernel is also a piece of "def".
import ninepoint as npt


@npt.stencil
def d(x):
    return 2 * x
