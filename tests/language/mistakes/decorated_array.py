import numpy as np

import ninepoint as npt

npt.stencil(np.zeros(5))
