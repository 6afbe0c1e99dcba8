"""Points: one thread makes one point, of each stage and then of the results.

    v = x[0, 1] - x[0, -1]               __global__ void npt_f_1(f0, v0, ...)   v over its region
    out = v[-1, 0] + v[1, 0]     ->      __global__ void npt_f(v0, o0, ...)     the result

Any kernel can be done so.  A stage is an array between two launches, over all points at which it
is needed; beyond the ends of the fields it is computed there, as the border says they go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...analysis.ranges import Interval, of_storage, ranges
from ...language.box import Box
from ...language.ir import (
    Assign,
    Atom,
    Coefficient,
    Element,
    Histogram,
    Kernel,
    Offset,
    Read,
    Reduce,
    RunningSum,
    Stage,
    State,
    Tap,
    Weight,
)
from ...lowering.chain import Constant
from ...lowering.kept import needed
from ...lowering.machine import machine_type
from ...lowering.typed import Apply, Given, To
from .operations import C_TYPES, Operations, number, stored_type
from .source import Launch, Scratch, Source
from .windows import Ranks, Window, over

# Points of a block along the last core axis, and along the last but one.
_TILE = {1: (256,), 2: (8, 32)}

# Bytes of constants up to which they are kept where a whole warp reads one at once.
_CONSTANT = 1 << 14


@dataclass(frozen=True, slots=True)
class Border:
    """The rule before and after each core axis, and the text's constants for it."""

    rules: tuple[tuple[str, str], ...]
    constants: tuple[Constant, ...]

    def constant(self, dtype: np.dtype, rule: str) -> str:
        """The name of the constant of a type."""
        (found,) = (
            k for k, (_, one, asked) in enumerate(self.constants) if (one, asked) == (dtype, rule)
        )
        return f"b{found}"


def border_of(
    rules: Sequence[tuple[str, str]], fields: Sequence[np.dtype], outs: Sequence[np.dtype]
) -> Border:
    """The border of a kernel by itself, with a constant for each type that needs one."""
    sides = {side for pair in rules for side in pair}
    constants: list[Constant] = []
    if "constant" in sides:
        constants += [(0, dtype, "constant") for dtype in dict.fromkeys(fields)]
    if "fill" in sides:
        constants += [(0, dtype, "fill") for dtype in dict.fromkeys(outs)]
    return Border(tuple((a, b) for a, b in rules), tuple(constants))


def points(kernel: Kernel, name: str, reaches: Sequence[Box], outs: Sequence[np.dtype],
           rules: Sequence[tuple[str, str]]) -> Source:  # fmt: skip
    """The text of a kernel whose outputs are in their storage types, and its launches."""
    return _Writer(kernel, name, tuple(reaches), tuple(outs), rules).source()


@dataclass(frozen=True, slots=True)
class _Array:
    """An array of a launch: its name there and in the text, and what its elements are."""

    name: str
    parameter: str
    dtype: np.dtype


class _Writer:
    def __init__(
        self,
        kernel: Kernel,
        name: str,
        reaches: tuple[Box, ...],
        outs: tuple[np.dtype, ...],
        rules: Sequence[tuple[str, str]],
    ) -> None:
        self.kernel = kernel
        self.name = "npt_" + "".join(c if c.isascii() else "_" for c in name)
        self.reaches = reaches
        self.known = ranges(kernel)
        self.border = border_of(rules, [dtype for _, dtype in kernel.fields], outs)
        self.need = needed(kernel)
        self.stages = [stage for stage in kernel.stages if stage.names[0] in self.need]
        self.arrays = {
            field: _Array(f"field{k}", f"f{k}", dtype)
            for k, (field, dtype) in enumerate(kernel.fields)
        }
        staged = [(stage, k) for stage in self.stages for k in range(len(stage.names))]
        for number_, (stage, k) in enumerate(staged):
            dtype = self._kept(stage, k)
            self.arrays[stage.names[k]] = _Array(f"scratch{number_}", f"v{number_}", dtype)
        self.outs = [_Array(f"out{k}", f"o{k}", dtype) for k, dtype in enumerate(outs)]

    def _kept(self, stage: Stage, k: int) -> np.dtype:
        """What a stage is stored as: the narrowest type that holds it."""
        assert not isinstance(stage, State), "steps in a chain are not points by themselves"
        name, value = stage.names[k], stage.values[k]
        return np.dtype(machine_type(value.dtype, self.known[name]))

    def source(self) -> Source:
        lines: list[str] = []
        launches: list[Launch] = []
        scratch: list[Scratch] = []
        for position, stage in enumerate(self.stages, 1):
            low, high = (corner[-self.kernel.ndim :] for corner in self.need[stage.names[0]])
            function = _Function(self, f"{self.name}_{position}", low, high)
            for array in (self.arrays[name] for name in stage.names):
                scratch.append(Scratch(array.name, array.dtype, low, high))
            targets = [self.arrays[name] for name in stage.names]
            lines += function.stage(stage, targets)
            launches.append(function.launch())
        nothing = (0,) * self.kernel.ndim
        function = _Function(self, self.name, nothing, nothing)
        lines += function.result(self.kernel.body, self.kernel.outputs)
        launches.append(function.launch())
        maps = [line for axis in range(self.kernel.ndim) for line in self._map(axis)]
        text = "\n".join([*maps, *lines, ""])
        return Source(text, tuple(launches), tuple(scratch), self.border.constants)

    def _map(self, axis: int) -> list[str]:
        """The function that finds what stands at a position along an axis."""
        before, after = (
            rule if rule in ("constant", "reflect", "mirror", "wrap") else "nearest"
            for rule in self.border.rules[axis]
        )
        return [
            f"NPT npt_index at{axis}(npt_index i, npt_index n) {{",
            f"  return i < 0 ? npt_{before}(i, n) : i < n ? i : npt_{after}(i, n);",
            "}",
        ]


