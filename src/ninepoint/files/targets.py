"""Which file a frame is written to."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from string import Formatter

from .formats import FORMATS, Format

# What most systems allow [bytes].
LONGEST_NAME = 255

# How a whole number is written: with so many digits at least, and no others than 0 to 9.
_DECIMAL = re.compile(r"0?[0-9]{0,2}d?")


@dataclass(frozen=True, slots=True)
class Target:
    """A folder, and the name of each file in it: `name` is a template if `numbered`."""

    folder: str
    name: str
    numbered: bool
    format: Format

    def path(self, frame: int) -> str:
        """Give the file of a frame, without touching the disk."""
        name = self.name.format(frame) if self.numbered else self.name
        return os.path.join(self.folder, name)


def parse_pattern(pattern: str | PathLike[str]) -> Target:
    """Take a pattern such as "smooth/{:04d}.png" apart.

    A folder, or a name without a suffix, stands for "{:04d}.png" in that folder.
    """
    text = os.fspath(pattern)
    if not isinstance(text, str):
        raise TypeError(f"the pattern of imsave is text, not {pattern!r}")
    if "\0" in text:
        raise ValueError(f"a path cannot hold a NUL character: {text!r}")
    if "://" in text:
        raise ValueError(f"imsave writes local files, not to the URL {text!r}")
    if not text:
        raise ValueError("the pattern of imsave is empty; give one such as 'smooth/{:04d}.png'")
    text = os.path.expanduser(text)
    is_folder = text.endswith(("/", os.sep)) or os.path.isdir(text)
    if is_folder or not (Path(text).suffix or "{" in text):
        text = os.path.join(text, "{:04d}.png")
    folder, name = os.path.split(text)
    if "{" in folder or "}" in folder:
        raise ValueError(f"only the name of the file can hold a {{}}, not its folder: {text!r}")
    numbered = _is_numbered(name, text)
    if not numbered:
        name = name.replace("{{", "{").replace("}}", "}")
    target = Target(folder or ".", name, numbered, _format_of(name))
    _check_name(target.path(0)[len(os.path.join(target.folder, "")) :], text)
    return target


def _is_numbered(name: str, text: str) -> bool:
    if len(name) > LONGEST_NAME:
        raise ValueError(f"a name of {len(name)} characters is too long for a file")
    try:
        pieces = [piece for piece in Formatter().parse(name) if piece[1] is not None]
    except ValueError as error:
        raise ValueError(f"the pattern {text!r} is not well formed: {error}") from error
    for _, field, form, conversion in pieces:
        if field not in ("", "0") or len(pieces) > 1:
            raise ValueError(
                f"the pattern {text!r} should hold one {{}} for the number of the frame, "
                "such as 'smooth/{:04d}.png'"
            )
        if conversion or not _DECIMAL.fullmatch(form or ""):
            raise ValueError(
                f"the pattern {text!r} cannot hold a frame number: in the braces stands how many "
                "digits it has at least, as in {:04d}"
            )
    return bool(pieces)


def _check_name(name: str, text: str) -> None:
    """Refuse a name that leaves the folder, that no file can have, or that promises too much."""
    if os.path.basename(name) != name:
        raise ValueError(f"the pattern {text!r} leaves its folder: it gives the name {name!r}")
    if len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(f"the name {name[:40]!r}... is too long for a file")
    if name.lower().endswith((".ome.tif", ".ome.tiff")):
        stem = name[: name.lower().rindex(".ome")]
        raise ValueError(
            f"imsave writes no OME-TIFF, as the name {name!r} says; name it {stem + '.tif'!r}, or "
            "use tifffile.imwrite(name, array, metadata={'axes': ...})"
        )


def _format_of(name: str) -> Format:
    suffix = Path(name).suffix.lower()
    for form in FORMATS:
        if suffix in form.suffixes:
            return form
    known = ", ".join(suffix for form in FORMATS for suffix in form.suffixes)
    raise ValueError(f"imsave cannot tell the format of {name!r}: the name should end in {known}")
