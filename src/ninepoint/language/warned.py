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


class SlowKernelWarning(UserWarning):
    """A kernel holds something that is not analysed, and is compiled as it is written.

    Its result is that of any other kernel, but it may take a hundred times as long.

    Examples
    --------
    >>> import warnings
    >>> import ninepoint as npt
    >>> warnings.simplefilter("ignore", npt.SlowKernelWarning)
    """


def warn(words: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that led here, however deep in the package this is."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
        level += 1
    # Started by `python -m ninepoint` there is no line of the user's.
    warnings.warn(words, category, stacklevel=1 if frame is None else level)
