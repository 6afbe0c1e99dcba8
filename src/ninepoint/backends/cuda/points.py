"""Points: threads make the points of each stage, and then those of the results.

    v = x[0, 1] - x[0, -1]               __global__ void npt_f_1(f0, v0, ...)   v over its region
    out = v[-1, 0] + v[1, 0]     ->      __global__ void npt_f(v0, o0, ...)     the result

Any kernel can be done so.  A stage is an array between two launches, over all points at which it
is needed; beyond the ends of the fields it is computed there, as the border says they go on.  A
thread makes a patch of several points where that is less work, else one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...analysis.control import loops
from ...analysis.ranges import Interval, ranges
from ...language.box import Box
from ...language.dtypes import computed
from ...language.ir import (
    Element,
    Histogram,
    Kernel,
    Offset,
    Read,
    Stage,
    Values,
)
from ...loops.nodes import SHORT
from ...lowering.kept import needed
from ...lowering.machine import machine_type
from ..numba.control import Control
from ..numba.window_loops import over
from .bodies import Array, stored
from .borders import Rules, constants_of, maps
from .functions import field_arrays, out_arrays, plus
from .patches import Region, patched
from .shapes import Part, padded
from .source import Launch, Scratch, Source
from .windows import Ranks, Windows

# Threads of a block along the last core axis, and along the last but one.
_THREADS = {1: (256,), 2: (8, 32)}


def points(
    kernel: Kernel,
    name: str,
    reaches: Sequence[Box],
    outs: Sequence[np.dtype],
    rules: Rules,
) -> Source:
    """The text of a kernel whose outputs are in their storage types, and its launches.

    Its functions are called after `name`.  A thread makes several points where it can, and none
    has a loop of its own.
    """
    known, patches = ranges(kernel), not loops(kernel)
    constants = constants_of(rules, [dtype for _, dtype in kernel.fields], outs)
    need = needed(kernel)
    arrays, regions = field_arrays(kernel), dict[str, tuple[Offset, Offset]]()
    lines, launches, scratch = maps(rules), list[Launch](), list[Scratch]()

    def add(part: Part, stage: Stage | None) -> None:
        several = patches and (stage is None or isinstance(stage, Values))
        found = patched(part) if several else None
        text, launch = found or _Point.of(part, known).written(stage)
        lines.extend(text)
        launches.append(launch)

    for position, stage in enumerate(kernel.stages):
        if stage.names[0] not in need:
            continue
        low, high = (corner[-kernel.ndim :] for corner in need[stage.names[0]])
        types = [_kept(stage, k, known) for k in range(len(stage.names))]
        targets = tuple(
            Array(f"scratch{k}", f"v{k}", dtype) for k, dtype in enumerate(types, len(scratch))
        )
        one = replace(
            kernel, stages=kernel.stages[:position], body=stage.body, outputs=stage.values
        )
        called = f"{name}_{len(launches) + 1}"
        add(Part(one, called, low, high, targets, arrays, regions, rules, constants), stage)
        for made, array in zip(stage.names, targets, strict=True):
            region = padded(low, high, array.dtype) if patches else (low, high)
            arrays, regions = arrays | {made: array}, regions | {made: region}
            scratch.append(Scratch(array.name, array.dtype, *region))
    nothing, results = (0,) * kernel.ndim, tuple(out_arrays(outs))
    add(
        Part(
            kernel, name, nothing, nothing, results, arrays, regions, rules, constants,
            tuple(reaches),
        ),
        None,
    )  # fmt: skip
    text = "\n".join([*lines, ""])
    return Source(text, tuple(launches), tuple(scratch), constants)


def _over(stage: Histogram, body: Sequence[str]) -> list[str]:
    """Loops over the elements of a histogram's window: d0, d1, ... are steps along its axes."""
    if not stage.runs:
        return over(stage.shape, body)
    lines: list[str] = []
    for *steps, first, length in stage.runs:
        lines += [f"d{k} = {step}" for k, step in enumerate(steps)]
        lines.append(f"for d{len(steps)} in range({first}, {first + length}):")
        lines += ["    " + line for line in body]
    return lines


def _kept(stage: Stage, k: int, known: Mapping[str, Interval]) -> np.dtype:
    """What a stage is stored as: the narrowest type that holds it."""
    # Steps in a chain are not points by themselves, and no sum runs down the rows.
    assert isinstance(stage, Values | Histogram)
    return np.dtype(machine_type(stage.values[k].dtype, known[stage.names[k]]))


