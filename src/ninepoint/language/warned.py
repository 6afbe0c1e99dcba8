"""What is said without stopping: warnings of our own, each easily silenced by its class."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

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


def warn(words: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that led here, however deep in the package this is."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
        level += 1
    # Started by `python -m ninepoint` there is no line of the user's.
    warnings.warn(words, category, stacklevel=1 if frame is None else level)
