import numpy as np

import ninepoint as npt

npt.filters.gaussian(np.zeros((5, 5)), 2, mode="reflect")
