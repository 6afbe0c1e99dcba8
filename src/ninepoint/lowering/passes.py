"""The passes: from a kernel as it was read to one whose loops are easily written.

    read          the text became a kernel              language.parse
    simplified    what does nothing goes                analysis.rewrite
    stored        results in their storage types        storage
    widened       averages that integers cannot hold    storage
    staged        large windows go axis by axis         staging
    unrolled      small windows become straight lines   windows
    evened        differences are taken in one order    sharing
    wholesome     floats that are whole become integers storage
    shared        what neighbours compute too is kept   sharing

Small windows may be done at each point instead, for several rows at once: `fastest` compares both.
The order in which floats are added follows from the window's shape alone: see `staging`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..language.ir import Box, Kernel, Reduce
from .rolling import LONGEST, effort, rolled, suitable, together
from .schedule import NEAR, Request, Schedule
from .sharing import evened, flattened, shared
from .staging import staged
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


def fastest(kept: Kernel, forms: Mapping[str, Kernel], schedule: Schedule) -> Kernel:
    """The kernel whose values are kept in rows, or several rows at once with nothing kept.

    Both do the same operations; `forms` are the kernel after each pass.
    """
    # Several rows of 5 x 5 elements of float64, each with its weight, took twice as long (Zen 5).
    far = any(
        isinstance(one.value, Reduce)
        and one.value.kind in ("sum", "mean")
        and not one.value.result.dtype.is_integer
        and max(one.value.shape) > NEAR
        for one in forms["widened"].body
    )
    in_place = None if far else flattened(forms["wholesome"], LONGEST)
    if in_place is not None and suitable(in_place, schedule):
        several = replace(in_place, rows=schedule.rows)
        if together(several)[0] is not None and effort(several) < effort(kept) * schedule.gain:
            return several
    return rolled(kept, schedule)
