"""The passes: from a kernel as it was read to one whose loops are easily written.

    read          the text became a kernel              language.parse
    simplified    what does nothing goes                analysis.simplify
    stored        results in their storage types        storage
    widened       averages that integers cannot hold    wide
    windowed      sums that are windows in disguise     linear
    staged        large windows go axis by axis         algorithms
    unrolled      small windows become straight lines   windows
    wholesome     floats that are whole become integers whole
    shared        what neighbours compute too is kept   sharing
    merged        what reads the same rows is one stage merging

Small windows may be done in place instead, for several rows at once: `fastest` compares both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ..analysis.simplify import simplify
from ..language.box import Box
from ..language.ir import Kernel
from .algorithms import staged
from .linear import windowed
from .merging import merged
from .schedule import Schedule
from .sharing import shared
from .storage import stored
from .verify import verify
from .whole import wholesome
from .wide import widened
from .windows import unrolled

# Set by the tests: look after every pass whether it kept what holds of every kernel.
VARIABLE = "NINEPOINT_VERIFY"


@dataclass(frozen=True, slots=True)
class Options:
    """What the passes are told, besides the kernel."""

    dtypes: tuple[np.dtype, ...]
    overflow: str | None = None
    fastmath: bool = False
    schedule: Schedule = field(default_factory=Schedule)


Pass: TypeAlias = tuple[str, Callable[[Kernel, Options], Kernel]]

# Up to windows, however they are written.
WINDOWED: tuple[Pass, ...] = (
    ("simplified", lambda kernel, _: simplify(kernel)),
    ("stored", lambda kernel, options: stored(kernel, options.dtypes, options.overflow)),
    ("widened", lambda kernel, _: widened(kernel)),
    ("windowed", lambda k, options: windowed(k, options.schedule, floats=options.fastmath)),
)

_WRITTEN: tuple[Pass, ...] = (
    ("unrolled", lambda kernel, options: unrolled(kernel, options.schedule)),
    ("wholesome", lambda kernel, _: wholesome(kernel)),
)
_SHARED: Pass = ("shared", lambda kernel, options: shared(kernel, options.schedule))

# What neighbours compute as well is kept in rows.
ROWS: tuple[Pass, ...] = (
    ("staged", lambda kernel, options: staged(kernel, options.schedule)),
    *_WRITTEN,
    _SHARED,
    ("merged", lambda kernel, _: merged(kernel)),
)

# Small windows are done at each point; several rows together share what they have in common.
IN_PLACE: tuple[Pass, ...] = (
    ("staged", lambda kernel, options: staged(kernel, options.schedule, in_place=True)),
    *_WRITTEN,
)

# In rows, but floats are added in the order in which they are in place.
ROWS_AS_IN_PLACE: tuple[Pass, ...] = (
    ("staged", lambda kernel, options: staged(kernel, options.schedule, as_in_place=True)),
    *_WRITTEN,
    _SHARED,
)


def passed(
    passes: Sequence[Pass], kernel: Kernel, options: Options, reach: Box
) -> Mapping[str, Kernel]:
    """The kernel after each pass, by its name."""
    forms: dict[str, Kernel] = {}
    for name, run in passes:
        kernel = forms[name] = checked(run(kernel, options), reach)
    return forms


def checked(kernel: Kernel, reach: Box | None = None) -> Kernel:
    """The kernel, once it is looked at if the tests ask for it."""
    if VARIABLE in os.environ:
        verify(kernel, reach)
    return kernel
