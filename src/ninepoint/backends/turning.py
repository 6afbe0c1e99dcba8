"""Other forms of a kernel, for arrays that lie in another way: lanes, transposed, levels last."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..language.box import Box, joined
from ..language.ir import Kernel
from ..lowering import lanes
from ..lowering.abreast import rolled
from ..lowering.passes import checked
from ..lowering.schedule import Schedule
from ..lowering.sharing import merged, shared
from .compiled import Compiled, How
from .numba import loops


@dataclass(frozen=True, slots=True)
class Written:
    """What a text was written of, by its title.

    `single` gives the same bits one row after the other, and leaves to be chosen what is kept in
    rows and made at once.
    """

    title: str
    kernel: Kernel
    single: Kernel
    schedule: Schedule

    def turned(self, compiled: Compiled, how: How) -> Compiled | None:
        """What is compiled for arrays that lie in another way, if there is such a form."""
        if isinstance(how, tuple):
            turn = lanes.transposed(how)
            single = None if compiled.positions else turn.kernel(self.single)
            if single is None:
                return None
            every = turn.offset(compiled.every) if compiled.every else ()
            kernel = self._rows(single, every)
            title = f"{self.title}, transposed"
            made = _with(compiled, title, kernel, tuple(map(turn.box, compiled.reaches)))
            basis = Written(title, kernel, single, self.schedule)
            return replace(made, turning=basis.turned, every=every)
        if how:
            turn = lanes.interleaved(how)
            beside = turn.kernel(self.kernel)
            if beside is None:
                return None
            reaches = tuple(map(turn.box, compiled.reaches))
            return _with(compiled, f"{self.title}, {how} lanes", beside, reaches)
        single = lanes.LEVELLED.kernel(self.single)
        if single is None:
            return None
        reaches = tuple(map(lanes.LEVELLED.box, compiled.reaches))
        return _with(compiled, f"{self.title}, levels last", self._rows(single), reaches)

    def _rows(self, kernel: Kernel, every: tuple[int, ...] = ()) -> Kernel:
        """Choose what is kept and made at once, where the rows are others than before."""
        kernel = merged(shared(kernel, self.schedule))
        return replace(kernel, every=every) if every else rolled(kernel, self.schedule)


def _with(compiled: Compiled, title: str, kernel: Kernel, reaches: tuple[Box, ...]) -> Compiled:
    """What another form of the kernel is compiled to."""
    reach = joined(reaches)
    module = loops.module(
        checked(kernel, reach),
        title,
        reach,
        fastmath=compiled.fastmath,
        dtypes=compiled.out_dtypes,
    )
    return replace(
        compiled, module=module, reaches=reaches, turning=None, lowering=None, again=None
    )
