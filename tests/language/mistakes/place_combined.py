# A letter with a combining accent is one column.
import ninepoint as npt


@npt.stencil
def smooth(x):
    é = x[0]
    return é + x[0.5]
