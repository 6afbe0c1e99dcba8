"""Patches: one thread makes several columns of several rows, and loads whole rows of them.

    out = x[0, -1] + x[0, 1]         x0 = 4 columns of x at (i, j), at once; x1 = x[i, j - 1], ...
                                ->   t4 = x1 + x0.get(1);  t6 = x0.get(0) + x0.get(2);  ...
                                     4 columns of out at (i, j), at once

What the points of a patch share is computed once, in registers.  What lies beside the own columns
is loaded by itself, which the first cache has.  Where all that a thread reads and writes is inside
the arrays, no position is mapped by the rule of a border; elsewhere each element is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...analysis.ranges import ranges
from ...language.box import Box
from ...language.ir import (
    Assign,
    Atom,
    Binary,
    Call,
    Cast,
    Const,
    Element,
    Kernel,
    Offset,
    Read,
    Ref,
    Select,
    Unary,
    atoms,
)
from ...lowering.abreast import abreast
from ...lowering.cost import operation
from .borders import Border
from .functions import Array, Function, copied, loaded, plus, stored
from .operations import C_TYPES
from .source import Launch

# The widest load and store [bytes].
WIDEST = 16

# Threads of a block along the last core axis, and along the last but one.
_THREADS = {1: (1, 128), 2: (4, 32)}

# Rows that are tried.
_ROWS = (1, 2, 4, 8)

# Registers that the values of a thread may take, as they are counted here, and what addresses take
# besides, also where every element has its own.
_REGISTERS = 56
_OTHERS = 32
_POINTER = 4

# Where a point takes so many operations that memory waits for them, fewer threads may have more
# registers, if that is much less work.
_SHORT = 60
_MANY = 110
_MUCH = 0.85

# Registers of a multiprocessor, and threads that are enough for it.
_FILE = 65536
_TOGETHER = 1024

# How far apart the columns may be that a point reads: where any lies beyond an end, a thread maps
# all that are between.
_SPAN = 64

# Operations of a thread, above which texts take seconds to compile.
_LONGEST = 1600

# What a thread spends on its position and on each row it loads or stores, in operations.
_THREAD, _LOAD, _STORE = 50, 3, 3

# How much less work more registers must be worth.
_GAIN = 0.97


@dataclass(frozen=True, slots=True)
class Part:
    """What one launch computes: the outputs of `kernel`, from `low` to the lengths plus `high`.

    `regions` are those of the scratch arrays that it may read.  Results have `reaches`, whose
    ends are written as the border says; a stage has none.
    """

    kernel: Kernel
    name: str
    low: Offset
    high: Offset
    targets: tuple[Array, ...]
    arrays: Mapping[str, Array]
    regions: Mapping[str, tuple[Offset, Offset]]
    border: Border
    reaches: tuple[Box, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """The size of an element of each array that is read or written [bytes]."""
        read = {a.value.field for a in self.kernel.body if isinstance(a.value, Read)}
        return [a.dtype.itemsize for a in (*self.targets, *(self.arrays[n] for n in read))]


@dataclass(frozen=True, slots=True)
class Chunk:
    """So many columns from `first` on, of a row of a field: what one load is for."""

    name: str
    first: int
    count: int


Row = tuple[str, Offset]


@dataclass(frozen=True, slots=True)
class Shape:
    """How many columns and rows a thread makes, by which operations."""

    columns: int
    rows: int
    kernel: Kernel
    chunks: Mapping[Row, tuple[Chunk, ...]]
    live: int = 0


def patched(part: Part) -> tuple[list[str], Launch] | None:
    """The functions of a launch, and how it is started; None where points are as well alone."""
    shape = shape_of(part)
    return None if shape is None else _Patch(part, shape).written()


def padded(low: Offset, high: Offset, dtype: np.dtype) -> tuple[Offset, Offset]:
    """The region of a scratch array, widened so that its rows begin where loads may."""
    step = max(1, WIDEST // dtype.itemsize)
    first, last = low[-1] // step * step, -(-high[-1] // step) * step
    return (*low[:-1], first), (*high[:-1], last)


def shape_of(part: Part) -> Shape | None:
    """The columns and rows of the least work for each point, whose values fit the registers."""
    kernel = part.kernel
    plain = (Read, Element, Unary, Binary, Select, Cast, Call)
    if not all(isinstance(assign.value, plain) for assign in kernel.body):
        return None
    columns = [a.value.offset[-1] for a in kernel.body if isinstance(a.value, Read)]
    if columns and max(columns) - min(columns) > _SPAN:
        return None
    best: Shape | None = None
    least = 0.0
    for limit, gain in ((_REGISTERS, _GAIN), (_MANY, _MUCH)):
        for shape in _shapes(part, limit):
            work = _work(shape, part)
            if best is None or work < least * gain:
                best, least = shape, work
        if least <= _SHORT and best is not None:
            break
    return best


def _shapes(part: Part, limit: int) -> Iterator[Shape]:
    """All that are not too long, and whose values take no more registers."""
    kernel = part.kernel
    widest, narrowest = max(part.sizes), min(part.sizes)
    columns = first = max(1, WIDEST // widest)
    while columns == first or columns * narrowest >= 4:
        for rows in _ROWS if kernel.ndim > 1 else (1,):
            if rows * columns * len(kernel.body) > 2 * _LONGEST or rows == columns == 1:
                continue
            several = abreast(replace(kernel, rows=rows), ".", columns)
            if len(several.body) > _LONGEST:
                break
            shape = Shape(columns, rows, several, _chunks(several, part.arrays, columns))
            shape = replace(shape, live=_live(shape, part))
            if shape.live > limit:
                break
            yield shape
        if columns == 1:
            break
        columns //= 2


def _chunks(
    kernel: Kernel, arrays: Mapping[str, Array], columns: int
) -> dict[Row, tuple[Chunk, ...]]:
    """Which columns of each row are loaded together: those of a block that are needed.

    A block is as many columns as a thread makes, at a multiple of them; of one not all of whose
    columns are needed the smallest half, quarter, ... that has them is loaded.
    """
    needed: dict[Row, set[int]] = defaultdict(set)
    for assign in kernel.body:
        if isinstance(assign.value, Read):
            needed[assign.value.field, assign.value.offset[:-1]].add(assign.value.offset[-1])
    found: dict[Row, tuple[Chunk, ...]] = {}
    number = 0
    order = {name: k for k, name in enumerate(arrays)}
    for row in sorted(needed, key=lambda row: (order[row[0]], row[1])):
        chunks: list[Chunk] = []
        for block in sorted({column // columns for column in needed[row]}):
            inside = [c - block * columns for c in needed[row] if c // columns == block]
            first, count = _smallest(min(inside), max(inside))
            chunks.append(Chunk(f"x{number}", block * columns + first, count))
            number += 1
        found[row] = tuple(chunks)
    return found


def _smallest(low: int, high: int) -> tuple[int, int]:
    """The least power of two of columns, at a multiple of it, that holds these: start, length."""
    count = 1
    while low // count != high // count:
        count *= 2
    return low // count * count, count


def _work(shape: Shape, part: Part) -> float:
    """Operations for each point."""
    total: float = _THREAD + _STORE * shape.rows * len(part.targets)
    total += _LOAD * sum(map(len, shape.chunks.values()))
    for assign in shape.kernel.body:
        if isinstance(assign.value, Read):
            total += part.arrays[assign.value.field].dtype.itemsize < 4
        else:
            total += operation(assign.value)
    return total / (shape.rows * shape.columns)


def _live(shape: Shape, part: Part) -> int:
    """How many registers the values take where they are most."""
    kernel = shape.kernel
    last: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for place, assign in enumerate(kernel.body):
        for name in _used(assign, shape):
            last[name] = place
        sizes[assign.name] = assign.value.dtype.numpy.itemsize
        if assign.value.dtype.is_integer:
            sizes[assign.name] = 4
    for output in kernel.outputs:
        if isinstance(output, Ref):
            last[output.name] = len(kernel.body)
    for (field, _), chunks in shape.chunks.items():
        for chunk in chunks:
            sizes[chunk.name] = part.arrays[field].dtype.itemsize * chunk.count
    live = sum(_words(sizes[c.name]) for chunks in shape.chunks.values() for c in chunks)
    ends: dict[int, int] = defaultdict(int)
    for name, place in last.items():
        ends[place] += _words(sizes.get(name, 4))
    most = live
    for place, assign in enumerate(kernel.body):
        if not isinstance(assign.value, Read) or _narrow(assign.value, part):
            live += _words(sizes[assign.name])
        elif assign.name in last:
            # It is what was loaded, and not a value of its own.
            ends[last[assign.name]] -= _words(sizes[assign.name])
        most = max(most, live)
        live -= ends[place] if assign.name in last else _words(sizes[assign.name])
    return most


def _narrow(read: Read, part: Part) -> bool:
    return part.arrays[read.field].dtype.itemsize < 4


def _words(size: int) -> int:
    return -(-size // 4)


def _used(assign: Assign, shape: Shape) -> Iterator[str]:
    if isinstance(assign.value, Read):
        yield _chunk(assign.value, shape).name
    else:
        yield from (atom.name for atom in atoms(assign.value) if isinstance(atom, Ref))


def _chunk(read: Read, shape: Shape) -> Chunk:
    """The chunk that has an element."""
    column = read.offset[-1]
    (found,) = (
        chunk
        for chunk in shape.chunks[read.field, read.offset[:-1]]
        if chunk.first <= column < chunk.first + chunk.count
    )
    return found


class _Patch:
    """Both functions of a launch: for arrays whose rows can be loaded in vectors, and others."""

    def __init__(self, part: Part, shape: Shape) -> None:
        self.part = part
        self.shape = shape
        self.ndim = part.kernel.ndim
        self.patch = (1,) * (self.ndim - 2) + (shape.rows, shape.columns)[-self.ndim :]
        threads = _THREADS[min(self.ndim, 2)]
        self.threads = (1,) * (self.ndim - 2) + threads[-min(self.ndim, 2) :]
        self.tile = tuple(a * b for a, b in zip(self.patch, self.threads, strict=True))
        # Columns begin where a load may.
        first = part.low[-1] // shape.columns * shape.columns
        self.low = (*part.low[:-1], first)

    def written(self) -> tuple[list[str], Launch]:
        """The text of both functions, and the launch of one of them."""
        part, widths = self.part, self._widths()
        function = self._function(part.name, "together" if widths else "apart")
        lines = function.text()
        plain = ""
        if widths:
            plain = f"{part.name}_plain"
            lines += self._function(plain, "apart").text()
        arrays = tuple(array.name for array in function.arrays)
        threads = (self.threads[-1], self.threads[-2] if self.ndim > 1 else 1, 1)
        wide = tuple(widths.items())
        return lines, Launch(
            part.name, arrays, threads, self.tile, self.low, part.high, wide, plain
        )

    def _function(self, name: str, how: str) -> _Function:
        kernel = self.shape.kernel
        return _Function(kernel, ranges(kernel), self.part.border, name, self, how)

    def _widths(self) -> dict[str, int]:
        """The arrays that are read or written in vectors, and of how many bytes."""
        counts = [(array, self.shape.columns) for array in self.part.targets]
        for (field, _), chunks in self.shape.chunks.items():
            counts += [(self.part.arrays[field], chunk.count) for chunk in chunks]
        if max(count for _, count in counts) == 1:
            return {}
        found: dict[str, int] = {}
        for array, count in counts:
            found[array.name] = max(array.dtype.itemsize * count, found.get(array.name, 1))
        return found


@dataclass
class _Function(Function):
    """One function, which loads and stores several columns "together" or "apart"."""

    whole: _Patch
    how: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self.part, self.shape = self.whole.part, self.whole.shape
        self.ndim, self.patch, self.low = self.whole.ndim, self.whole.patch, self.whole.low
        self.tile = self.whole.tile

    def text(self) -> list[str]:
        """The text of the function."""
        for row in self.shape.chunks:
            self.use(self.part.arrays[row[0]])
        loads = [*_in("if (inside) {", self._loaded()), *_in("} else {", self._mapped()), "}"]
        body = self._body()
        stores = [*_in("if (inside) {", self._stored()), *_in("} else {", self._placed()), "}"]
        for target in self.part.targets:
            self.use(target)
        inside = ["const bool inside =", f"  {self._inside()};"]
        head = [*self._position(), *inside, *self._declared()]
        threads = int(np.prod(self.whole.threads))
        registers = self.shape.live + _OTHERS + _POINTER * len(self.arrays)
        blocks = _FILE // (threads * registers)
        text = [*head, *loads, *body, *stores]
        return self.lines(text, threads, max(1, min(blocks, _TOGETHER // threads)))

    def _written(self, array: Array) -> bool:
        return array in self.part.targets

    # Where a thread is.

    def _position(self) -> list[str]:
        """The position of the first point, i0, i1, ...; the arrays begin with the frame."""
        part, ndim = self.part, self.ndim
        lines = [f"const npt_index n{a} = npt_index(g.length[{a}]);" for a in range(ndim)]
        lines.append("unsigned block = blockIdx.x, frame = 0;")
        for axis in reversed(range(ndim)):
            tile, more = self.tile[axis], part.high[axis] - self.low[axis]
            count = f"unsigned(({plus(f'n{axis}', more + tile - 1)}) / {tile})"
            lines.append(f"const unsigned m{axis} = {count};")
            if axis:
                lines.append(f"const unsigned rest{axis} = block / m{axis};")
                at = f"block - rest{axis} * m{axis}"
            else:
                # Most often there is one frame, and nothing to divide.
                lines.append("if (block >= m0) frame = block / m0, block -= frame * m0;")
                at = "block"
            at = f"npt_index({at}) * {tile}"
            thread = {1: "threadIdx.x", 2: "threadIdx.y"}.get(ndim - axis, "")
            if thread:
                step = f" * {self.patch[axis]}" if self.patch[axis] > 1 else ""
                at = f"{at} + npt_index({thread}){step}"
            lines.append(f"const npt_index i{axis} = {plus(at, self.low[axis])};")
            if axis:
                lines.append(f"block = rest{axis};")
        beyond = [
            f"i{axis} >= {plus(f'n{axis}', part.high[axis])}"
            for axis in range(ndim)
            if self.tile[axis] > 1
        ]
        lines.append(f"if ({' || '.join(beyond)}) return;")
        return lines + self.frames("frame")

    def _inside(self) -> str:
        """Whether everything that is read and written lies inside, and is as it should be."""
        part = self.part
        tests: list[str] = []
        for axis in range(self.ndim):
            low, high = self._bounds(axis)
            if low > self.low[axis]:
                tests.append(f"i{axis} >= {low}")
            if high > part.high[axis] * -1 or self.patch[axis] > 1:
                tests.append(f"i{axis} < {plus(f'n{axis}', -high)}")
        if self.how == "apart":
            tests += [f"{array.parameter}_{self.ndim - 1} == 1" for array in self.arrays]
        return " & ".join(f"({test})" for test in tests) or "true"

    def _bounds(self, axis: int) -> tuple[int, int]:
        """The least position that is inside, and how far from the length the last one is."""
        part, length = self.part, self.patch[axis]
        lows = [part.low[axis]]
        highs = [length - 1 - part.high[axis]]
        for (field, lead), chunks in self.shape.chunks.items():
            low, high = self._region(field, axis)
            for chunk in chunks:
                first, count = chunk.first, chunk.count
                ends = (first, first + count - 1) if axis == self.ndim - 1 else (lead[axis],) * 2
                lows.append(low - ends[0])
                highs.append(ends[1] - high)
        for reach in part.reaches:
            if part.border.leaves_out(reach):
                lows.append(-reach.lo[axis])
                highs.append(length - 1 + reach.hi[axis])
        return max(lows), max(highs)

    def _region(self, field: str, axis: int) -> tuple[int, int]:
        if field not in self.part.regions:
            return 0, 0
        low, high = self.part.regions[field]
        return low[axis], high[axis]

    # What is loaded.

    def _declared(self) -> list[str]:
        return [
            f"npt_chunk<{self.part.arrays[field].stored}, {chunk.count}> {chunk.name} = {{}};"
            for (field, _), chunks in self.shape.chunks.items()
            for chunk in chunks
        ]

    def _loaded(self) -> list[str]:
        """All chunks, where everything is inside."""
        lines: list[str] = []
        seen: set[str] = set()
        for (field, lead), chunks in self.shape.chunks.items():
            name = self.part.arrays[field].parameter
            if name not in seen:
                lines.append(self._own(name, "const auto"))
                seen.add(name)
            for chunk in chunks:
                step = self._away(name, lead, chunk.first)
                lines.append(f"{chunk.name} = npt_{self.how}<{chunk.count}>(p_{name}{step});")
        return lines

    def _own(self, name: str, kind: str) -> str:
        """The pointer to the thread's first element of an array."""
        places = [f"i{axis} * {name}_{axis}" for axis in range(self.ndim - 1)]
        return f"{kind} p_{name} = {name} + ({' + '.join([*places, f'i{self.ndim - 1}'])});"

    def _away(self, name: str, lead: Offset, column: int) -> str:
        """How far from that an element is."""
        text = ""
        for axis, step in enumerate(lead):
            if step:
                length = "" if abs(step) == 1 else f" * {abs(step)}"
                text += f" {'+' if step > 0 else '-'} {name}_{axis}{length}"
        return plus(text, column) if text or column else ""

    def _mapped(self) -> list[str]:
        """All chunks, element by element, wherever each comes from."""
        lines: list[str] = []
        last = self.ndim - 1
        fields = [row for row in self.shape.chunks if row[0] not in self.part.regions]
        ends = [(c.first, c.first + c.count) for row in fields for c in self.shape.chunks[row]]
        if ends:
            first, end = min(a for a, _ in ends), max(b for _, b in ends)
            lines += [
                f"npt_index column[{end - first}];",
                "#pragma unroll",
                f"for (int k = 0; k < {end - first}; k++) "
                f"column[k] = at{last}({plus(f'i{last} + k', first)}, n{last});",
            ]
        for (field, lead), chunks in self.shape.chunks.items():
            array = self.part.arrays[field]
            scratch = field in self.part.regions
            places: list[str] = []
            absent: list[str] = []
            lines.append("{")
            for axis, step in enumerate(lead):
                at = plus(f"i{axis}", step)
                low, high = self._region(field, axis)
                if scratch:
                    place = f"npt_within({at}, {low}, {plus(f'n{axis}', high)})"
                else:
                    place = f"at{axis}({at}, n{axis})"
                lines.append(f"  const npt_index a{axis} = {place};")
                places.append(f"a{axis}")
                if not scratch and "constant" in self.part.border.rules[axis]:
                    absent.append(f"a{axis}")
            for chunk in chunks:
                if scratch:
                    low, high = self._region(field, last)
                    at = plus(f"i{last} + k", chunk.first)
                    place = f"npt_within({at}, {low}, {plus(f'n{last}', high)})"
                else:
                    place = f"column[{plus('k', chunk.first - first)}]"
                text = array.at([*places, place])
                outside = list(absent)
                if not scratch and "constant" in self.part.border.rules[last]:
                    outside.append(place)
                if outside:
                    constant = self.part.border.constant(array.dtype, "constant")
                    text = f"({' | '.join(outside)}) < 0 ? {constant} : {text}"
                lines += [
                    "  #pragma unroll",
                    f"  for (int k = 0; k < {chunk.count}; k++) {chunk.name}.put(k, {text});",
                ]
            lines.append("}")
        return lines

    # What is computed.

    def _body(self) -> list[str]:
        kernel = self.shape.kernel
        lines: list[str] = []
        for assign in kernel.body:
            expr, name = assign.value, assign.name
            match expr:
                case Read():
                    own = self.operations.declare(name, expr)
                    chunk = _chunk(expr, self.shape)
                    text = f"{chunk.name}.get({expr.offset[-1] - chunk.first})"
                    text = loaded(own, self.part.arrays[expr.field].dtype, text)
                case Element():
                    own = self.operations.declare(name, expr)
                    text = self.element(expr.array, own, list(map(str, expr.index)))
                case _:
                    text = self.operations.text(name, expr)
                    own = self.operations.types[name]
            lines.append(f"const {C_TYPES[own]} {self.fresh(name)} = {text};")
        return [*lines, *self._results()]

    def _results(self) -> list[str]:
        """The rows of each output, as they are stored."""
        lines: list[str] = []
        columns, targets = self.shape.columns, self.part.targets
        for position, target in enumerate(targets):
            made = f"npt_chunk<{target.stored}, {columns}> y{position}"
            lines.append(f"{made}[{self.shape.rows}];")
            size = target.dtype.itemsize
            for row in range(self.shape.rows):
                first = row * columns * len(targets) + position
                outputs = self.shape.kernel.outputs[first :: len(targets)][:columns]
                where = f"y{position}[{row}]"
                if size < 4 <= size * columns:
                    bits = [self._bits(target, output) for output in outputs]
                    step = 4 // size
                    for word in range(columns // step):
                        parts = ", ".join(bits[word * step : (word + 1) * step])
                        lines.append(f"{where}.w[{word}] = npt_word({parts});")
                else:
                    for k, output in enumerate(outputs):
                        lines.append(f"{where}.e[{k}] = {self._element(target, output)};")
        return lines

    def _bits(self, target: Array, value: Atom) -> str:
        """A number whose lowest bits are those of a value as it is stored."""
        if target.dtype == np.float16:
            return f"{self._element(target, value)}.bits"
        return f"unsigned({self.operations.atom(value)})"

    def _element(self, target: Array, value: Atom) -> str:
        """A value as it is stored."""
        if isinstance(value, Const):
            return self.operations.atom(value, target.dtype.name)
        return stored(target.dtype, self.operations.machine(value), self.operations.atom(value))

    # What is stored.

    def _stored(self) -> list[str]:
        lines: list[str] = []
        for position, target in enumerate(self.part.targets):
            name = target.parameter
            lines.append(self._own(name, f"{target.stored} *const"))
            for row in range(self.shape.rows):
                lead = (0,) * (self.ndim - 2) + ((row,) if self.ndim > 1 else ())
                step = self._away(name, lead, 0)
                vector = f"y{position}[{row}]"
                lines.append(f"npt_{self.how}<{self.shape.columns}>(p_{name}{step}, {vector});")
        return lines

    def _placed(self) -> list[str]:
        """Element by element, where there is one, and by the rules at the ends of outputs."""
        part, last = self.part, self.ndim - 1
        inner: list[str] = []
        for position, target in enumerate(part.targets):
            here = self._here(target)
            value = f"y{position}[r].get(k)"
            if part.reaches:
                reach, kept = part.reaches[position], partial(self._kept, position)
                inner += part.border.store(reach, target.dtype, here, value, kept)
            else:
                inner.append(f"{here} = {value};")
        tests = [f"i{last} < {plus(f'n{last}', part.high[last])}"]
        if self.low[last] < part.low[last]:
            tests.append(f"i{last} >= {part.low[last]}")
        rows = f"i{last - 1} < {plus(f'n{last - 1}', part.high[last - 1])}" if last else "true"
        above = [f"const npt_index i{last - 1} = j{last - 1} + r;"] if last else []
        first = [
            f"const npt_index j{axis} = i{axis};" for axis in range(max(0, last - 1), last + 1)
        ]
        return [
            *first,
            "#pragma unroll",
            f"for (int r = 0; r < {self.shape.rows}; r++) {{",
            *("  " + line for line in above),
            "  #pragma unroll",
            f"  for (int k = 0; k < {self.shape.columns}; k++) {{",
            f"    const npt_index i{last} = j{last} + k;",
            f"    if ({' && '.join([rows, *tests])}) {{",
            *("      " + line for line in inner),
            "    }",
            "  }",
            "}",
        ]

    def _kept(self, position: int) -> str:
        """The value of the field in the place of an output."""
        name, dtype = self.kernel.fields[position]
        source = self._here(self.use(self.part.arrays[name]))
        return copied(self.part.targets[position].dtype, dtype, source)

    def _here(self, array: Array) -> str:
        return array.at([f"i{axis}" for axis in range(self.ndim)])


def _in(head: str, lines: Iterable[str]) -> list[str]:
    """Lines inside of a block that begins so."""
    return [head, *("  " + line for line in lines)]
