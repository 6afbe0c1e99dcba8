"""The names of the filters, and where they are: read by type checkers, and on first use."""

from .filtering import Options as Options
from .weights import bilateral as bilateral
from .weights import correlate as correlate
from .weights import gaussian as gaussian
from .weights import gaussian_laplace as gaussian_laplace
from .weights import gradient as gradient
from .weights import laplace as laplace
from .weights import prewitt as prewitt
from .weights import sobel as sobel
from .weights import threshold_local as threshold_local
from .weights import unsharp as unsharp
from .windows import black_tophat as black_tophat
from .windows import closing as closing
from .windows import dilate as dilate
from .windows import erode as erode
from .windows import local_std as local_std
from .windows import maximum as maximum
from .windows import mean as mean
from .windows import median as median
from .windows import minimum as minimum
from .windows import morphological_gradient as morphological_gradient
from .windows import opening as opening
from .windows import percentile as percentile
from .windows import sum as sum
from .windows import white_tophat as white_tophat
