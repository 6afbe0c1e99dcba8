import math

import ninepoint as npt

npt.stencil(math)
