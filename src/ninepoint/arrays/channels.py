"""The axis of colour channels: left alone where it is known, and asked about where it is likely.

frames of imread, and what is computed from them     the axes before the channels
480 x 640 x 3 of uint8 or uint16, from anywhere      the last axes, with a warning
anything else                                        the last axes
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..language.errors import ChannelWarning, warn
from .accepted import Arrays, is_chunked, is_cupy, is_dask, is_xarray
from .layout import Shape

# Names that the axis of channels has in xarray; an axis of any other name is what it says.
_CHANNEL_DIMS = frozenset(
    "c ch channel channels band bands rgb rgba colour color colours colors sample samples".split()
)

# An image has at least so many rows and columns: what is smaller is a table, or an example.
LEAST_SIDE = 16

_NAME = re.compile(r"imread-colour-(\d+)x(\d+)x(\d+)-[0-9a-f]+")


def working_axes(fields: Arrays, ndim: int, kernel: str) -> Shape | None:
    """Choose the axes of a kernel of `ndim` indices where the call names none.

    Returns
    -------
    tuple of int or None
        Counted from the end, if channels are known to come last; None for the last axes.

    Raises
    ------
    ValueError
        If the channels leave too few axes, or it cannot be told which axis they are.

    Warns
    -----
    ChannelWarning
        If the last axis only looks like channels.
    """
    if not any(map(may_hold, fields)):
        return None
    shapes = [tuple(field.shape) for field in fields]
    try:
        shape = np.broadcast_shapes(*shapes)
    except (ValueError, TypeError):
        return None  # Unknown sizes, or shapes that do not fit: said elsewhere.
    if len(shape) < 3:
        return None
    if any(has_channels(field) for field in fields):
        if ndim > len(shape):
            return None
        if ndim == len(shape):
            raise ValueError(
                f"'{kernel}' works on {ndim} axes, and these colour images have {len(shape) - 1} "
                f"besides their channels; axes={tuple(range(ndim))} takes the channels as an axis "
                "like the others."
            )
        return tuple(range(-1 - ndim, -1))
    if ndim == 2 and any(
        one[-3:] == shape[-3:] and _looks_coloured(field)
        for field, one in zip(fields, shapes, strict=True)
    ):
        rank = len(shape)
        warn(
            f"the last axis of {' x '.join(map(str, shape))} is taken for columns, and it looks "
            f"like the channels of colour images. axes={(rank - 3, rank - 2)} filters every "
            "channel by itself; axes=(-2, -1) says that the axes are meant so.",
            ChannelWarning,
        )
    return None


def check_steps(fields: Arrays, ndim: int, kernel: str) -> None:
    """Look at the fields of an iteration, which works on the last axes and on no others.

    Raises
    ------
    ValueError
        If channels are known to come last.

    Warns
    -----
    ChannelWarning
        If the last axis only looks like channels.
    """
    words = (
        "iterate works on the last axes: move the channels to the front, "
        "np.moveaxis(images, -1, 0), and back afterwards."
    )
    for field in fields:
        if ndim < field.ndim and has_channels(field):
            raise ValueError(f"the last axis of these colour images holds their channels; {words}")
        if ndim == 2 and _looks_coloured(field):
            warn(
                f"'{kernel}' takes the last axis of {' x '.join(map(str, field.shape))} for "
                f"columns, and it looks like the channels of colour images; {words}",
                ChannelWarning,
            )


def has_channels(field: Any) -> bool:
    """Whether the last axis of `field` is known to be that of the channels of colour frames.

    Known are the arrays of `imread`, and those computed from them, as long as their last axis can
    still be that of the channels.

    Raises
    ------
    ValueError
        If the frames are so narrow that it can be that of the columns as well.
    """
    if is_xarray(field):
        field = field.data
    if not is_dask(field) or field.ndim < 3:
        return False
    for name in (field.name, *getattr(field.dask, "layers", ())):
        source = colour_shape(name)
        if source is None:
            continue
        _, columns, channels = source
        if name == field.name:
            return True
        if field.shape[-1] <= channels:
            if columns <= channels:
                raise ValueError(
                    f"it cannot be told whether the last axis of {tuple(field.shape)} holds "
                    f"channels or columns: the images have {columns} columns. Name the axes of "
                    "the kernel with axes=."
                )
            return True
    return False


def may_hold(field: Any) -> bool:
    """Whether it is worth asking if these are colour images; costs next to nothing."""
    if is_chunked(field) or is_xarray(field):
        return True
    return (isinstance(field, np.ndarray) or is_cupy(field)) and coloured_shape(field.shape)


def _looks_coloured(field: Any) -> bool:
    shape = field.shape
    if not coloured_shape(shape) or 0 in shape:
        return False
    if is_xarray(field):
        last = str(field.dims[-1]).lower()
        if last not in _CHANNEL_DIMS and not last.startswith("dim_"):
            return False
        field = field.data
    dtype = np.dtype(getattr(field, "dtype", object))
    return dtype.kind == "u" and dtype.itemsize <= 2


# How colour images are known: by their shape, and by the name of a lazy stack of them.  A Dask
# array forgets everything but shape and dtype; the name of the layer that reads the frames stays
# in the graph of all that is computed from them.


def stack_name(shape: Shape, token: str) -> str:
    """Name a stack of frames of `shape`, (rows, columns[, channels])."""
    if len(shape) == 2:
        return f"imread-{token}"
    return f"imread-colour-{'x'.join(map(str, shape))}-{token}"


def colour_shape(name: object) -> tuple[int, int, int] | None:
    """Give rows, columns and channels of the frames of this name; None if it is another name.

    Examples
    --------
    >>> colour_shape(stack_name((480, 640, 3), "0af1"))
    (480, 640, 3)
    """
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        return None
    rows, columns, channels = map(int, found.groups())
    return rows, columns, channels


def coloured_shape(shape: Shape) -> bool:
    """Whether images with their channels last have this shape.

    Examples
    --------
    >>> coloured_shape((480, 640, 3)), coloured_shape((5, 480, 640)), coloured_shape((2, 5, 3))
    (True, False, False)
    """
    return len(shape) >= 3 and shape[-1] in (3, 4) and min(shape[-3:-1]) >= LEAST_SIDE
