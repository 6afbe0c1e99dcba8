"""What Numba says of a mistake, without what only its authors read."""

from __future__ import annotations

import re

# What Numba says of which nobody learns anything, and how it says the rest.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FUNCTION = re.compile(r"Function\(<(?:[a-z-]+ )*'?((?!0x)[\w.]+)'?(?: at 0x[0-9a-f]+)?>\)")
_SILENT = ("Failed in", "There are", "Rejected", "Overload", "File", "During:", "Enable logging",
           "Not Enough Information", ">>>")  # fmt: skip


def plain(error: Exception) -> str:
    """All that it says."""
    return _COLOURS.sub("", str(error))


def reason(text: str) -> str:
    """The first line that says something."""
    lines = [line.strip(" -") for line in text.splitlines()]
    useful = [line for line in lines if line and not line.startswith(_SILENT)]
    found = useful[0] if useful else "Numba gives no reason"
    found = _FUNCTION.sub(r"'\1'", found)
    found = found.replace("found for signature", "for these arguments")
    return re.sub(r",? (defined )?at /\S*( \(\d+\))?", "", found).rstrip(".:")
