import numpy as np

import ninepoint as npt

npt.index(np.zeros(3))
