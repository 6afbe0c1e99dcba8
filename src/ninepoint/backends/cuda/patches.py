"""Patches: one thread makes several columns of several rows, and loads whole rows of them.

    out = x[0, -1] + x[0, 1]         x0 = 4 columns of x at (i, j), at once; x1 = x[i, j - 1], ...
                                ->   t4 = x1 + x0.get(1);  t6 = x0.get(0) + x0.get(2);  ...
                                     4 columns of out at (i, j), at once

What the points of a patch share is computed once, in registers.  What lies beside the own columns
is loaded by itself, which the first cache has.  Where all that a thread reads and writes is inside
the arrays, no position is mapped by the rule of a border; elsewhere each element is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...analysis.ranges import ranges
from ...language.dtypes import short
from ...language.ir import Atom, Const, Element, Offset, Read
from .bodies import Body
from .elements import Array, copied, loaded, stored
from .functions import Function, plus
from .shapes import Chunk, Part, Shape, chunk_of, shape_of
from .source import Launch

# Elements of a chunk that are under way at once where each is loaded by itself.
FEW = 4

# Threads of a block along the last core axis, and along the last but one.
_THREADS = {1: (1, 128), 2: (4, 32)}

# Registers that addresses take besides, also where every element has its own.
_OTHERS = 32
_POINTER = 4

# Registers of a multiprocessor, and threads that are enough for it.
_FILE = 65536
_TOGETHER = 1024


def patched(part: Part) -> tuple[list[str], Launch] | None:
    """The functions of a launch, and how it is started; None where points are as well alone."""
    shape = shape_of(part)
    return None if shape is None else _Patch(part, shape).written()


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
        part, shape = self.part, self.shape
        return _Function(shape.kernel, ranges(shape.kernel), part.border, name, how, self)

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
    """One function, which loads and stores several columns "together" or "apart".

    The outputs of its kernel are those of the first point first, then those of the next in its
    row.
    """

    how: str
    whole: _Patch

    def __post_init__(self) -> None:
        super().__post_init__()
        self.part, self.low = self.whole.part, self.whole.low
        self.shape, self.patch, self.tile = self.whole.shape, self.whole.patch, self.whole.tile
        self.rows, self.columns = self.shape.rows, self.shape.columns

    @property
    def ndim(self) -> int:
        """How many core axes there are."""
        return self.kernel.ndim

    def _written(self, array: Array) -> bool:
        return array in self.part.targets

    def text(self) -> list[str]:
        """The text of the function."""
        for row in self.shape.chunks:
            self.use(self.part.arrays[row[0]])
        loads = either("inside", self._loaded(), self._mapped())
        body = self._body()
        stores = either("inside", self._stored(), self._placed())
        for target in self.part.targets:
            self.use(target)
        inside = ["const bool inside =", f"  {self._inside()};"]
        head = [*self._position(), *inside, *self._declared()]
        threads = int(np.prod(self.whole.threads))
        registers = self.shape.live + _OTHERS + _POINTER * len(self.arrays)
        blocks = _FILE // (threads * registers)
        text = [*head, *loads, *body, *stores]
        return self.lines(text, threads, max(1, min(blocks, _TOGETHER // threads)))

    def _had(self, read: Read, own: str) -> str:
        chunk = chunk_of(read, self.shape)
        text = f"{chunk.name}.get({read.offset[-1] - chunk.first})"
        return loaded(own, self.part.arrays[read.field].dtype, text)

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

    def _mapped(self) -> list[str]:
        """All chunks, wherever each row comes from; one that crosses an end by its elements."""
        lines: list[str] = []
        last = self.ndim - 1
        for (field, lead), chunks in self.shape.chunks.items():
            array = self.part.arrays[field]
            ruled = field not in self.part.regions
            places: list[str] = []
            absent: list[str] = []
            lines.append("{")
            for axis, step in enumerate(lead):
                lines.append(
                    f"  const npt_index a{axis} = {self._at(field, axis, plus(f'i{axis}', step))};"
                )
                places.append(f"a{axis}")
                if ruled and "constant" in self.part.border.rules[axis]:
                    absent.append(f"a{axis}")
            low, high = self._region(field, last)
            for chunk in chunks:
                first = plus(f"i{last}", chunk.first)
                tests = [
                    f"{first} >= {low}", f"{first} + {chunk.count} <= {plus(f'n{last}', high)}"
                ]  # fmt: skip
                tests += [f"{one} >= 0" for one in absent]
                outside = list(absent)
                if ruled and "constant" in self.part.border.rules[last]:
                    outside.append(f"a{last}")
                text = array.at([*places, f"a{last}"])
                if outside:
                    constant = self.part.border.constant(array.dtype, "constant")
                    text = f"({' | '.join(outside)}) < 0 ? {constant} : {text}"
                place = f"const npt_index a{last} = {self._at(field, last, f'{first} + k')};"
                each = gathered(chunk.name, chunk.count, [place], text)
                if chunk.count > 1:
                    whole = self._whole(array, chunk, [*places, f"({first})"])
                    each = either(" & ".join(f"({test})" for test in tests), [whole], each)
                lines += ["  " + line for line in each]
            lines.append("}")
        return lines

    def _whole(self, array: Array, chunk: Chunk, places: list[str]) -> str:
        """Load all of a chunk, whose columns are there."""
        where = f"&{array.at(places)}"
        if self.how == "together":
            return f"{chunk.name} = npt_together<{chunk.count}>({where});"
        step = f"{array.parameter}_{self.ndim - 1}"
        return f"{chunk.name} = npt_strided<{chunk.count}>({where}, {step});"

    # Where elements are.

    def _region(self, field: str, axis: int) -> tuple[int, int]:
        """How far beyond both ends of an axis a scratch array reaches; a field does not."""
        if field not in self.part.regions:
            return 0, 0
        low, high = self.part.regions[field]
        return low[axis], high[axis]

    def _at(self, field: str, axis: int, place: str) -> str:
        """A position of a field, or of a scratch array: one beyond its ends is mapped."""
        if field not in self.part.regions:
            return f"at{axis}({place}, n{axis})"
        low, high = self._region(field, axis)
        return f"npt_within({place}, {low}, {plus(f'n{axis}', high)})"

    # What is computed.

    def _body(self) -> list[str]:
        body = self.body()
        for assign in self.kernel.body:
            expr, name = assign.value, assign.name
            match expr:
                case Read():
                    own = body.declare(name, expr)
                    body.take(name, own, self._had(expr, own))
                case Element():
                    self.element(body, name, expr)
                case _:
                    body.assign(assign)
        results = self._results(body)
        return [*body.printed(), *results]

    def _results(self, body: Body) -> list[str]:
        """The rows of each output, as they are stored."""
        lines: list[str] = []
        columns, targets = self.columns, self.part.targets
        for position, target in enumerate(targets):
            made = f"npt_chunk<{target.stored}, {columns}> y{position}"
            lines.append(f"{made}[{self.rows}];")
            size = target.dtype.itemsize
            for row in range(self.rows):
                first = row * columns * len(targets) + position
                outputs = self.kernel.outputs[first :: len(targets)][:columns]
                where = f"y{position}[{row}]"
                if size < 4 <= size * columns:
                    bits = [self._bits(body, target, output) for output in outputs]
                    step = 4 // size
                    for word in range(columns // step):
                        parts = ", ".join(bits[word * step : (word + 1) * step])
                        lines.append(f"{where}.w[{word}] = npt_word({parts});")
                else:
                    for k, output in enumerate(outputs):
                        value = self._element(body, target, output)
                        lines.append(f"{where}.e[{k}] = {value};")
        return lines

    def _bits(self, body: Body, target: Array, value: Atom) -> str:
        """A number whose lowest bits are those of a value as it is stored."""
        if short(target.dtype):
            return f"{self._element(body, target, value)}.bits"
        return f"unsigned({body.result(value)})"

    def _element(self, body: Body, target: Array, value: Atom) -> str:
        """A value as it is stored."""
        machine = body.machine(value)
        if isinstance(value, Const) and not short(target.dtype):
            machine = target.dtype.name
        return stored(target.dtype, machine, body.result(value, machine))

    # What is stored.

    def _stored(self) -> list[str]:
        lines: list[str] = []
        for position, target in enumerate(self.part.targets):
            name = target.parameter
            lines.append(self._own(name, f"{target.stored} *const"))
            for row in range(self.rows):
                lead = (0,) * (self.ndim - 2) + ((row,) if self.ndim > 1 else ())
                step = self._away(name, lead, 0)
                vector = f"y{position}[{row}]"
                lines.append(f"npt_{self.how}<{self.columns}>(p_{name}{step}, {vector});")
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

    def _placed(self) -> list[str]:
        """Element by element, where there is one, and by the rules at the ends of outputs.

        One after the other, so that what few threads do takes few registers of all.
        """
        part, last = self.part, self.ndim - 1
        inner: list[str] = []
        for position, target in enumerate(part.targets):
            here = self._here(target)
            value = f"z{position}.get(0)"
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
        numbers = range(len(part.targets))
        return [
            *first,
            "#pragma unroll",
            f"for (int r = 0; r < {self.rows}; r++) {{",
            *("  " + line for line in above),
            *(f"  auto z{k} = y{k}[r];" for k in numbers),
            "  #pragma unroll 1",
            f"  for (int k = 0; k < {self.columns}; k++) {{",
            f"    const npt_index i{last} = j{last} + k;",
            f"    if ({' && '.join([rows, *tests])}) {{",
            *("      " + line for line in inner),
            "    }",
            *(f"    z{k}.push({{}});" for k in numbers),
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


def indented(head: str, lines: Iterable[str]) -> list[str]:
    """Lines inside of a block that begins so."""
    return [head, *("  " + line for line in lines)]


def either(test: str, lines: Iterable[str], others: Iterable[str]) -> list[str]:
    """Some lines where this holds, and others elsewhere."""
    return [*indented(f"if ({test}) {{", lines), *indented("} else {", others), "}"]


def gathered(target: str, count: int, lines: Iterable[str], value: str) -> list[str]:
    """Load a chunk element by element, the k-th after these lines: few at once."""
    loop = f"for (int k = 0; k < {count}; k++) {{"
    return [f"#pragma unroll {FEW}", *indented(loop, [*lines, f"{target}.push({value});"]), "}"]
