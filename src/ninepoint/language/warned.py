"""What is said without stopping: warnings of our own, each easily silenced by its class."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

from .errors import Diagnostic, Span

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


def slow_kernel(span: Span, name: str, reason: str) -> Diagnostic:
    """Not a mistake: what a warning says of a kernel on the general path."""
    return Diagnostic(
        "slow-kernel",
        f"'{name}' holds {reason}, so it is compiled as it is written: it is right, but may "
        "take a hundred times as long as a kernel that is understood.",
        span,
        "this is not analysed",
        "Write it without, if you can; explain() tells which path a kernel takes. "
        "warnings.simplefilter('ignore', ninepoint.SlowKernelWarning) accepts it.",
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
