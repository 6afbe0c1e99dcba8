"""Which file a frame is written to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from string import Formatter

from .formats import FORMATS, Format


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
    if numbered:
        _check_number(target, text)
    return target


def _is_numbered(name: str, text: str) -> bool:
    try:
        fields = [field for _, field, _, _ in Formatter().parse(name) if field is not None]
    except ValueError as error:
        raise ValueError(f"the pattern {text!r} is not well formed: {error}") from error
    if len(fields) > 1 or any(field not in ("", "0") for field in fields):
        raise ValueError(
            f"the pattern {text!r} should hold one {{}} for the number of the frame, "
            "such as 'smooth/{:04d}.png'"
        )
    return bool(fields)


def _check_number(target: Target, text: str) -> None:
    """Refuse a format that fails for a whole number, or that leaves the folder."""
    try:
        name = target.name.format(0)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"the pattern {text!r} cannot hold a frame number: {error}") from error
    if os.path.basename(name) != name:
        raise ValueError(f"the pattern {text!r} leaves its folder: it gives the name {name!r}")


def _format_of(name: str) -> Format:
    suffix = Path(name).suffix.lower()
    for form in FORMATS:
        if suffix in form.suffixes:
            return form
    known = ", ".join(suffix for form in FORMATS for suffix in form.suffixes)
    raise ValueError(f"imsave cannot tell the format of {name!r}: the name should end in {known}")
