"""Points: one thread makes one point, of each stage and then of the results.

    v = x[0, 1] - x[0, -1]               __global__ void npt_f_1(f0, v0, ...)   v over its region
    out = v[-1, 0] + v[1, 0]     ->      __global__ void npt_f(v0, o0, ...)     the result

Any kernel can be done so.  A stage is an array between two launches, over all points at which it
is needed; beyond the ends of the fields it is computed there, as the border says they go on.
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
    Assign,
    Atom,
    Carried,
    Coefficient,
    Element,
    Gather,
    Histogram,
    Inside,
    Kernel,
    Loop,
    Offset,
    Read,
    Reduce,
    RunningSum,
    Stage,
    State,
    Tap,
    Values,
    Weight,
)
from ...loops.nodes import SHORT
from ...lowering.kept import needed
from ...lowering.machine import machine_type
from ..numba.control import Control
from ..numba.window_loops import over
from .borders import border_of
from .elements import Array, copied, stored
from .functions import Function, field_arrays, out_arrays, plus
from .patches import patched
from .shapes import Part, padded
from .source import Launch, Scratch, Source
from .windows import Ranks, Windows

# Points of a block along the last core axis, and along the last but one.
_TILE = {1: (256,), 2: (8, 32)}


def points(
    kernel: Kernel,
    name: str,
    reaches: Sequence[Box],
    outs: Sequence[np.dtype],
    rules: Sequence[tuple[str, str]],
    *,
    patches: bool = False,
) -> Source:
    """The text of a kernel whose outputs are in their storage types, and its launches.

    Its functions are called after `name`.  With `patches` a thread makes several points where it
    can, and none has a loop of its own.
    """
    known = ranges(kernel)
    patches = patches and not loops(kernel)
    border = border_of(rules, [dtype for _, dtype in kernel.fields], outs)
    need = needed(kernel)
    stages = [stage for stage in kernel.stages if stage.names[0] in need]
    arrays, results = field_arrays(kernel), out_arrays(outs)
    regions: dict[str, tuple[Offset, Offset]] = {}
    lines, launches, scratch = border.maps(), list[Launch](), list[Scratch]()
    for position, stage in enumerate(stages, 1):
        low, high = (corner[-kernel.ndim :] for corner in need[stage.names[0]])
        targets = [
            Array(f"scratch{k}", f"v{k}", _kept(stage, one, known))
            for one, k in enumerate(range(len(scratch), len(scratch) + len(stage.names)))
        ]
        before = replace(kernel, stages=kernel.stages[: kernel.stages.index(stage)])
        one = replace(before, body=stage.body, outputs=stage.values)
        called = f"{name}_{position}"
        part = Part(one, called, low, high, tuple(targets), arrays, regions, border)
        made = patched(part) if patches and isinstance(stage, Values) else None
        if made is None:
            region = _Region(kernel, known, border, called, arrays, low, high)
            made = region.stage(stage, targets), region.launch
        lines += made[0]
        launches.append(made[1])
        arrays = arrays | dict(zip(stage.names, targets, strict=True))
        regions = regions | {
            n: padded(low, high, a.dtype) if patches else (low, high)
            for n, a in zip(stage.names, targets, strict=True)
        }
        scratch += [
            Scratch(array.name, array.dtype, *regions[one])
            for one, array in zip(stage.names, targets, strict=True)
        ]
    nothing = (0,) * kernel.ndim
    part = Part(
        kernel, name, nothing, nothing, tuple(results), arrays, regions, border, tuple(reaches)
    )
    made = patched(part) if patches else None
    if made is None:
        whole = _Region(kernel, known, border, name, arrays, nothing, nothing)
        made = whole.result(reaches, results), whole.launch
    lines += made[0]
    launches.append(made[1])
    text = "\n".join([*lines, ""])
    return Source(text, tuple(launches), tuple(scratch), border.constants)


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
    assert not isinstance(stage, State), "steps in a chain are not points by themselves"
    return np.dtype(machine_type(stage.values[k].dtype, known[stage.names[k]]))


@dataclass
class _Region(Function):
    """The function that makes the points of one stage, or of the results.

    Along each axis they go from `low` to the length of the fields plus `high`.  `sources` are the
    arrays of fields and of the stages before.
    """

    sources: Mapping[str, Array]
    low: Offset
    high: Offset
    _mapped: dict[tuple[int, int], str] = field(default_factory=dict, init=False)
    _targets: list[Array] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.text = self.body()

    # Positions and reads.

    def read(
        self, field: str, offset: Sequence[int], along: Mapping[int, str]
    ) -> tuple[list[str], str]:
        """An element of a field, moved along axes, and the lines that come before it."""
        array = self.use(self.sources[field])
        lines: list[str] = []
        places: list[str] = []
        absent: list[str] = []
        for axis, step in enumerate(offset):
            place = plus(self.text.index(f"i{axis}"), step)
            if axis in along:
                place = f"{place} + {along[axis]}"
            if not array.kept and not (axis not in along and self._inside(axis, step)):
                place = self._place(axis, step, place, axis in along, lines)
                absent += [place] * self.border.absent(axis)
            places.append(place)
        text = f"{self.text.memory(array, len(places))}[{', '.join(places)}]"
        if absent:
            name = self.border.constant(array.dtype, "constant")
            test = " | ".join(absent)
            text = f"({self.text.constant(name, array.dtype)} if ({test}) < 0 else {text})"
        return lines, text

    def _inside(self, axis: int, step: int) -> bool:
        """Whether a step along an axis never leaves the fields."""
        return self.low[axis] + step >= 0 >= self.high[axis] + step

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

    def _here(self, array: Array) -> str:
        return array.at([f"i{axis}" for axis in range(self.kernel.ndim)])

    # The body.

    def stage(self, stage: Stage, targets: Sequence[Array]) -> list[str]:
        """The text of the function of a stage, which writes these arrays."""
        self._targets = list(targets)
        match stage:
            case Histogram():
                found = self._histogram(stage)
            case RunningSum():
                found = self._running(stage)
            case _:
                self._lines(stage.body)
                found = [self._result(value) for value in stage.values]
        lines = self.text.printed()
        for target, (machine, name) in zip(targets, found, strict=True):
            lines.append(f"{self._here(target)} = {stored(target.dtype, machine, name)};")
        return self._around(lines)

    def result(self, reaches: Sequence[Box], targets: Sequence[Array]) -> list[str]:
        """The text of the function of the results."""
        self._targets = list(targets)
        self._lines(self.kernel.body)
        found = [self._result(value) for value in self.kernel.outputs]
        lines = self.text.printed()
        outputs = zip(found, targets, reaches, strict=True)
        for k, ((machine, value), target, reach) in enumerate(outputs):
            text = stored(target.dtype, machine, value)

            def kept(k: int = k, target: Array = target) -> str:
                """The value of the field in the place of the output."""
                name, dtype = self.kernel.fields[k]
                source = self._here(self.use(self.sources[name]))
                return copied(target.dtype, dtype, source)

            lines += self.border.store(reach, target.dtype, self._here(target), text, kept)
        return self._around(lines)

    def _result(self, value: Atom) -> tuple[str, str]:
        """The machine type of a value, and its name once the text is printed."""
        return self.text.machine(value), self.text.result(value)

    def _lines(self, body: Sequence[Assign], along: Mapping[int, str] | None = None) -> None:
        """Write what is computed at the point, or so far from it along some axes."""
        text, storage = self.text, {name: one.dtype for name, one in self.sources.items()}
        storage |= {name: dtype for name, dtype, _ in self.kernel.coefficients}
        ndim = self.kernel.ndim
        arrays = {
            name: text.memory(self.coefficients(name), len(shape))
            for name, _, shape in self.kernel.coefficients
        }
        nowhere = Box((0,) * ndim, (0,) * ndim)
        windows = Windows(text, storage, arrays, nowhere, reader=self.read)
        control = Control(text, windows, storage, arrays, nowhere, [], {}, 0)
        for assign in body:
            expr, name = assign.value, assign.name
            match expr:
                case Read():
                    text.types[name] = computed(storage[expr.field]).name
                    before, read = self.read(expr.field, expr.offset, along or {})
                    text.lines += [*before, f"{name} = {read}"]
                case Element():
                    self.element(text, name, expr)
                case Reduce() | Gather() | Inside() | Loop() | Carried():
                    text.lines += control.lines(name, expr)
                case Tap() | Weight() | Coefficient():
                    raise AssertionError(expr)
                case _:
                    text.assign(assign)
        text.constants += windows.constants

    def _histogram(self, stage: Histogram) -> list[tuple[str, str]]:
        """The elements of some rank, each point for itself."""
        text, read, last = self.text, stage.read, self.kernel.ndim - 1
        flat = last == 0 or (stage.shape[0] == 1 and not stage.runs)
        steps = len(stage.lines[0]) - 2
        along = {last: "d1"} if flat else {last - steps + k: f"d{k}" for k in range(steps + 1)}
        before, place = self.read(read.field, read.offset, along)
        machine = computed(self.sources[read.field].dtype).name
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

    def _running(self, stage: RunningSum) -> list[tuple[str, str]]:
        """The sum of some rows, each point for itself."""
        text, outside = self.text, self.text.lines
        machine = machine_type(stage.value.dtype, text.known[stage.name], text.least)
        total = text.new("total")
        text.lines = []
        self._lines(stage.body, {self.kernel.ndim - 2: "r0"})
        added = f"{total} = {SHORT[machine]}({total} + {text.atom(stage.value, machine)})"
        inner, text.lines = [*text.lines, added], outside
        text.lines += [
            f"{total} = {SHORT[machine]}(0)",
            f"for r0 in range({stage.rows}):",
            *("    " + line for line in inner),
        ]
        return [(machine, text.kept(total, machine))]

    # The function around it.

    def _around(self, body: Sequence[str]) -> list[str]:
        for target in self._targets:
            self.use(target)
        ndim, tile = self.kernel.ndim, self._tile
        lines = [f"const npt_index n{axis} = npt_index(g.length[{axis}]);" for axis in range(ndim)]
        lines.append("unsigned block = blockIdx.x;")
        threads = {ndim - 1: "threadIdx.x", ndim - 2: "threadIdx.y"}
        beyond: list[str] = []
        for axis in reversed(range(ndim)):
            more = self.high[axis] - self.low[axis] + tile[axis] - 1
            at = f"npt_index(block % m{axis})"
            if tile[axis] > 1:
                at = f"{at} * {tile[axis]} + npt_index({threads[axis]})"
                beyond.append(f"i{axis} >= {plus(f'n{axis}', self.high[axis])}")
            count = plus(f"n{axis}", more)
            count = f"({count}) / {tile[axis]}" if tile[axis] > 1 else count
            lines += [
                f"const unsigned m{axis} = unsigned({count});",
                f"const npt_index i{axis} = {plus(at, self.low[axis])};",
                f"block /= m{axis};",
            ]
        lines.append(f"if ({' || '.join(beyond)}) return;")
        lines += self.frames("block")
        lines += [text for _, text in sorted(self._mapped.items())]
        return self.lines([*lines, *body], 256)

    def _written(self, array: Array) -> bool:
        return array in self._targets

    @property
    def _tile(self) -> tuple[int, ...]:
        return (1,) * (self.kernel.ndim - 2) + _TILE[min(self.kernel.ndim, 2)]

    @property
    def launch(self) -> Launch:
        """How the function is started."""
        tile = self._tile
        threads = (tile[-1], tile[-2] if len(tile) > 1 else 1, 1)
        names = tuple(array.name for array in self.arrays)
        return Launch(self.name, names, threads, tile, self.low, self.high)
