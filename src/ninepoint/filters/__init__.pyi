"""The names of the filters, and where they are: read by type checkers, and on first use."""

from .filtering import Options as Options
from .morphology import black_tophat as black_tophat
from .morphology import closing as closing
from .morphology import dilate as dilate
from .morphology import erode as erode
from .morphology import morphological_gradient as morphological_gradient
from .morphology import opening as opening
from .morphology import white_tophat as white_tophat
from .reductions import local_std as local_std
from .reductions import maximum as maximum
from .reductions import mean as mean
from .reductions import median as median
from .reductions import minimum as minimum
from .reductions import percentile as percentile
from .reductions import sum as sum
from .smoothing import bilateral as bilateral
from .smoothing import gaussian as gaussian
from .smoothing import gaussian_laplace as gaussian_laplace
from .smoothing import threshold_local as threshold_local
from .smoothing import unsharp as unsharp
from .weights import correlate as correlate
from .weights import gradient as gradient
from .weights import laplace as laplace
from .weights import prewitt as prewitt
from .weights import sobel as sobel
