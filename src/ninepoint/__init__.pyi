"""The public names, and where they are: read by type checkers, and when a name is first used."""

from . import filters as filters
from . import shapes as shapes
from .api.stencil import Stencil as Stencil
from .api.stencil import Ufunc as Ufunc
from .api.stencil import stencil as stencil
from .api.stencil import ufunc as ufunc
from .arrays.borders import Condition as Condition
from .arrays.borders import dirichlet as dirichlet
from .arrays.borders import extrapolate as extrapolate
from .arrays.borders import neumann as neumann
from .arrays.borders import robin as robin
from .gufuncs.api import Gufunc as Gufunc
from .gufuncs.api import gufunc as gufunc
from .inspecting.explaining import explain as explain
from .inspecting.measuring import Measurement as Measurement
from .inspecting.surroundings import info as info
from .io.opening import imread as imread
from .io.opening import open as open
from .io.paths import ImageReadError as ImageReadError
from .io.saving import imsave as imsave
from .io.saving import save as save
from .iteration.slabs.slab import distribute as distribute
from .language.definitions import index as index
from .language.definitions import spacing as spacing
from .language.errors import ChannelWarning as ChannelWarning
from .language.errors import MetadataWarning as MetadataWarning
from .language.errors import PerformanceWarning as PerformanceWarning
from .language.errors import RoundingWarning as RoundingWarning
from .language.errors import StencilError as StencilError
from .language.statistics import entropy as entropy
from .language.statistics import mode as mode
from .language.statistics import trimmed_mean as trimmed_mean
from .lowering.schedule import Schedule as Schedule
from .running.calls import Lazy as Lazy
from .running.calls import compute as compute
from .running.calls import lazy as lazy

__version__: str
