"""Calls on arrays of a GPU: bound once for arrays that lie alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninepoint.arrays.cuda.settled import Settled
from ninepoint.arrays.cuda.work import one_call, understood
from ninepoint.arrays.executable import Options, Run
from ninepoint.arrays.recognise import listed
from ninepoint.backends.compiled import Bound
from ninepoint.backends.cuda.driver import DeviceArray


def bind(
    program: Bound, fields: Sequence[DeviceArray], options: Options, out: Any, axes: Any = None
) -> Run:
    """What does calls on fields and an `out` that lie just like these, on the current GPU.

    What is made is there once all is done that was begun on the current stream.

    Raises
    ------
    StencilError
        If the kernel takes the general path, which leads to the CPU only.
    ValueError
        If the border's constant does not fit, or there are too few axes.
    """
    understood(program.compiled)
    work = one_call(program, options)
    settled = Settled(work, fields, out, axes)
    quick = settled.quick

    def run(fields: Sequence[DeviceArray], numbers: Sequence[Any], out: Any) -> Any:
        made = quick(fields, numbers, out)
        if made is None:
            # What is to be written overlaps what is read, or is of another type.
            made = Settled(work, fields, None, axes)(fields, numbers, None)
            for target, one in zip(listed(out), listed(made), strict=True):
                target[...] = one
            return out
        return made

    return run
