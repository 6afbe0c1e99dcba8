"""What is computed at a point, besides its reads at constant offsets, as lines of text.

Loops over a window, for what is neither staged nor written out:

    median of x over 31 x 31    ->      for d0 in range(31):
                                            for d1 in range(31):
                                                buffer[at] = x[b, i0 + d0, j + d1]; ...
                                        t0 = select(buffer, 961, 480)

Loops of the user's:

    t4 = loop c = t0, k = 0     ->      t4_c0, t4_c1 = t3, f64(t0)
           while going:                 while t4_c0:
             u0 = c / 2                     t4_u0 = t4_c1 / 2.0
             next u0 > 1, u0                t4_c0, t4_c1 = t4_u0 > 1.0, t4_u0

A loop that may never end checks now and then whether it was told to stop, and a read outside the
neighborhood is noted: both by means of the `notes` that the function is called with.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...analysis.footprint import live
from ...analysis.ranges import Interval, interval, machine_type, turn_ranges, window_range
from ...analysis.rewrite import copied
from ...base.frozen import frozen
from ...language.dtypes import computed
from ...language.ir import (
    RANKED,
    Assign,
    Atom,
    Binary,
    Carried,
    Const,
    DType,
    Element,
    Expr,
    Gather,
    Inside,
    Loop,
    Offset,
    Read,
    Reduce,
    Ref,
    Weight,
)
from ...loops.nodes import BITS, SHORT
from ...loops.operations import Operations, number
from ...lowering.windows import quantile_position

# A loop checks after so many turns whether it was told to stop.
EACH = 256

# Elements of a line that are added one to the other, where a line is longer than two such pieces.
PIECE = 16

# Programs, of which what stands below "for all:" is done for each element of a window.  Below "for
# pieces:" it is done for each short piece of its last axis, and below "for these:" for each
# element of that.  `$own` is the result and `$item` an element; other words are told, or names of
# their own.
_SUM = """
$kept = $total(0)
for all:
    $kept = $total($kept + $total($item))
$own = $type($kept)
"""

# The first NaN takes the place of what was found so far, and nothing after it.
_EXTREME = """
$kept = $extreme
for all:
    $kept = $item if ($item < $kept) | ($item != $item) else $kept
$own = $type($kept)
"""

_PLACE = """
$own = $type(0)
$at = 0
$best = $extreme
for all:
    $better = ($item < $best) | ($at == 0) | ($item != $item)
    $better = $better & (($best == $best) | ($at == 0))
    $best = $item if $better else $best
    $own = $type($at) if $better else $own
    $at += 1
"""

# The mean first, then squares about it, less what the mean's own rounding adds to them.
#
# In double precision, and line by line: an element is added to the few of its line, and the line
# to those before it, so that errors grow with the sides of a window, not its elements.  Where all
# elements are equal, rounding alone is left, which may be below 0.
# Source: T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample
# variance: analysis and recommendations", The American Statistician 37 (3), 1983, formula 1.7.
_VARIANCE = """
$mean = 0.0
for pieces:
    $line = 0.0
    for these:
        $line = $line + f64($item)
    $mean = $mean + $line
$mean = $mean / f64($count)
$rest = 0.0
$squares = 0.0
for pieces:
    $line_rest = 0.0
    $line_squares = 0.0
    for these:
        $apart = f64($item) - $mean
        $line_rest = $line_rest + $apart
        $line_squares = $line_squares + $apart * $apart
    $rest = $rest + $line_rest
    $squares = $squares + $line_squares
$squares = $squares - $rest * $rest / f64($count)
$own = $type((0.0 if $squares < 0.0 else $squares) / $divisor)
"""

_PROGRAMS = {
    "var": _VARIANCE,
    "sum": _SUM,
    "mean": _SUM + "$own = $own / $type($count)",
    "prod": _SUM.replace("(0)", "(1)").replace("+", "*"),
    "any": "$own = False\nfor all:\n    $own = $own | ($item)",
    "all": "$own = True\nfor all:\n    $own = $own & ($item)",
    "min": _EXTREME,
    "max": _EXTREME.replace("<", ">"),
    "argmin": _PLACE,
    "argmax": _PLACE.replace("<", ">"),
}

# All elements in a buffer, whose number is 0 if one is NaN; and those that are no NaN.
_ALL = """
$at = 0
$strange = False
for all:
    $buffer[$at] = $item
    $at += 1
    $strange = $strange | ($item != $item)
$at = 0 if $strange else $at
"""

_VALID = """
$at = 0
for all:
    $buffer[$at] = $item
    $at += 1 if $item == $item else 0
