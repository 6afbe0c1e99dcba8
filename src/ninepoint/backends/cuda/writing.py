"""The one door to a GPU's text: of a kernel that was lowered, for one border.

Forms  ->  the kernel as a GPU does it  ->  the scheme that suits it  ->  Source
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING

from ...language.functions import FLOAT_FUNCTIONS
from ...language.ir import Kernel
from ...lowering.algorithms import is_ordered
from ...lowering.exchanges import exchanged
from ...lowering.inlining import flattened
from ...lowering.passes import IN_PLACE, ROWS, checked, passed
from ...lowering.sharing import merged
from .choose import in_strips
from .points import points
from .source import Source

if TYPE_CHECKING:
    from ..pipeline import Forms

# Operations up to which a kernel is done in one piece, counting what its neighbours compute as
# well.  A guess: a stage costs a launch, and is written and read.
LONGEST = 320


def written(
    forms: Forms,
    rules: Sequence[tuple[str, str]],
    *,
    longest: int = LONGEST,
    patches: bool = True,
) -> Source:
    """Write the text of a kernel, with the rule of its border before and after each core axis.

    It is done in one piece up to `longest` operations, and else in stages; by threads that make
    `patches` of several points each where they can.
    """
    kernel, compiled = targeted(forms, longest), forms.compiled
    name = title(compiled.name)
    source = in_strips(forms, kernel, name, tuple(rules)) or points(
        kernel, name, compiled.reaches, compiled.out_dtypes, rules, patches=patches
    )
    return replace(source, text=support() + source.text)


def title(name: str) -> str:
    """What the functions of a kernel begin with; what every text has begins with "npt_"."""
    return "kernel_" + "".join(c if c.isascii() else "_" for c in name)


def targeted(forms: Forms, longest: int = LONGEST) -> Kernel:
    """The kernel as a GPU does it; each float is added in the order in which the CPU adds it.

    In one piece, unless that is longer than so many operations.  Then what neighbours share is
    kept in stages; sums of integers, which are exact, do not run down the rows.
    """
    request = replace(forms.request, schedule=replace(forms.request.schedule, running=False))
    reach = forms.compiled.reach
    passes = ROWS if is_ordered(forms.windowed) else IN_PLACE
    kernel = exchanged(passed(passes, forms.windowed, request, reach)["wholesome"])
    flat = flattened(kernel, longest)
    if flat is not None:
        return checked(flat, reach)
    kernel = exchanged(merged(passed(ROWS, forms.windowed, request, reach)["shared"]))
    return checked(kernel, reach)


def support() -> str:
    """What every text begins with: ninepoint's arithmetic, and what the warps of strips do."""
    folder = resources.files(__package__)
    files = [folder.joinpath(name) for name in ("device.h", "vectors.h", "strips.h")]
    text = "".join(file.read_text(encoding="utf-8") + "\n" for file in files)
    return text.replace('#include "functions.h"\n', _functions())


def _functions() -> str:
    """C's functions of floats, by the names that texts have for them."""
    lines = []
    for name, row in FLOAT_FUNCTIONS.items():
        if name == "exp":
            continue  # It has bits of its own.
        for kind, end in (("float", "f"), ("double", "")):
            names = ("x", "y")[: row.arguments]
            taken = ", ".join(f"{kind} {one}" for one in names)
            call = f"{row.c}{end}({', '.join(names)})"
            lines.append(f"NPT {kind} npt_{name}({taken}) {{ return {call}; }}\n")
    return "".join(lines)
