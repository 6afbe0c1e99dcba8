"""How colour images are known: by their shape, and by the name of a lazy stack of them.

A Dask array forgets everything but shape and dtype; the name of the layer that reads the frames
stays in the graph of all that is computed from them.
"""

from __future__ import annotations

import re

# An image has at least so many rows and columns: what is smaller is a table, or an example.
LEAST_SIDE = 16

_NAME = re.compile(r"imread-colour-(\d+)x(\d+)x(\d+)-[0-9a-f]+")


def stack_name(shape: tuple[int, ...], token: str) -> str:
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


def coloured_shape(shape: tuple[int, ...]) -> bool:
    """Whether images with their channels last have this shape.

    Examples
    --------
    >>> coloured_shape((480, 640, 3)), coloured_shape((5, 480, 640)), coloured_shape((2, 5, 3))
    (True, False, False)
    """
    return len(shape) >= 3 and shape[-1] in (3, 4) and min(shape[-3:-1]) >= LEAST_SIDE