"""

# Which of so many elements is wanted, and how far from the next.
_PLACES = {
    "quantile": """
$low = $rank
$part = $fraction
""",
    "nanrank": """
$low = int($at * $q / 100) if int($at * $q / 100) < $at else $at - 1
$low = max($low, 0)
$part = 0.0
""",
    "nanquantile": """
$part = $q * ($at - 1 if $at else 0)
$low = int($part)
$part = $part - $low
""",
}

# What lies between the element of a rank and the next one.
_BETWEEN = """
$own = $type($first)
if $part > 0.0:
    $high = $type($second)
    if $part == 0.5:
        $own = ($own + $high) / $type(2.0)
    elif $part > 0.5:
        $own = $high - ($high - $own) * $type(1.0 - $part)
    else:
        $own = $own + ($high - $own) * $type($part)
"""

_WORD = re.compile(r"\$(\w+)")
_LOOP = re.compile(r"^( *)for (all|pieces|these):\n((?:\1    .*\n)+)", re.MULTILINE)


@frozen
class Window:
    """A window at a point: the lines that make an element, whose text and range are known.

    `short` is the type of what is made of all, and `name` its name.
    """

    name: str
    reduce: Reduce
    short: str
    inner: Sequence[str]
    item: str
    known: Interval

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.reduce.shape)

    def lines(self, program: str, **words: object) -> list[str]:
        """The lines of a program."""
        told = {"own": self.name, "type": self.short, "item": self.item, **words}
        heads = [f"for d{k} in range({n}):" for k, n in enumerate(self.reduce.shape)]
        *lines, these = heads
        length = self.reduce.shape[-1]
        if length > 2 * PIECE:
            lines.append(f"for p0 in range(0, {length}, {PIECE}):")
            these = f"for d{len(heads) - 1} in range(p0, min(p0 + {PIECE}, {length})):"
        inner = self.inner
        loops = {"all": (heads, inner), "pieces": (lines, ()), "these": ([these], inner)}

        def looped(found: re.Match[str]) -> str:
            indent, kind, body = found.groups()
            around, before = loops[kind]
            lines = [*before, *written(textwrap.dedent(body))]
            # The first of the loops is around all others.
            for head in reversed(around):
                lines = [head, *indented(lines)]
            return textwrap.indent("\n".join(lines), indent) + "\n"

        def written(text: str) -> list[str]:
            return [*filter(None, _LOOP.sub(looped, text).split("\n"))]

        return written(filled(program, self.name, told) + "\n")

    def ranked(
        self, gathered: str, search: str, first: str, second: str, **words: object
    ) -> list[str]:
        """The element of some rank, or what lies between it and the next; NaN where there is none.

        Elements are `gathered`, and programs say what comes before these two are known.
        """
        kind, (low, part) = self.reduce.kind, quantile_position(self.count, self.reduce.quantile)
        between = _BETWEEN.replace("$first", first).replace("$second", second)
        program = gathered + _PLACES[kind] + search + between
        if self.known.nan or kind != "quantile":
            program += "$own = $own if $at else $type(nan)"
        q = repr(self.reduce.quantile)
        return self.lines(program, q=q, rank=low, fraction=part, **words)


class Point(Operations):
    """Writes what is computed at a point; gathers the constants and buffers that this takes.

    `storage` are the types of fields and coefficients.
    """

    def __init__(
        self,
        known: dict[str, Interval],
        types: dict[str, str],
        storage: Mapping[str, np.dtype],
    ) -> None:
        super().__init__(known, types)
        self.storage = storage
        # Where reads stand that may be outside, in the user's file.
        self.places = list[str]()
        self.constants = list[str]()
        self.buffers = dict[str, str]()
        self.looks = False

    def element(self, field: str, origin: Offset, along: Mapping[int, str]) -> str:
        """An element so far from an offset along some axes."""
        raise NotImplementedError

    def written(self, name: str, expr: Expr) -> Iterator[str]:
        """The lines that compute one operation."""
        match expr:
            case Element():
                self._as_stored(name, expr.array)
                yield f"{name} = {expr.array}[{', '.join(map(str, expr.index))}]"
            case Reduce():
                yield from self._window(name, expr)
            case Gather():
                self._as_stored(name, expr.field)
                along = {
                    axis: self.atom(step, "int64")
                    for axis, step in enumerate(expr.index)
                    if step != Const(DType.INT, "0")
                }
                yield f"{name} = {self.element(expr.field, expr.offset, along)}"
            case Inside():
                yield from self._inside(name, expr)
            case Loop():
                yield from self._loop(name, expr)
            case Carried():
                self.declare(name, expr)
                own = Ref(expr.dtype, f"{expr.loop.name}_c{expr.number}")
                yield f"{name} = {self._as(own, Ref(expr.dtype, name))}"
            case _:
                yield f"{name} = {self.text(name, expr)}"

    def _as_stored(self, name: str, array: str) -> None:
        self.types[name] = computed(self.storage[array]).name

    def _as(self, atom: Atom, like: Atom) -> str:
        """An operand in the type of another."""
        return self.atom(atom, self.machine(like))

    # Windows.

    def _window(self, name: str, reduce: Reduce) -> list[str]:
        """A loop over the window, at this point; what is not written out comes here."""
        own = self.declare(name, reduce)
        inner = [self._item(name, assign, reduce) for assign in reduce.body]
        item, known = self.atom(reduce.result), window_range(reduce, self.known)
        window = Window(name, reduce, SHORT[own], inner, item, known)
        kind = reduce.kind
        if kind in RANKED:
            return self.ranked(window)
        total = window.short
        if kind == "mean":
            of = reduce.result.dtype if reduce.result.dtype.is_integer else reduce.dtype
            total = SHORT["int64" if of is DType.BOOL else of.numpy.name]
        return window.lines(
            _PROGRAMS[kind],
            total=total,
            count=window.count,
            divisor=max(0.0, window.count - reduce.quantile),
            extreme=_extreme("min" in kind, self.machine(reduce.result)),
        )

    def ranked(self, window: Window) -> list[str]:
        """The elements of some rank, of all elements in a buffer, or of those that are no NaN."""
        machine = self.machine(window.reduce.result)
        self.buffers[f"buffer_{window.name}"] = f"np.empty({window.count}, dtype=np.{machine})"
        gathered = _ALL if window.reduce.kind == "quantile" else _VALID
        two = (f"select($buffer, $at, {rank})" for rank in ("$low", "$low + 1"))
        return window.ranked(gathered, "", *two)

    def _item(self, name: str, assign: Assign, reduce: Reduce) -> str:
        """The line that makes an element of a window, or a part of that."""
        inner, expr = assign.name, assign.value
        dims = [f"d{axis}" for axis in range(len(reduce.shape))]
        if inner not in self.known:
            one = replace(reduce, result=Ref(expr.dtype, inner))
            self.known[inner] = window_range(one, self.known)
        match expr:
            case Read():
                places = self._picked(f"{inner}_{name}", expr, dims)
                self._as_stored(inner, expr.field)
                along = dict(zip(expr.axes, places, strict=True))
                last = len(expr.offset) - 1
                if expr.lanes > 1 and last in along:
                    along[last] = f"{expr.lanes} * {along[last]}"
                text = self.element(expr.field, expr.offset, along)
                return f"{inner} = {self._guarded(name, inner, reduce, text)}"
            case Weight():
                machine = self.types[inner] = machine_type(expr.dtype, self.known[inner])
                values = (Const(expr.dtype, text).value for text in expr.texts)
                texts = [number(machine, value) for value in values]
                table = self._table(f"{inner}_{name}", texts, machine)
                return f"{inner} = {table}[{_flat(reduce.shape)}]"
            case Element():
                self._as_stored(inner, expr.array)
                places = self._picked(f"{inner}_{name}", expr, dims)
                return f"{inner} = {expr.array}[{', '.join(places)}]"
            case _:
                text = self.text(inner, expr)
                if isinstance(expr, Binary) and expr.op == "*":
                    text = self._guarded(name, inner, reduce, text)
                return f"{inner} = {text}"

    def _guarded(self, name: str, inner: str, reduce: Reduce, text: str) -> str:
        """A value that is 0 where the result does not depend on it."""
        found = live(reduce, inner)
        if all(found):
            return text
        table = self._table(f"live_{inner}_{name}", map(str, found), "bool")
        other = number(self.types[inner], 0)
        return f"({text}) if {table}[{_flat(reduce.shape)}] else {other}"

    def _table(self, name: str, values: Iterable[str], dtype: str) -> str:
        """The name of a table of the text, which has these values."""
        texts = list(values)
        body = ",\n    ".join(", ".join(texts[i : i + 8]) for i in range(0, len(texts), 8))
        self.constants.append(f"{name} = np.array([\n    {body},\n], dtype=np.{dtype})")
        return name

    def _picked(self, name: str, expr: Read | Element, dims: list[str]) -> list[str]:
        """The index in the window, which tables say where elements are picked."""
        if not expr.picked:
            return dims
        axes = enumerate(zip(*expr.picked, strict=True))
        tables = [self._table(f"{name}_{axis}", map(str, at), "int64") for axis, at in axes]
        return [f"{table}[d0]" for table in tables]

    # Loops, and reads at computed offsets.

    def _loop(self, name: str, loop: Loop) -> Iterator[str]:
        self.declare(name, loop)
        bounds = turn_ranges(loop, self.known)
        turn = Ref(loop.index.dtype, f"{name}_n0")
        self.known[turn.name], self.types[turn.name] = bounds[loop.index.name], "int64"
        alias: dict[str, Atom] = {loop.index.name: turn}
        owns = [Ref(ref.dtype, f"{name}_c{k}") for k, (ref, _) in enumerate(loop.carried)]
        for own, (ref, atom), after in zip(owns, loop.carried, loop.next, strict=True):
            alias[ref.name] = own
            # The last turn may leave more than any turn begins with.
            last = bounds[ref.name] | interval(after, bounds)
            self.known[own.name] = bounds[ref.name]
            self.types[own.name] = machine_type(ref.dtype, last, self.least)
            yield f"{own.name} = {self._as(atom, own)}"
        yield f"{turn.name} = 0"
        body, results = copied(loop.body, loop.next, lambda own, _: f"{name}_{own}", alias=alias)
        lines = list[str]()
        for old, one in zip(loop.body, body, strict=True):
            self.known[one.name] = bounds[old.name]
            expr = _apart(one.value, one.name) if isinstance(one.value, Reduce) else one.value
            lines += self.written(one.name, expr)
        given = [self._as(atom, own) for atom, own in zip(results, owns, strict=True)]
        lines.append(f"{', '.join(own.name for own in owns)} = {', '.join(given)}")
        lines.append(f"{turn.name} = {turn.name} + 1")
        if not loop.most:
            self.looks = True
            lines += [
                "turns = turns - 1",
                "if turns == 0:",
                f"    turns = {EACH} if go_on(notes) else 1",
                "    if turns == 1:",
                f"        {owns[0].name} = False",
            ]
        yield f"while {owns[0].name}:"
        yield from indented(lines)

    def _inside(self, name: str, expr: Inside) -> Iterator[str]:
        """Note an index that is outside, and take one that is not."""
        low, high, active = expr.low, expr.high, self.atom(expr.active)
        self.types[name] = "int64"
        yield f"{name} = {self.atom(expr.index, 'int64')}"
        if interval(expr.index, self.known).within(Interval(low, high)):
            return
        if not expr.place:
            # It is inside wherever it is read.
            yield f"{name} = {name} if {active} else {high}"
            return
        self.looks = True
        if expr.place not in self.places:
            self.places.append(expr.place)
        yield f"if {name} < {low} or {name} > {high}:"
        yield f"    if {active}:"
        yield f"        note(notes, {self.places.index(expr.place) + 1}, {name})"
        yield "        turns = 1"
        yield f"    {name} = {high}"


def _extreme(least: bool, machine: str) -> str:
    """What every element replaces that is looked for as the least, or the greatest."""
    if machine == "bool":
        return str(least)
    if machine not in BITS:
        return f"{SHORT[machine]}({'inf' if least else '-inf'})"
    info = np.iinfo(machine)
    return f"{SHORT[machine]}({info.max if least else info.min})"


def filled(program: str, name: str, words: Mapping[str, object]) -> str:
    """A program in which `$word` is what is told of it, or a name of its own: `word_name`."""
    return _WORD.sub(lambda word: str(words.get(word[1], f"{word[1]}_{name}")), program)


def _flat(shape: Sequence[int]) -> str:
    """How many elements of a window come before that at d0, d1, ..."""
    text = "d0"
    for axis, length in enumerate(shape[1:], 1):
        text = f"({text})" if axis > 1 else text
        text = f"{text} * {length} + d{axis}"
    return text


def plus(*terms: str | int) -> str:
    """The sum of texts and numbers: `n + 2 * before1 - 3`."""
    text = " + ".join(one for one in terms if isinstance(one, str))
    step = sum(one for one in terms if isinstance(one, int))
    if not text or not step:
        return text or str(step)
    return f"{text} + {step}" if step > 0 else f"{text} - {-step}"


def indented(lines: Iterable[str]) -> list[str]:
    """Lines inside of something."""
    return ["    " + line for line in lines]


def _apart(reduce: Reduce, prefix: str) -> Reduce:
    """The reduction, with names inside its window that nothing else has."""
    body, (result,) = copied(reduce.body, (reduce.result,), lambda own, _: f"{prefix}_{own}")
    return replace(reduce, body=body, result=result)
