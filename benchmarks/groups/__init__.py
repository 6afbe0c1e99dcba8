"""What is measured, in groups: each table of the pages is one of them."""

from .calls import CALLS
from .functions import FUNCTIONS
from .gpu import GPU
from .pipelines import PIPELINES
from .scale import SCALE
from .start import START
from .steps import STEPS
from .windows import WINDOWS

# Everything but what needs a GPU; each has a name, a group and a function `measure(order)`.
ITEMS = (*CALLS, *WINDOWS, *PIPELINES, *STEPS, *FUNCTIONS, *SCALE, *START)

# In the order of the tables.
ORDER = [(item.group, item.name) for item in (*ITEMS, *GPU)]
