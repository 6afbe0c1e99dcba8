"""How far a kernel looks, after whichever pass: no farther than the arrays of a call reach.

    out = v0[0, 3]       where x reaches 2 only   ->      AssertionError: x[0, 3] beyond 2

A pass that breaks this is wrong, even where the numbers happen to be right.  Names and types need
no look of their own: what is wrong with them is not compiled, or gives other numbers than the
reference.  See `ninepoint.lowering.passes`.
"""

from ninepoint.analysis.footprint import extents
from ninepoint.language.ir import Box, Kernel
from ninepoint.lowering.rolling import computed_at, full


def verify(kernel: Kernel, reach: Box) -> None:
    """Raise `AssertionError` if a field is read farther from a point than `reach` says."""
    fields = {name for name, _ in kernel.fields}
    allowed = Box(full(reach.lo), full(reach.hi))
    for body, at in computed_at(kernel):
        for assign in body:
            for field, least, most in extents(assign.value):
                looks = at.shift(full(least)) | at.shift(full(most))
                inside = field not in fields or looks | allowed == allowed
                assert inside, f"{assign.name}: {field}{least}..{most} beyond {reach}"
