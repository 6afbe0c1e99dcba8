"""Damage in files and stores of others: one error, which names the file."""

from __future__ import annotations

import tokenize
from collections.abc import Iterator
from contextlib import contextmanager

from ..files.errors import MALFORMED, ImageReadError, reason_of

# What libraries raise on damaged files.  The last is NumPy's, for the header of a .npy file.
DAMAGE = (*MALFORMED, tokenize.TokenError)

# These name their file, and say what to do.
_CLEAR = (
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    ImageReadError,
)


@contextmanager
def opening(path: str) -> Iterator[None]:
    """Raise what is wrong with a file or a store as a ValueError that names it."""
    try:
        yield
    except DAMAGE as error:
        if is_clear(error, path):
            raise
        raise ValueError(f"{path!r} cannot be opened: {said(error)}") from error


@contextmanager
def opening_image(path: str) -> Iterator[None]:
    """Raise what is wrong with an image as an ImageReadError."""
    try:
        yield
    except DAMAGE as error:
        if is_clear(error, path):
            raise
        raise ImageReadError(path, 0, said(error)) from error


def is_clear(error: BaseException, path: str) -> bool:
    """Whether an error tells by itself which file it is about."""
    return isinstance(error, _CLEAR) or path in str(error) or repr(path)[1:-1] in str(error)


def said(error: BaseException) -> str:
    """What an error says, in one line; with its name where that is half of what it says."""
    text = reason_of(error)
    plain = isinstance(error, OSError | ValueError) or text == type(error).__name__
    return text if plain else f"{type(error).__name__}: {text}"
