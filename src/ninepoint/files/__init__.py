"""Images in, images out: `imread` opens a stack lazily, `imsave` streams one to disk.

    sources   which files, in which order          targets   which file a frame goes to
    parts     one chunk of the stack, read         formats   one frame, encoded
    reading   imread                               writing   imsave

`pictures` (PNG, JPEG, BMP) and `tiff` know how a file is laid out.  Pillow, tifffile and Dask
are imported when they are first needed, so importing this package costs nothing.
"""

from __future__ import annotations

from .errors import ImageReadError
from .reading import imread
from .writing import imsave

__all__ = ["ImageReadError", "imread", "imsave"]
