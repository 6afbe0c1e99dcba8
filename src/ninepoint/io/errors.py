"""What is wrong with a file: one error, which names the file."""

from __future__ import annotations

import lzma
import struct
import tokenize
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# What libraries raise on damaged files: found by cutting and by flipping bytes of valid ones
# (tests/io/test_files_damage.py, tests/io/test_damage.py).  The last is NumPy's, for the header
# of a .npy file.  MemoryError is left out: that is about the machine.
DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RuntimeError,
    EOFError,
    AssertionError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    tokenize.TokenError,
)

# Characters of a reason; what is longer lists the numbers of a damaged file.
_LONGEST = 400


class ImageReadError(OSError):
    """An image cannot be read as a frame of the stack.

    A file that is missing, a folder or forbidden raises Python's own `FileNotFoundError`,
    `IsADirectoryError` or `PermissionError` instead.

    Parameters
    ----------
    path : str
        The file.
    frame : int
        Number of the frame in the stack, from 0.
    reason : str
        What is wrong, as a fragment of a sentence.
    page : int, optional
        Number of the page in the file, from 0, if the file has several.

    Examples
    --------
    >>> import ninepoint as npt
    >>> with open("broken.png", "wb") as file:
    ...     file.write(b"no picture")
    10
    >>> try:
    ...     npt.imread("broken.png")
    ... except npt.ImageReadError as error:
    ...     print(error.frame, error.path)
    0 broken.png
    """

    def __init__(self, path: str, frame: int, reason: str, page: int | None = None) -> None:
        where = path if page is None else f"{path}, page {page}"
        super().__init__(f"cannot read frame {frame} from {where}: {reason}")
        self.path = path
        self.frame = frame
        self.reason = reason
        self.page = page

    def __reduce__(self) -> tuple[type[ImageReadError], tuple[str, int, str, int | None]]:
        """Pickle by the facts: `OSError` would pass the message alone to `__init__`."""
        return type(self), (self.path, self.frame, self.reason, self.page)


class AmongInputsError(ValueError):
    """Results would be written over, or among, the files that they are computed from."""


# These name their file, and say what to do.
CLEAR = (
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    ImageReadError,
)


@contextmanager
def opening(path: str, wrong: Callable[[str], OSError | ValueError]) -> Iterator[None]:
    """Raise what is wrong with a file or a store as the error that `wrong` makes of a reason."""
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, CLEAR) or path in str(error) or repr(path)[1:-1] in str(error):
            raise
        raise wrong(said(error)) from error


def reason_of(error: BaseException) -> str:
    """Say what an error of another library says, in one short line and never in no words."""
    text = " ".join(str(error).split())
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} ..."
    return text or type(error).__name__


def said(error: BaseException) -> str:
    """What an error says, in one line; with its name where that is half of what it says."""
    text = reason_of(error)
    plain = isinstance(error, OSError | ValueError) or text == type(error).__name__
    return text if plain else f"{type(error).__name__}: {text}"
