"""What is said without stopping: warnings of our own, each easily silenced by its class."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

from .errors import Mistake

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class ChannelWarning(UserWarning):
    """A kernel takes what looks like the channels of colour images for columns.

    Examples
    --------
    >>> import warnings
    >>> import ninepoint as npt
    >>> warnings.simplefilter("ignore", npt.ChannelWarning)
    """


class MetadataWarning(UserWarning):
    """What a file says about its frames is not kept: the names of axes, the size of a pixel.

    Examples
    --------
    >>> import warnings
    >>> import ninepoint as npt
    >>> warnings.simplefilter("ignore", npt.MetadataWarning)
    """


class PerformanceWarning(UserWarning):
    """A call is right, but takes many times as long as another way to say the same.

    It says why, how many times, and what to write instead: once for each stencil, in the process
    that decorated it.  ``@npt.stencil(performance_warnings=False)`` silences one stencil.

    Examples
    --------
    >>> import warnings
    >>> import ninepoint as npt
    >>> warnings.simplefilter("ignore", npt.PerformanceWarning)
    """


class RoundingWarning(UserWarning):
    """A filter rounds what its weights make to the integers of the image.

    Examples
    --------
    >>> import warnings
    >>> import ninepoint as npt
    >>> warnings.simplefilter("ignore", npt.RoundingWarning)
    """


# How many times as long kernels that are not analysed take: the more, the more loops they have,
# and most where they make arrays for each point.
SLOWER = "5 to 500"

# Not a mistake: what a warning says of a kernel on the general path.
slow_kernel = Mistake(
    "slow-kernel",
    "'{name}' holds {reason}, so Numba compiles it as it is written, by its own rules for the "
    f"types of numbers, and it takes about {SLOWER} times as long as a kernel of the same reads "
    "that is analysed.",
    "this is not analysed: explain() tells more, and @npt.stencil(performance_warnings=False) "
    "accepts it",
    "Write it without, if you can.",
    {
        "an offset that varies": "Choose among constant offsets, as np.where(k > 0, x[1], x[-1]), "
        "or give a number that is the same for all points as a constant.",
        "a loop whose range is not constant": "Let range() have constant ends, and leave out "
        "turns with 'a if test else b'.",
        "a very long loop": "Read a window, such as x[-9:10].sum().",
        "it unrolls to more than": "Read a window, such as (x[-9:10, -9:10] * weights).sum(), in "
        "place of the loops.",
        "a buffer": "Read a window, w = x[-1:2, -1:2]: w.sum(), w.max(), np.median(w) and "
        "np.percentile(w, 30) are analysed.",
        "an element of a window at an index that varies": "Say which elements count with where=, "
        "as w.sum(where=w > 0) for w[w > 0].sum().",
        "the function 'np.sort'": "Ask for the rank that is wanted: np.percentile(w, 100 * k / "
        "(w.size - 1)) is np.sort(w.ravel())[k], but for rounding.",
        "a matrix product": "Write the sum of products, (a * b).sum().",
    },
)


def warn(words: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that led here, however deep in the package this is."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
        level += 1
    # Started by `python -m ninepoint` there is no line of the user's.
    warnings.warn(words, category, stacklevel=1 if frame is None else level)
