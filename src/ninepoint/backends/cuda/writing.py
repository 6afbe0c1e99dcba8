"""The one door to a GPU's text: of a kernel that was lowered, for one border.

Forms  ->  the kernel as a GPU does it  ->  the scheme that suits it  ->  Source
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING

from ...language.ir import Kernel
from ...lowering.merging import merged
from ...lowering.passes import IN_PLACE, ROWS, ROWS_AS_IN_PLACE, checked, passed
from .points import points
from .source import Source

if TYPE_CHECKING:
    from ..pipeline import Forms


def written(forms: Forms, rules: Sequence[tuple[str, str]]) -> Source:
    """Write the text of a kernel, with the rule of its border before and after each core axis."""
    kernel, compiled = targeted(forms), forms.compiled
    name = "npt_" + "".join(c if c.isascii() else "_" for c in compiled.name)
    source = points(kernel, name, compiled.reaches, compiled.out_dtypes, rules)
    return replace(source, text=support() + source.text)


def targeted(forms: Forms) -> Kernel:
    """The kernel as a GPU does it; each float is added in the order in which the CPU adds it.

    Sums of integers, which are exact, do not run down the rows; and small windows are done at
    each point, as far as that is the order.
    """
    request = replace(forms.request, schedule=replace(forms.request.schedule, running=False))
    reach = forms.compiled.reach
    if forms.as_in_place or exact(forms.unrolled):
        return passed(IN_PLACE, forms.windowed, request, reach)["wholesome"]
    passes = ROWS_AS_IN_PLACE if forms.as_in_place else ROWS
    return checked(merged(passed(passes, forms.windowed, request, reach)["shared"]), reach)


def exact(kernel: Kernel) -> bool:
    """Whether all values are whole numbers, whose sums do not depend on their order."""
    bodies = (kernel.body, *(stage.body for stage in kernel.stages))
    return all(assign.value.dtype.is_integer for body in bodies for assign in body)


def support() -> str:
    """What every text begins with: ninepoint's arithmetic."""
    return resources.files(__package__).joinpath("device.h").read_text(encoding="utf-8") + "\n"
