"""The passes: from a kernel as it was read to one whose loops are easily written.

    read          the text became a kernel              language.parse
    simplified    what does nothing goes                analysis.rewrite
    stored        results in their storage types        storage
    widened       averages that integers cannot hold    storage
    staged        large windows go axis by axis         algorithms
    unrolled      small windows become straight lines   windows
    evened        differences are taken in one order    sharing
    wholesome     floats that are whole become integers storage
    shared        what neighbours compute too is kept   sharing

Small windows may be done at each point instead, for several rows at once: `fastest` compares both.
The order in which floats are added follows from the window's shape alone: see `staging`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ..language.ir import Box, Kernel
from .algorithms import staged
from .schedule import Request
from .sharing import evened, shared
from .storage import stored, wholesome, widened
from .windows import unrolled

Pass: TypeAlias = Callable[[Kernel, Request], Kernel]

# What follows from the types of the results.
STORED: tuple[Pass, ...] = (stored, widened)

# What neighbours compute as well is kept in rows.
ROWS: tuple[Pass, ...] = (staged, unrolled, evened, wholesome, shared)


def passed(
    passes: Sequence[Pass], kernel: Kernel, request: Request, reach: Box
) -> Mapping[str, Kernel]:
    """The kernel after each pass, by its name."""
    forms = dict[str, Kernel]()
    for run in passes:
        kernel = forms[run.__name__] = checked(run(kernel, request), reach)
    return forms


# What looks at each kernel that a pass has made, and how far it may look: tests add to it.
LOOKS: list[Callable[[Kernel, Box], None]] = []


def checked(kernel: Kernel, reach: Box) -> Kernel:
    """The kernel, once it is looked at if the tests ask for it."""
    for look in LOOKS:
        look(kernel, reach)
    return kernel