@dataclass
class _Function:
    """One launch: the function of a stage, or of the results."""

    writer: _Writer
    name: str
    low: Offset
    high: Offset
    arrays: list[_Array] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    mapped: dict[tuple[int, int], str] = field(default_factory=dict)
    values: int = 0
    constants: int = 0

    def __post_init__(self) -> None:
        kernel, known = self.writer.kernel, self.writer.known
        types = {n: d.numpy.name for n, d in kernel.scalars}
        names = {n: f"k{k}" for k, (n, _) in enumerate(kernel.scalars)}
        self.operations = Operations(dict(known), types, names)
        self.coefficients = {n: (k, d, s) for k, (n, d, s) in enumerate(kernel.coefficients)}
        arrays = {n: of_storage(d) for n, d in kernel.fields}
        arrays |= {n: of_storage(d) for n, d, _ in kernel.coefficients}
        staged = {name for stage in kernel.stages for name in stage.names}
        self._storage = arrays | {n: known[n] for n in staged if n in known}

    # What loops over windows need.

    @property
    def storage(self) -> dict[str, Interval]:
        return self._storage

    def fresh(self, name: str = "") -> str:
        text = f"t{self.values}"
        self.values += 1
        if name:
            self.operations.names[name] = text
        return text

    def table(self, machine: str, texts: Sequence[str]) -> str:
        size = np.dtype(machine).itemsize * len(texts)
        self.constants += size
        name = f"{self.name}_table{len(self.tables)}"
        room = "__constant__" if self.constants <= _CONSTANT else "__device__"
        listed = ",\n  ".join(", ".join(texts[k : k + 8]) for k in range(0, len(texts), 8))
        self.tables.append(
            f"{room} const {C_TYPES[machine]} {name}[{len(texts)}] = {{\n  {listed}\n}};"
        )
        return name

    def element(self, array: str, places: Sequence[str]) -> str:
        number_, _, shape = self.coefficients[array]
        text = places[0]
        for place, length in zip(places[1:], shape[1:], strict=True):
            text = (
                f"({text}) * {length} + {place}" if " " in text else f"{text} * {length} + {place}"
            )
        return f"c{number_}[{text}]"

    def read(self, field: str, offset: Offset, along: dict[int, str]) -> tuple[list[str], str]:
        array = self._used(self.writer.arrays[field])
        own = array.name.startswith("scratch")
        lines: list[str] = []
        places: list[str] = []
        absent: list[str] = []
        for axis, step in enumerate(offset):
            moved = plus(f"i{axis}", step)
            if axis in along:
                moved = f"{moved} + {along[axis]}"
            if own:
                place = moved
            elif axis in along:
                place = f"a{self.values}"
                self.values += 1
                lines.append(f"const npt_index {place} = at{axis}({moved}, n{axis});")
            elif self._inside(axis, step):
                place = moved
            else:
                place = self._mapped(axis, step, moved)
            places.append(place)
            if place[0] == "a" and "constant" in self.writer.border.rules[axis]:
                absent.append(place)
        where = " + ".join(
            f"{place if ' ' not in place else f'({place})'} * {array.parameter}_{axis}"
            for axis, place in enumerate(places)
        )
        text = f"{array.parameter}[{where}]"
        if absent:
            test = absent[0] if len(absent) == 1 else f"({' | '.join(absent)})"
            constant = self.writer.border.constant(array.dtype, "constant")
            text = f"{test} < 0 ? {constant} : {text}"
        return lines, text

    def _inside(self, axis: int, step: int) -> bool:
        """Whether a step along an axis never leaves the fields."""
        return self.low[axis] + step >= 0 >= self.high[axis] + step

    def _mapped(self, axis: int, step: int, moved: str) -> str:
        """The name of a position along an axis, once it is mapped into the fields."""
        sign = "m" if step < 0 else "p"
        name = f"a{axis}{sign}{abs(step)}"
        self.mapped[axis, step] = f"const npt_index {name} = at{axis}({moved}, n{axis});"
        return name

    def _used(self, array: _Array) -> _Array:
        if array not in self.arrays:
            self.arrays.append(array)
        return array

    # The body.

    def stage(self, stage: Stage, targets: Sequence[_Array]) -> list[str]:
        match stage:
            case Histogram():
                lines = self._histogram(stage)
            case RunningSum():
                lines = self._running(stage)
            case _:
                lines = self._body(stage.body)
        stores: list[str] = []
        for target, value, name in zip(targets, stage.values, stage.names, strict=True):
            given = self._given(name) if name in self.operations.names else ""
            text = given or self.operations.atom(value)
            where = self._here(target)
            stores.append(f"{where} = {_stored(target.dtype, text)};")
        return self._function([*lines, *stores], list(targets))

    def _given(self, name: str) -> str:
        return self.operations.names[name]

    def _histogram(self, stage: Histogram) -> list[str]:
        """The elements of some rank, each point for itself."""
        read = stage.read
        own = self.operations.declare(stage.element.name, read)
        ndim = len(read.offset)
        along = {ndim - 1: "d1"} | ({ndim - 2: "d0"} if ndim > 1 else {})
        shape = stage.shape
        lines, text = self.read(read.field, read.offset, along)
        name = self.fresh(stage.element.name)
        inner = [*lines, f"const {C_TYPES[own]} {name} = {_value(own, text)};"]
        ranks = Ranks(self, own, name, self.operations.known[stage.element.name])
        found, names = ranks.lines(
            lambda body: over(shape, body), inner, stage.rank, len(stage.names)
        )
        for one, made in zip(stage.names, names, strict=True):
            self.operations.names[one] = made
        return found

    def _running(self, stage: RunningSum) -> list[str]:
        """The sum of some rows, each point for itself."""
        axis = self.writer.kernel.ndim - 2
        body = self._body(stage.body, {axis: "r"})
        own = self.operations.types[stage.name] = machine_type(
            stage.value.dtype, self.operations.known[stage.name], Operations.least
        )
        name = self.fresh(stage.name)
        added = To(own, Apply("+", (Given(stage.name), self.operations.operand(stage.value))))
        return [
            f"{C_TYPES[own]} {name} = {number(own, 0)};",
            f"for (int r = 0; r < {stage.rows}; r++) {{",
            *("  " + line for line in body),
            f"  {name} = {self.operations.node(added)};",
            "}",
        ]

    def _body(self, body: Sequence[Assign], along: dict[int, str] | None = None) -> list[str]:
        lines: list[str] = []
        operations = self.operations
        for assign in body:
            expr, name = assign.value, assign.name
            match expr:
                case Read():
                    own = operations.declare(name, expr)
                    before, text = self.read(expr.field, expr.offset, along or {})
                    lines += before
                    text = _value(own, text)
                case Element():
                    own = operations.declare(name, expr)
                    text = _value(own, self.element(expr.array, list(map(str, expr.index))))
                case Reduce():
                    lines += Window(self, name, expr).lines()
                    continue
                case Tap() | Weight() | Coefficient():
                    raise AssertionError(expr)
                case _:
                    text = operations.text(name, expr)
                    own = operations.types[name]
            lines.append(f"const {C_TYPES[own]} {self.fresh(name)} = {text};")
        return lines

    def result(self, body: Sequence[Assign], outputs: Sequence[Atom]) -> list[str]:
        lines = self._body(body)
        for k, (target, value) in enumerate(zip(self.writer.outs, outputs, strict=True)):
            lines += self._store(k, target, _stored(target.dtype, self.operations.atom(value)))
        return self._function(lines, self.writer.outs)

    # What is written where there are no neighbours.

    def _store(self, k: int, target: _Array, value: str) -> list[str]:
        """Write an output, by the rules at its ends."""
        reach, border = self.writer.reaches[k], self.writer.border
        skipped: list[str] = []
        cases: list[tuple[str, str]] = []
        for axis, (before, after) in enumerate(border.rules):
            tests = (f"i{axis} < {-reach.lo[axis]}", f"i{axis} >= n{axis} - {reach.hi[axis]}")
            looks = (reach.lo[axis] < 0, reach.hi[axis] > 0)
            for rule, test, far in zip((before, after), tests, looks, strict=True):
                if not far:
                    continue
                if rule == "valid":
                    skipped.append(test)
                elif rule in ("fill", "keep"):
                    cases.append((test, self._instead(rule, k, target)))
        here = self._here(target)
        lines: list[str] = []
        # At a corner the first axis decides, and its beginning over its end.
        for number_, (test, text) in enumerate(cases):
            lines.append(f"{'else ' if number_ else ''}if ({test}) {here} = {text};")
        lines.append(f"{'else ' if cases else ''}{here} = {value};")
        if skipped:
            lines = [f"if (!({' || '.join(skipped)})) {{", *("  " + s for s in lines), "}"]
        return lines

    def _instead(self, rule: str, k: int, target: _Array) -> str:
        if rule == "fill":
            return self.writer.border.constant(target.dtype, "fill")
        name, _ = self.writer.kernel.fields[k]
        source = self._used(self.writer.arrays[name])
        return _stored(target.dtype, self._here(source))

    def _here(self, array: _Array) -> str:
        where = " + ".join(
            f"i{axis} * {array.parameter}_{axis}" for axis in range(self.writer.kernel.ndim)
        )
        return f"{array.parameter}[{where}]"

    # The function around it.

    def _function(self, body: Sequence[str], targets: list[_Array]) -> list[str]:
        kernel = self.writer.kernel
        ndim, arrays = kernel.ndim, [*self.arrays, *targets]
        self.arrays = arrays
        parameters = [
            f"{'' if a in targets else 'const '}{stored_type(a.dtype)} *__restrict__ {a.parameter}"
            for a in arrays
        ]
        parameters += [
            f"const {stored_type(d)} *__restrict__ c{k}"
            for k, (_, d, _) in enumerate(kernel.coefficients)
        ]
        parameters += [f"{C_TYPES[d.numpy.name]} k{k}" for k, (_, d) in enumerate(kernel.scalars)]
        parameters += [
            f"{stored_type(d)} b{k}" for k, (_, d, _) in enumerate(self.writer.border.constants)
        ]
        geometry = f"npt_geometry<{ndim}, {len(arrays)}>"
        parameters.append(f"const {geometry} g")
        threads = 256
        lines = [
            "",
            *self.tables,
            f'extern "C" __global__ void __launch_bounds__({threads}) {self.name}(',
            *(f"    {one}," for one in parameters[:-1]),
            f"    {parameters[-1]}) {{",
        ]
        inside = [f"const npt_index n{a} = npt_index(g.length[{a}]);" for a in range(ndim)]
        inside.append("unsigned block = blockIdx.x;")
        tile = self._tile()
        threads_at = {ndim - 1: "threadIdx.x", ndim - 2: "threadIdx.y"}
        for axis in reversed(range(ndim)):
            first, more = self.low[axis], self.high[axis] - self.low[axis]
            count = f"unsigned((n{axis} + {more + tile[axis] - 1}) / {tile[axis]})"
            inside.append(f"const unsigned m{axis} = {count};")
            at = f"npt_index(block % m{axis})"
            if tile[axis] > 1:
                at = f"{at} * {tile[axis]} + npt_index({threads_at[axis]})"
            inside.append(f"const npt_index i{axis} = {plus(at, first)};")
            inside.append(f"block /= m{axis};")
        beyond = [
            f"i{axis} >= {plus(f'n{axis}', self.high[axis])}"
            for axis in range(ndim)
            if tile[axis] > 1
        ]
        inside.append(f"if ({' || '.join(beyond)}) return;")
        for position, array in enumerate(arrays):
            inside.append(f"{array.parameter} += npt_frame(g, {position}, block);")
        for position, array in enumerate(arrays):
            for axis in range(ndim):
                step = f"npt_index(g.core[{position}][{axis}])"
                inside.append(f"const npt_index {array.parameter}_{axis} = {step};")
        inside += [text for _, text in sorted(self.mapped.items())]
        return [*lines, *("  " + line for line in (*inside, *body)), "}"]

    def _tile(self) -> tuple[int, ...]:
        ndim = self.writer.kernel.ndim
        return (1,) * (ndim - 2) + _TILE[min(ndim, 2)]

    def launch(self) -> Launch:
        tile = self._tile()
        threads = (tile[-1], tile[-2] if len(tile) > 1 else 1, 1)
        return Launch(
            self.name, tuple(a.name for a in self.arrays), threads, tile, self.low, self.high
        )


def _value(machine: str, text: str) -> str:
    """A stored element as it is computed with."""
    return f"npt_as<{C_TYPES[machine]}>::from({text})"


def _stored(dtype: np.dtype, text: str) -> str:
    """A value as it is stored."""
    if dtype == np.bool_:
        return f"(unsigned char)({text})"
    return f"npt_as<{stored_type(dtype)}>::from({text})"


def plus(name: str, step: int) -> str:
    """`name + step`, `name - step`, or the name alone."""
    if not step:
        return name
    return f"{name} + {step}" if step > 0 else f"{name} - {-step}"
