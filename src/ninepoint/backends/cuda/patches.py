"""Patches: one thread makes several columns of several rows, and loads whole rows of them.

    out = x[0, -1] + x[0, 1]         x0: 2 rows of x, 4 columns and one before and behind them
                                ->   for each of 2 rows r and 4 columns e:
                                       t0 = x0.at(r, e - 1);  t1 = x0.at(r, e + 1);  ...
                                     4 columns of each row of out, at once

Loops over a patch are unrolled, so that what its points share is computed once, in registers.
Where all that a thread reads and writes is inside the arrays, no position is mapped by the rule of
a border; elsewhere each element is.

Kernels with loops, and with windows that are looped over, are done point by point: a patch is one
column of one row then, has no tiles, and reads elements where they are.

All functions of a text are called alike:

    (array*, ..., coefficient*, ..., scalar, ..., constant, ..., Geometry)

first the arrays that the launch names, fields and coefficients as pointers to constants; then
every coefficient array of the kernel, contiguous; then every scalar, as the type of its values;
then constants: what stands beyond the ends of each field where the border says "constant", and
in each output where it says "fill", of its dtype; last `Geometry`, a struct by value, of 64-bit
integers in this order:

    length[N]               the lengths of the fields along the core axes
    stack[STACK]            the lengths of the stack's axes, the last of which changes fastest
    core[arrays][N]         for each array of the launch, what is added to its pointer for a step
                            along each core axis, in elements; 0 where it is broadcast
    frame[arrays][STACK]    the same along the stack's axes

Its pointer is that of the element that stands at the point 0 of each core axis, in frame 0: for
scratch, which is larger than the fields, and for outputs under "valid", which are smaller, that
element may lie inside the memory, or before it.

The grid has one axis: a block does `tile` points along the core axes of one frame, and the blocks
are counted along the last core axis first, then the others, then the frames.  Along each core
axis a launch does the points from `low` to the length of the fields plus `high`: all of the
fields, or of a scratch; under "valid" it leaves out itself what the outputs do not have.

A half float is two bytes to a function, a bool one, and a complex number its two parts.

Positions along an axis, and distances inside a frame, are of 32 bits; where an axis or a frame of
any of a launch's arrays has 2**30 elements or more, or a frame stretches over as many, the text is
to be compiled with `FAR`, for 64 bits.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import product

import numpy as np

from ...analysis.ranges import Interval
from ...analysis.rewrite import reads
from ...base.frozen import frozen
from ...language.dtypes import computed
from ...language.functions import FLOAT_FUNCTIONS
from ...language.ir import Box, Carried, Kernel, Noting, Offset, Read, Reduce, named
from ..numba.points import plus
from .bodies import Body
from .printing import (
    C_TYPES,
    Array,
    Local,
    Rules,
    block,
    either,
    ends,
    finders,
    left_out,
    loaded,
    stored,
    stored_type,
)

# Axes of the stack that a text goes through; stacks of more axes are merged, or done in parts.
STACK = 3

# Threads of a block along the last core axis, and along the last but one.
_THREADS = {1: (128,), 2: (4, 32)}

# The widest load and store, and the least that is tried [bytes].
WIDEST, _LEAST = 16, 8

# Rows that are tried, and how many points a thread makes at most.
_ROWS = (4, 2, 1)
_POINTS = 64

# Registers that what a thread loads and stores may take.
_REGISTERS = 68

# How far apart the rows or columns may be that a point reads: where any lies beyond an end, a
# thread maps all that are between.
_SPAN = 64

# Operations of a thread, above which texts take seconds to compile.
_LONGEST = 1600


def padded(low: Offset, high: Offset, dtype: np.dtype) -> tuple[Offset, Offset]:
    """The region of a scratch array, widened so that its rows begin where loads may."""
    step = max(1, WIDEST // dtype.itemsize)
    first, last = low[-1] // step * step, -(-high[-1] // step) * step
    return (*low[:-1], first), (*high[:-1], last)


@frozen
class Tile:
    """What a thread loads of a plane of a field: `rows` of them, `low` and more from its first.

    Of each it loads its own columns, and so many before and behind them: powers of two.
    """

    name: str
    field: str
    lead: Offset
    low: int
    rows: int
    before: int
    behind: int

    @staticmethod
    def of(name: str, field: str, lead: Offset, places: Sequence[Offset], rows: int) -> Tile:
        """What so many rows need, at each of whose points these places of a plane are read."""
        near, columns = zip(*places, strict=True)
        low, count = min(near), max(near) - min(near) + rows
        return Tile(name, field, lead, low, count, _power(-min(columns)), _power(max(columns)))

    def is_far(self, columns: int, itemsize: int) -> bool:
        """Whether it goes too far beside so many columns; longer loads begin where they may."""
        beside = max(self.before, self.behind)
        narrow = columns * itemsize < WIDEST
        return max(beside, self.rows) > _SPAN or (narrow and beside > columns)


@frozen
class Shape:
    """How many columns and rows a thread makes, of which tiles.

    Without tiles it makes one point, and reads each element where it is needed.
    """

    columns: int = 1
    rows: int = 1
    tiles: tuple[Tile, ...] = ()


def shape_of(kernel: Kernel, outs: Sequence[np.dtype], fields: Mapping[str, np.dtype]) -> Shape:
    """The most rows, and then columns, whose values fit the registers and that compile soon.

    Points above each other share more than those side by side.
    """
    if any(isinstance(a.value, Reduce | Noting | Carried) for a in kernel.body):
        return Shape()
    planes: dict[tuple[str, Offset], list[Offset]] = defaultdict(list)
    for read in reads(kernel.body):
        *lead, row, column = (0, *read.offset)[-max(2, kernel.ndim) :]
        planes[read.field, tuple(lead)].append((row, column))
    sizes = [one.itemsize for one in (*outs, *(fields[name] for name, _ in planes))]
    most = max(1, WIDEST // max(sizes))
    halves = [most >> k for k in range(most.bit_length())]
    tried = [n for n in halves if n == most or n * min(sizes) >= _LEAST]
    for rows, columns in product(_ROWS if kernel.ndim > 1 else (1,), tried):
        points = rows * columns
        tiles = tuple(
            Tile.of(f"x{k}", *plane, places, rows)
            for k, (plane, places) in enumerate(planes.items())
        )
        far = any(one.is_far(columns, fields[one.field].itemsize) for one in tiles)
        if not tiles or far or not 1 < points <= _POINTS or points * len(kernel.body) > _LONGEST:
            continue
        live = sum(_words(one, (rows + 1) * columns) for one in outs)
        for one in tiles:
            parts = one.before, columns, one.behind
            live += one.rows * sum(_words(fields[one.field], count) for count in parts)
        if live <= _REGISTERS:
            return Shape(columns, rows, tiles)
    return Shape()


def _power(count: int) -> int:
    """The least power of two that is not less; 0 for none."""
    return 1 << (count - 1).bit_length() if count > 0 else 0


def _words(dtype: np.dtype, count: int) -> int:
    """How many registers so many elements take."""
    return -(-dtype.itemsize * count // 4)


@frozen
class Launch:
    """One function of a text: its name there, and how it is started.

    `arrays` are the names of fields, scratch and outputs, in the order of its arguments.  In this
    order `wide` says of how many bytes the vectors are in which they are read or written, 0 for
    none; it needs pointers and steps (but the last axis') that are multiples of it, and unit steps
    along the last axis; where they are not, `plain` is the function to start.
    """

    function: str
    arrays: tuple[str, ...]
    threads: tuple[int, int, int]
    tile: Offset
    low: Offset
    high: Offset
    wide: Offset = ()
    plain: str = ""


@frozen
class Source:
    """The functions of a whole text, and the launches that compute every output, in order.

    An array of `scratch` stands between two launches, contiguous: along each core axis it has the
    points of its region.
    """

    functions: str
    launches: tuple[Launch, ...]
    scratch: tuple[Array, ...] = ()

    @property
    def text(self) -> str:
        """All of it: ninepoint's arithmetic, then the functions."""
        return _support() + self.functions


@cache
def _support() -> str:
    folder = resources.files(__package__)
    files = [folder.joinpath(name) for name in ("device.h", "vectors.h")]
    text = "".join(file.read_text(encoding="utf-8") + "\n" for file in files)
    # C's functions of floats, by the names that texts have for them.
    lines = []
    for name, row in FLOAT_FUNCTIONS.items():
        if name == "exp":
            continue  # It has bits of its own.
        for kind, end in (("float", "f"), ("double", "")):
            names = ("x", "y")[: row.arguments]
            taken = ", ".join(f"{kind} {one}" for one in names)
            call = f"{row.c}{end}({', '.join(names)})"
            lines.append(f"NPT {kind} npt_{name}({taken}) {{ return {call}; }}\n")
    return text.replace('#include "functions.h"\n', "".join(lines))


@dataclass
class Patches:
    """A launch that makes the points from `begin` to the lengths plus `end`, patch by patch.

    It reads `fields`, by their names in the kernel, and is given `constants`.  Results have
    `reaches`, whose ends are written as the border says; those of a stage have none.

    Where a thread makes several points there is a function for arrays whose rows can be loaded in
    vectors, and another for all.
    """

    name: str
    kernel: Kernel
    known: Mapping[str, Interval]
    outs: Sequence[Array]
    begin: Offset
    end: Offset
    fields: Mapping[str, Array]
    rules: Rules
    constants: Sequence[str]
    reaches: Sequence[Box] = ()
    # The arrays that it uses.
    arrays: list[Array] = field(default_factory=list, init=False)
    # Positions that are mapped into the fields once for all reads, by axis and step.
    _found: dict[tuple[int, int], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.ndim = self.kernel.ndim
        self.coefficients = {
            name: Local(f"c{k}", dtype, tuple(shape))
            for k, (name, dtype, shape) in enumerate(self.kernel.coefficients)
        }
        types = {name: one.dtype for name, one in self.fields.items()}
        types |= {name: one.dtype for name, one in self.coefficients.items()}
        self.body = Body(self.name, self.kernel, self.known, types, self._read)
        for name, one in self.coefficients.items():
            self.body.memory(name, one, len(one.shape))
        self.shape = shape = shape_of(self.kernel, [one.dtype for one in self.outs], types)
        # The lengths of a patch along each core axis, the threads of a block, and its points.
        self.own = ((1,) * (self.ndim - 2) + (shape.rows, shape.columns))[-self.ndim :]
        self.threads = ((1,) * self.ndim + _THREADS[min(self.ndim, 2)])[-self.ndim :]
        self.tile = tuple(a * b for a, b in zip(self.own, self.threads, strict=True))
        # What is started where rows are not read in vectors.
        self.plain = f"{self.name}_plain" if shape.tiles else ""
        # The first points; columns begin where a load may.
        *lead, column = self.begin
        self.low = (*lead, column // self.own[-1] * self.own[-1])

    def launch(self) -> Launch:
        """How the function is started, once its text is written."""
        names = tuple(array.name for array in self.arrays)
        x, y, z = (*reversed(self.threads), 1, 1)[:3]
        used = {*self.outs, *(self.fields[one.field] for one in self.shape.tiles)}
        size = self.shape.columns if self.plain else 0
        wide = tuple(a.dtype.itemsize * size * (a in used) for a in self.arrays)
        return Launch(self.name, names, (x, y, z), self.tile, self.low, self.end, wide, self.plain)

    def text(self) -> list[str]:
        """The text of the function."""
        for one in self.shape.tiles:
            self._used(self.fields[one.field])
        made = self._patch() if self.plain else self._point()
        for target in self.outs:
            self._used(target)
        head = self._head()
        if self.plain:
            head += ["const bool inside =", f"  {self._inside()};", *self._loads()]
        return self._function([*head, *made])

    def _function(self, body: Sequence[str]) -> list[str]:
        """The text of the function with this body.

        The same body is that of a function called `plain`, if there is one: it is told whether
        rows are read and written in vectors, where they are `wide`.
        """
        threads = math.prod(self.threads)
        kernel = f'extern "C" __global__ void __launch_bounds__({threads}) '
        given = [*self._parameters(), f"const npt_geometry<{self.ndim}, {len(self.arrays)}> g"]
        parameters = "(\n    " + ",\n    ".join(given) + ") {"
        head = ["", *self.body.tables]
        if not self.plain:
            return [*head, *block(f"{kernel}{self.name}{parameters}", body)]
        inner, names = f"{self.name}_body", ", ".join(one.rpartition(" ")[2] for one in given)
        return [
            *head,
            *block(f"template <bool wide> NPT void {inner}{parameters}", body),
            *block(f"{kernel}{self.name}{parameters}", [f"{inner}<true>({names});"]),
            *block(f"{kernel}{self.plain}{parameters}", [f"{inner}<false>({names});"]),
        ]

    def _parameters(self) -> list[str]:
        kernel = self.kernel
        parameters = [
            f"{'' if a in self.outs else 'const '}{a.stored} *__restrict__ {a.name}"
            for a in self.arrays
        ]
        parameters += [
            f"const {stored_type(one.dtype)} *__restrict__ {one.name}"
            for one in self.coefficients.values()
        ]
        parameters += [f"{C_TYPES[d.numpy.name]} k{k}" for k, (_, d) in enumerate(kernel.scalars)]
        return [*parameters, *self.constants]

    def _used(self, array: Array) -> Array:
        """The array, noted as used."""
        if array not in self.arrays:
            self.arrays.append(array)
        return array

    def _head(self) -> list[str]:
        """The position of the first point, i0, i1, ..., and the steps of arrays along the axes.

        The arrays begin with the frame.
        """
        told = (self.tile, self.own, self.low, self.end)
        numbers = ", ".join(f"{{{', '.join(map(str, one))}}}" for one in told)
        patch = f"npt_patch<{self.ndim}>{{{numbers}}}"
        lines = [
            f"const npt_place<{self.ndim}> here = npt_start(g, {patch});",
            "if (here.none) return;",
        ]
        for axis in range(self.ndim):
            lines.append(
                f"const npt_index i{axis} = here.at[{axis}], n{axis} = here.length[{axis}];"
            )
        for k, array in enumerate(self.arrays):
            lines.append(f"{array.name} += npt_frame(g, {k}, here.frame);")
        for k, array in enumerate(self.arrays):
            for axis in range(self.ndim):
                step = f"npt_index(g.core[{k}][{axis}])"
                lines.append(f"const npt_index {array.name}_{axis} = {step};")
        return lines

    def _inside(self) -> str:
        """Whether everything that is read and written lies inside, and is as it should be."""
        tests = list[str]()
        for axis in range(self.ndim):
            low, high = self._bounds(axis)
            if low > self.low[axis]:
                tests.append(f"i{axis} >= {low}")
            if high > -self.end[axis] or self.own[axis] > 1:
                tests.append(f"i{axis} < {plus(f'n{axis}', -high)}")
        steps = [f"({array.name}_{self.ndim - 1} == 1)" for array in self.arrays]
        tests.append(f"wide | ({' & '.join(steps)})")
        return " & ".join(f"({test})" for test in tests)

    def _bounds(self, axis: int) -> tuple[int, int]:
        """The least position that is inside, and how far from the length the last one is."""
        length, columns = self.own[axis], self.shape.columns
        lows, highs = [self.begin[axis]], [length - 1 - self.end[axis]]
        for one in self.shape.tiles:
            low, high = (end[axis] for end in self.fields[one.field].region)
            first = (*one.lead, one.low, -one.before)[-self.ndim :]
            last = (*one.lead, one.low + one.rows - 1, columns + one.behind - 1)[-self.ndim :]
            lows.append(low - first[axis])
            highs.append(last[axis] - high)
        for reach in self.reaches:
            if any(map(any, left_out(self.rules, reach))):
                lows.append(-reach.lo[axis])
                highs.append(length - 1 + reach.hi[axis])
        return max(lows), max(highs)

    # What is loaded.

    def _loads(self) -> list[str]:
        """All tiles, by rows where everything is inside."""
        kinds, whole, mapped = list[str](), list[str](), list[str]()
        for one in self.shape.tiles:
            array = self.fields[one.field]
            size = f"{one.rows}, {one.before}, {self.shape.columns}, {one.behind}"
            kinds.append(f"npt_tile<{array.stored}, {size}> {one.name} = {{}};")
            near = self._near(array, (*one.lead, one.low)[: self.ndim - 1])
            whole.append(f"{one.name}.load<wide>({near}, {self._down(array)});")
            mapped += self._mapped(one)
        return [*kinds, *either("inside", whole, mapped)]

    def _near(self, array: Array, lead: Sequence[int]) -> str:
        """Where the thread's first column is of a row that is so far from its first one."""
        steps = array.steps([plus(f"i{k}", step) for k, step in enumerate(lead)])
        return f"{array.name} + ({' + '.join([*steps, f'i{self.ndim - 1}'])})"

    def _down(self, array: Array) -> str:
        """How far the next row is."""
        return f"{array.name}_{self.ndim - 2}" if self.ndim > 1 else "0"

    def _mapped(self, one: Tile) -> list[str]:
        """Load a tile wherever its rows come from, or by elements if they cross an end."""
        array = self.fields[one.field]
        rules = array.rules or (("nearest", "nearest"),) * self.ndim
        low, high = array.region
        lines, absent = list[str](), list[str]()
        for axis, step in enumerate(one.lead):
            place = f"{plus(f'i{axis}', step)}, {low[axis]}, {plus(f'n{axis}', high[axis])}"
            lines.append(f"const npt_index a{axis} = npt_found<{finders(rules[axis])}>({place});")
            absent += [f"a{axis}"] * ("constant" in rules[axis])
        steps = array.steps([f"a{axis}" for axis in range(len(one.lead))])
        lines.append(f"const {array.stored} *const row = {' + '.join([array.name, *steps])};")
        there = f"({' | '.join(absent)}) >= 0" if absent else "true"
        # First position, ends and step of rows and of columns.
        told, ways = ["{0, 0, 1, 0}"] * (self.ndim < 2), [finders(("nearest", "nearest"))]
        for axis, first in enumerate((one.low, 0)[-self.ndim :], max(0, self.ndim - 2)):
            span = (plus(f"i{axis}", first), str(low[axis]), plus(f"n{axis}", high[axis]))
            told.append(f"{{{', '.join((*span, f'{array.name}_{axis}'))}}}")
            ways.append(finders(rules[axis]))
        if any("constant" in pair for pair in rules):
            told.append(array.beyond)
        given = ", ".join(["row", there, *told])
        return block("{", [*lines, f"{one.name}.map<{', '.join(ways[-2:])}, wide>({given});"])

    # What is computed.

    def _computed(self) -> list[tuple[str, str]]:
        """Write what is computed at a point; the types of its results, and their names in C++."""
        body = self.body
        for name, expr in named(self.kernel.body).items():
            if not isinstance(expr, Read):
                body.lines += body.written(name, expr)
            elif self.plain:
                machine = body.declare(name, expr)
                body.take(name, machine, self._element(expr, machine))
            else:
                body.types[name] = computed(self.fields[expr.field].dtype).name
                body.lines.append(f"{name} = {self._read(expr.field, expr.offset, {})}")
        return [(body.machine(one), body.result(one)) for one in self.kernel.outputs]

    def _element(self, read: Read, machine: str) -> str:
        """An element of a tile, as it is computed with."""
        *lead, row, column = (0, *read.offset)[-max(2, self.ndim) :]
        one = next(t for t in self.shape.tiles if (t.field, t.lead) == (read.field, tuple(lead)))
        element = f"{one.name}.at({plus('r', row - one.low)}, {plus('e', column)})"
        return loaded(machine, self.fields[read.field].dtype, element)

    def _point(self) -> list[str]:
        """One point, and its results."""
        pairs = enumerate(zip(self.outs, self._computed(), strict=True))
        puts = [self._put(k, stored(target.dtype, *made)) for k, (target, made) in pairs]
        lines = self.body.printed()
        return [*(found for _, found in sorted(self._found.items())), *lines, *puts]

    def _patch(self) -> list[str]:
        """All points of the patch, and their results, by rows where everything is inside."""
        columns, rows = self.shape.columns, self.shape.rows
        kinds, puts, fills, whole = list[str](), list[str](), list[str](), list[str]()
        pairs = zip(self.outs, self._computed(), strict=True)
        for k, (target, (machine, value)) in enumerate(pairs):
            made = stored(target.dtype, machine, value)
            kind = C_TYPES[machine] if made == value else target.stored
            kinds.append(f"{kind} w{k}[{rows}][{columns}];")
            kinds.append(f"npt_chunk<{target.stored}, {columns}> y{k}[{rows}];")
            puts.append(f"w{k}[r][e] = {made};")
            fills.append(f"npt_fill(y{k}[r], w{k}[r]);")
            near = f"{self._near(target, (0,) * (self.ndim - 1))} + r * {self._down(target)}"
            whole.append(f"npt_store<wide, {columns}>({near}, 1, y{k}[r]);")
        each = f"NPT_EACH(r, {rows}) {{"
        points = block(f"NPT_EACH(e, {columns}) {{", [*self.body.printed(), *puts])
        lines = [*kinds, *block(each, [*points, *fills])]
        return [*lines, *either("inside", block(each, whole), self._placed())]

    def _read(self, field: str, offset: Sequence[int], along: Mapping[int, str]) -> str:
        """An element of a field, moved along axes."""
        array, text = self._used(self.fields[field]), self.body
        places = list[str]()
        absent = list[str]()
        for axis, step in enumerate(offset):
            place = plus(text.index(f"i{axis}"), step)
            if axis in along:
                place = f"{place} + {along[axis]}"
            inside = self.begin[axis] + step >= 0 >= self.end[axis] + step and axis not in along
            if array.rules and not inside:
                found = f"at{axis}({place}, {text.index(f'n{axis}')})"
                if axis in along:
                    place = found
                else:
                    place = text.index(f"a{axis}{'m' if step < 0 else 'p'}{abs(step)}")
                    self._found[axis, step] = f"const npt_index {place} = {found};"
                absent += [place] * ("constant" in array.rules[axis])
            places.append(place)
        text.memory(field, array, len(places))
        element = f"{field}[{', '.join(places)}]"
        if absent:
            name = text.beyond(array)
            element = f"({name} if ({' | '.join(absent)}) < 0 else {element})"
        return element

    # What is stored.

    def _placed(self) -> list[str]:
        """Element by element, where there is one, and by the rules at the ends of outputs."""
        last = self.ndim - 1
        tests = [f"i{last} < {plus(f'n{last}', self.end[last])}"]
        if self.low[last] < self.begin[last]:
            tests.append(f"i{last} >= {self.begin[last]}")
        above = []
        if last:
            above = [f"const npt_index i{last - 1} = j{last - 1} + r;"]
            tests.append(f"i{last - 1} < {plus(f'n{last - 1}', self.end[last - 1])}")
        puts = [self._put(k, f"y{k}[r].get(e)") for k in range(len(self.outs))]
        column = [
            f"const npt_index i{last} = j{last} + e;",
            *block(f"if ({' && '.join(tests)}) {{", puts),
        ]
        row = [*above, *block(f"NPT_EACH(e, {self.shape.columns}) {{", column)]
        return [
            *(f"const npt_index j{axis} = i{axis};" for axis in range(max(0, last - 1), last + 1)),
            *block(f"NPT_EACH(r, {self.shape.rows}) {{", row),
        ]

    def _put(self, position: int, value: str) -> str:
        """Write an output at the point i0, i1, ..., or what its border has there instead."""
        target = self.outs[position]
        here = [f"i{axis}" for axis in range(self.ndim)]

        def other(rule: str) -> str:
            if rule == "fill":
                return f"b{len(self.kernel.fields) + position}"
            name, dtype = self.kernel.fields[position]
            source = self._used(self.fields[name]).at(here)
            if dtype == target.dtype:
                return source
            kept = loaded(computed(dtype).name, dtype, source)
            return f"npt_as<{target.stored}>::from({kept})"

        tests = ends(self.rules, self.reaches[position]) if self.reaches else []
        skipped = [test for test, rule in tests if rule == "valid"]
        written = [one for one in tests if one[1] != "valid"]
        for test, rule in reversed(written):
            value = f"{test} ? {other(rule)} : {value}"
        line = f"{target.at(here)} = {value};"
        return f"if (!({' || '.join(skipped)})) {line}" if skipped else line
