"""The public names, and where they are: read by type checkers, and when a name is first used."""

from . import filters as filters
from . import shapes as shapes
from .api.pointwise import Ufunc as Ufunc
from .api.pointwise import ufunc as ufunc
from .api.stencil import Stencil as Stencil
from .api.stencil import stencil as stencil
from .arrays.conditions import Condition as Condition
from .arrays.conditions import dirichlet as dirichlet
from .arrays.conditions import extrapolate as extrapolate
from .arrays.conditions import neumann as neumann
from .arrays.conditions import robin as robin
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
from .language.errors import ChannelWarning as ChannelWarning
from .language.errors import MetadataWarning as MetadataWarning
from .language.errors import PerformanceWarning as PerformanceWarning
from .language.errors import RoundingWarning as RoundingWarning
from .language.errors import StencilError as StencilError
from .language.positions import index as index
from .language.positions import spacing as spacing
from .language.statistics import entropy as entropy
from .language.statistics import mode as mode
from .language.statistics import trimmed_mean as trimmed_mean
from .lowering.schedule import Schedule as Schedule
from .running.recording import Lazy as Lazy
from .running.recording import compute as compute
from .running.recording import lazy as lazy

__version__: str