@dataclass
class _Point(Region):
    """A function each of whose threads makes one point, whose elements are read where they are."""

    _mapped: dict[tuple[int, int], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.text = self.body()

    @staticmethod
    def of(part: Part, known: Mapping[str, Interval]) -> _Point:
        """The function of a part."""
        kernel = part.kernel
        own, two = (1,) * kernel.ndim, _THREADS[min(kernel.ndim, 2)]
        threads = (*own[: -len(two)], *two)
        return _Point(kernel, known, part.constants, part.name, part.targets, part, own, threads)

    def written(self, stage: Stage | None) -> tuple[list[str], Launch]:
        """The text of the function of a stage, or of the results, and how it is started."""
        match stage:
            case Histogram():
                found = self._histogram(stage)
            case _:
                self._lines()
                outputs = self.kernel.outputs
                found = [(self.text.machine(one), self.text.result(one)) for one in outputs]
        lines = self.text.printed()
        for k, (target, (machine, value)) in enumerate(zip(self.outs, found, strict=True)):
            lines.append(self.put(k, stored(target.dtype, machine, value)))
        for target in self.outs:
            self.use(target)
        mapped = [text for _, text in sorted(self._mapped.items())]
        return self.lines([*self.head(), *mapped, *lines], 256), self.launch()

    # Positions and reads.

    def read(
        self, field: str, offset: Sequence[int], along: Mapping[int, str]
    ) -> tuple[list[str], str]:
        """An element of a field, moved along axes, and the lines that come before it."""
        array = self.use(self.part.arrays[field])
        lines: list[str] = []
        places: list[str] = []
        absent: list[str] = []
        for axis, step in enumerate(offset):
            place = plus(self.text.index(f"i{axis}"), step)
            if axis in along:
                place = f"{place} + {along[axis]}"
            if not array.kept and not (axis not in along and self._inside(axis, step)):
                place = self._place(axis, step, place, axis in along, lines)
                absent += [place] * ("constant" in self.part.rules[axis])
            places.append(place)
        text = f"{self.text.memory(array, len(places))}[{', '.join(places)}]"
        if absent:
            name = self.constant((0, array.dtype, "constant"))
            test = " | ".join(absent)
            text = f"({self.text.constant(name, array.dtype)} if ({test}) < 0 else {text})"
        return lines, text

    def _inside(self, axis: int, step: int) -> bool:
        """Whether a step along an axis never leaves the fields."""
        return self.part.low[axis] + step >= 0 >= self.part.high[axis] + step

    def _place(self, axis: int, step: int, moved: str, alone: bool, lines: list[str]) -> str:
        """The name of a position along an axis, once it is mapped into the fields.

        One that is there `alone` is found where it is read, others once for all reads.
        """
        found = f"at{axis}({moved}, {self.text.index(f'n{axis}')})"
        if alone:
            name = self.text.new("place")
            lines.append(f"{name} = {found}")
            return name
        name = f"a{axis}{'m' if step < 0 else 'p'}{abs(step)}"
        self._mapped[axis, step] = f"const npt_index {name} = {found};"
        return self.text.index(name)

    # The body.

    def _lines(self) -> None:
        """Write what is computed at the point."""
        text, storage = self.text, {name: one.dtype for name, one in self.part.arrays.items()}
        storage |= {name: dtype for name, dtype, _ in self.kernel.coefficients}
        ndim = self.kernel.ndim
        arrays = {
            name: text.memory(self.coefficients(name), len(shape))
            for name, _, shape in self.kernel.coefficients
        }
        nowhere = Box((0,) * ndim, (0,) * ndim)
        windows = Windows(text, storage, arrays, nowhere, reader=self.read)
        control = Control(windows, {}, [])
        for assign in self.kernel.body:
            expr, name = assign.value, assign.name
            match expr:
                case Read():
                    text.types[name] = computed(storage[expr.field]).name
                    before, read = self.read(expr.field, expr.offset, {})
                    text.lines += [*before, f"{name} = {read}"]
                case Element():
                    self.element(text, name, expr)
                case _:
                    text.lines += control.lines(name, expr)
        text.constants += windows.constants

    def _histogram(self, stage: Histogram) -> list[tuple[str, str]]:
        """The elements of some rank, each point for itself."""
        text, read, last = self.text, stage.read, self.kernel.ndim - 1
        flat = last == 0 or (stage.shape[0] == 1 and not stage.runs)
        steps = len(stage.lines[0]) - 2
        along = {last: "d1"} if flat else {last - steps + k: f"d{k}" for k in range(steps + 1)}
        before, place = self.read(read.field, read.offset, along)
        machine = computed(self.part.arrays[read.field].dtype).name
        element, item = text.new("element"), text.known[stage.element.name]

        def loops(lines: Sequence[str]) -> list[str]:
            return _over(stage, [*before, f"{element} = {place}", *lines])

        ranks = Ranks(text, machine, element, item)
        lines, found = ranks.lines(loops, stage.rank, len(stage.names))
        if item.nan:
            strange = text.new("strange")
            test = f"{strange} = {strange} | ({element} != {element})"
            lines += [f"{strange} = False", *loops([test])]
            found = [f"{SHORT[machine]}(nan) if {strange} else {one}" for one in found]
        text.lines += lines
        return [(machine, text.kept(one, machine)) for one in found]
