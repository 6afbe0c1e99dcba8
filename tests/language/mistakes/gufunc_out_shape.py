import numpy as np

import ninepoint as npt


@npt.gufunc("(n)->(n)")
def doubled(x):
    return x * 2


doubled(np.ones(5), out=np.ones(4))
