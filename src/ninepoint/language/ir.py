"""The stencil IR: what a kernel computes at one point, and nothing about how.

A `Kernel` is a line of named assignments, each of one operation, and the values that are its
outputs.  There are no borders and no schedule here.

    kernel := Kernel(fields, scalars, coefficients, body, outputs)      body := Assign(name, expr)*
    atom   := Const | Ref
    expr   := Read(field, offset) | Unary(op, atom) | Binary(op, atom, atom)
            | Select(atom, atom, atom) | Cast(atom) | Call(function, atom*) | Element(array, index)
            | Reduce(kind, shape, body, result) | Gather(field, offset, index, low, high)
            | Inside(index, low, high, active)
            | Loop(carried, body, next) | Carried(loop, number)
    and, only inside the body of a `Reduce`, which is computed at each index of its window,
            | Weight(values)

An operation takes atoms only, so every sub-expression has one name, equal operations are one
assignment, and an analysis is one walk down the list.  Nodes are frozen, typed from birth,
and compare by value.

Glossary: a *field* is an array read relative to the point; a *coefficient* is a small array
read absolutely; an *offset* is a whole number of steps for each core axis; a *window* is a box
of offsets; *reach* is the box of all offsets an output needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from itertools import starmap, zip_longest
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from ..base.frozen import frozen
from .dtypes import DType as DType
from .dtypes import value_type

Value = TypeVar("Value")
Offset: TypeAlias = tuple[int, ...]
# The least and the greatest offset along each axis, as a user declares them.
Neighborhood: TypeAlias = tuple[tuple[int, int], ...]

# The farthest that a kernel may look: what is prepared for a border has a place for each step.
FAR = 2**31

# The least and the greatest position: a local may ask for it at another point, and no array has
# more elements.
LEAST, GREATEST = -2 * FAR, 2**53

UnaryOp: TypeAlias = Literal["-", "~", "not", "abs", "real", "imag", "conj"]
BinaryOp: TypeAlias = Literal[
    "+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "minimum", "maximum", "round",
    "<", "<=", ">", ">=", "==", "!=",
]  # fmt: skip
ReduceKind: TypeAlias = Literal[
    "sum", "prod", "mean", "var", "min", "max", "any", "all", "argmin", "argmax", "quantile",
    "nanquantile", "nanrank",
]  # fmt: skip
# Those for which the elements are put in order.
RANKED: frozenset[str] = frozenset({"quantile", "nanquantile", "nanrank"})
# What each comparison is with its operands exchanged.
MIRRORED: dict[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
COMPARISONS = frozenset(MIRRORED)


@frozen
class Box:
    """All offsets o with lo[axis] <= o[axis] <= hi[axis]; it need not hold the point itself."""

    lo: Offset
    hi: Offset

    @property
    def ndim(self) -> int:
        """How many axes the offsets have."""
        return len(self.lo)

    @property
    def ends(self) -> tuple[Offset, Offset]:
        """The least and the greatest offsets."""
        return self.lo, self.hi

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """How many neighbours it holds before the point and after it, axis by axis."""
        return tuple((max(0, -lo), max(0, hi)) for lo, hi in zip(*self.ends, strict=True))

    def shift(self, by: Offset) -> Box:
        """Move every offset by `by`."""
        return Box(added(self.lo, by), added(self.hi, by))

    def __or__(self, other: Box) -> Box:
        """Join: the smallest box that holds both."""
        return Box(tuple(map(min, self.lo, other.lo)), tuple(map(max, self.hi, other.hi)))


def joined(boxes: Sequence[Box]) -> Box:
    """The smallest box that holds all of them; there is at least one."""
    return reduce(Box.__or__, boxes)


@frozen
class Const:
    """A number, kept as its shortest text so that 0.0 and -0.0 never compare equal."""

    dtype: DType
    text: str

    @property
    def value(self) -> Any:
        """The number itself, as Python's."""
        if self.dtype is DType.BOOL:
            return self.text == "True"
        if self.dtype.is_integer:
            return int(self.text)
        return float(self.text) if self.dtype.is_float else complex(self.text)


@frozen
class Ref:
    """The value of an earlier assignment, or of a scalar argument."""

    dtype: DType
    name: str


Atom: TypeAlias = Const | Ref
Atoms: TypeAlias = tuple[Atom, ...]


@frozen
class Read:
    """The element of a field, `offset` steps away from the point.

    Inside a window it is as many steps further as the window's index says.  `axes` says along
    which core axis each axis of the window runs: x[0, -1:2] is a window of one axis, which runs
    along the second.  Where elements are `picked` the reduction is over these alone, along one
    axis: each is an index of the window.  A step along the last core axis is `lanes` elements;
    more than one only where the lowering has interleaved them.
    """

    dtype: DType
    field: str
    offset: Offset
    axes: Offset = ()
    picked: tuple[Offset, ...] = ()
    lanes: int = 1

    def place(self, index: Offset) -> Offset:
        """The offset of the element at `index` in the window."""
        moved = list(self.offset)
        index = self.picked[index[0]] if self.picked else index
        for axis, step in zip(self.axes, index, strict=True):
            moved[axis] += step * self.lanes if axis == len(moved) - 1 else step
        return tuple(moved)


@frozen
class Unary:
    """`op arg`."""

    dtype: DType
    op: UnaryOp
    arg: Atom


@frozen
class Binary:
    """`left op right`; both operands have the same type, save for `**`, `<<` and `>>`.

    `minimum` and `maximum` propagate NaN.  A comparison has the type BOOL.  `round` gives the
    multiple of `right`, a constant, that is nearest to an integer, the even one of two.

    Of a `loose` comparison, minimum or maximum any answer will do where an operand is NaN, and
    where both are zeros: of an extreme either operand, or NaN where one is NaN.
    """

    dtype: DType
    op: BinaryOp
    left: Atom
    right: Atom
    loose: bool = False


@frozen
class Select:
    """`then` where `test` holds and `other` elsewhere."""

    dtype: DType
    test: Atom
    then: Atom
    other: Atom


@frozen
class Cast:
    """The value as another type; a float becomes an integer by truncation, saturating.

    `storage` names a narrower integer type to wrap to (from integers) or saturate at (from
    floats), as in `np.uint8(v)`; it is empty for the exact types.  With that of a float of
    16 bits a float is rounded to it, and stays one of F32.
    """

    dtype: DType
    arg: Atom
    storage: str = ""


@frozen
class Call:
    """A scalar function of NumPy's vocabulary, on floats or complex numbers."""

    dtype: DType
    function: str
    args: Atoms


@frozen
class Element:
    """The element of a coefficient array at a constant, absolute index.

    Inside a window it is that at the window's index, and has none itself.  Of some elements
    `picked` says which they are, as for a `Read`.
    """

    dtype: DType
    array: str
    index: Offset = ()
    picked: tuple[Offset, ...] = ()


@frozen
class Weight:
    """Inside a window: the element of a constant array at the window's index (C order)."""

    dtype: DType
    texts: tuple[str, ...]


@frozen
class Reduce:
    """One number from the values that `body` gives `result` at every index of a window.

    `shape` is the window's; `quantile` is the fraction in 0..1 for that kind, and for a
    "nanquantile", which leaves NaN out.  Of a "nanrank" it is a percentage q: of the n floats
    that are no NaN, in order, it is the one at `int(n * q / 100)`, or the last.
    A product with a `Weight` that is zero is zero, whatever the other factor.
    A "sum" of integers whose `dtype` is a float is one that does not wrap.
    """

    dtype: DType
    kind: ReduceKind
    shape: Offset
    body: Body
    result: Atom
    quantile: float = 0.0


@frozen
class Gather:
    """The element of a field that is `index` steps away from `offset`.

    The index is known at run time only; it is within `low` .. `high`.
    """

    dtype: DType
    field: str
    offset: Offset
    index: Atoms
    low: Offset
    high: Offset


@frozen
class Inside:
    """An index within `low` .. `high`.

    Where the point is `active` and it is not, that is an error of the user's, who reads there at
    `place`; where it surely is, that is empty.
    """

    dtype: DType
    index: Atom
    low: int
    high: int
    active: Atom
    place: str


@frozen
class Loop:
    """Turns of a `body`, as long as the first of the values that are `carried` is true.

    Each of those has a name in the body, and a value before the first turn; `next` are the values
    after a turn.  `index` is the number of the turn, from 0.  There are no more than `most` turns,
    if that is not 0.  The names are known inside only.
    """

    carried: tuple[tuple[Ref, Atom], ...]
    body: Body
    next: Atoms
    index: Ref
    most: int = 0

    @property
    def dtype(self) -> DType:
        """The type of its first value, which is false at the end."""
        return DType.BOOL


@frozen
class Carried:
    """One of the values that a loop carries, after its last turn."""

    dtype: DType
    loop: Ref
    number: int


Expr: TypeAlias = (
    Read | Unary | Binary | Select | Cast | Call | Element | Weight | Reduce
    | Gather | Inside | Loop | Carried
)  # fmt: skip

# What may find a mistake of the user's, or never end, while it is computed.
Noting: TypeAlias = Inside | Loop


@frozen
class Assign:
    """`name = value` at every point.  A name is assigned once."""

    name: str
    value: Expr


Body: TypeAlias = tuple[Assign, ...]

# Operations by their names.
Named: TypeAlias = Mapping[str, Expr]

# Writes an operation, and gives the operand that it is for others.
Emit: TypeAlias = Callable[[Expr], Atom]


@frozen
class Values:
    """Values kept in rows: computed once at each point, and read at several offsets.

    `names` are read like fields, one for each of `values`.
    """

    names: tuple[str, ...]
    body: Body
    values: Atoms


@frozen
class Histogram:
    """The element of rank `rank` of a window of a field; NaN where an element is.

    `element` reads the first element of the window.  Its `runs` along the last axis are each the
    steps to it along axes before, its first column and its length, counted from that element.
    """

    names: tuple[str, ...]
    element: Assign
    rank: int
    runs: tuple[Offset, ...]

    @property
    def read(self) -> Read:
        """The read of the window's first element."""
        assert isinstance(self.element.value, Read), self.element
        return self.element.value

    @property
    def body(self) -> Body:
        """What says which values there can be: those of an element."""
        return (self.element,)

    @property
    def values(self) -> Atoms:
        """An element."""
        return (Ref(self.element.value.dtype, self.element.name),)


@frozen
class State:
    """A state between two steps, kept as an array of the types `storage` would be.

    The border's rule is put at the ends of the array and beyond them: any of the state's own
    values, zeros, and if it is `unbounded` any value of its storage.
    """

    names: tuple[str, ...]
    body: Body
    values: Atoms
    storage: tuple[np.dtype, ...]
    unbounded: bool = False


# What is computed before the result, and read at offsets: it reads fields and earlier stages.
# Only the lowering makes stages.
Stage: TypeAlias = Values | Histogram | State


@frozen
class Position:
    """What a field is that no call gives: where in the whole array the point is, along an axis.

    That is its place among the elements of the fields, or among the results.
    """

    axis: int
    among: Literal["elements", "results"]

    @property
    def words(self) -> str:
        """What to call it."""
        return f"index along axis {self.axis}{'' if self.among == 'elements' else ' of results'}"


# What is given for a parameter where a kernel is read, and names what was compiled.


class _Argument:
    """What is given for a parameter."""

    __slots__ = ()
    name: str

    @property
    def label(self) -> str:
        """Its name in the kernel, and in texts: no name of ours ends in an underscore."""
        return f"{self.name}_"


class _Stored(_Argument):
    __slots__ = ()
    storage: np.dtype

    @property
    def dtype(self) -> DType:
        """The type of its elements once they are read."""
        return value_type(self.storage)


@frozen
class Field(_Stored):
    """A parameter that is read relative to the point.

    In a function of numbers it is read at the point itself (`pointwise`), where it is the number
    that its name stands for.
    """

    name: str
    storage: np.dtype
    pointwise: bool = False


@frozen
class Coefficients(_Stored):
    """A parameter that is a small array read absolutely."""

    name: str
    storage: np.dtype
    shape: tuple[int, ...]


@frozen
class Scalar(_Argument):
    """A parameter that is a number; a weak one is Python's."""

    name: str
    dtype: DType
    weak: bool = False


Argument: TypeAlias = Field | Coefficients | Scalar


@frozen
class Kernel:
    """One whole kernel, for given types of its arguments.

    Invariants: a `Ref` names a scalar or an earlier assignment; a `Read` names a field or a
    stage; every offset has `ndim` entries.  `fields` and `coefficients` pair each
    name with its storage type, `scalars` each name with its value type; as a kernel is read,
    its last scalars are the lengths of the whole array along some axes, which `lengths` names, and
    its last fields the `positions`, which are read at the point itself; as a part of another
    kernel, at the points of its stage.  No call gives either.  The loops make `rows`
    rows of the result at once; only the lowering asks for more than one.  Result p is made at
    point `every` * p, where that is not empty.
    """

    ndim: int
    fields: tuple[tuple[str, np.dtype], ...]
    scalars: tuple[tuple[str, DType], ...]
    coefficients: tuple[tuple[str, np.dtype, Offset], ...]
    body: Body
    outputs: Atoms
    stages: tuple[Stage, ...] = ()
    rows: int = 1
    lengths: Offset = ()
    positions: tuple[Position, ...] = ()
    every: Offset = ()

    @property
    def given(self) -> tuple[tuple[str, np.dtype], ...]:
        """The fields that a call gives: the others are positions."""
        return self.fields[: len(self.fields) - len(self.positions)]

    @property
    def placed(self) -> tuple[tuple[str, Position], ...]:
        """The names of the fields that are positions, and which these are."""
        names = [name for name, _ in self.fields[len(self.given) :]]
        return tuple(zip(names, self.positions, strict=True))

    @property
    def stage_names(self) -> list[str]:
        """The names of all that its stages make."""
        return [name for stage in self.stages for name in stage.names]


@dataclass(eq=False)
class Lines:
    """Assignments, numbered; the same operation is assigned once."""

    prefix: str
    names: dict[Expr, Ref] = field(default_factory=dict, init=False)
    values: dict[str, Expr] = field(default_factory=dict, init=False)

    @property
    def body(self) -> Body:
        """The assignments, in order."""
        return tuple(starmap(Assign, self.values.items()))

    def emit(self, expr: Expr) -> Ref:
        """The name of the assignment that holds `expr`."""
        found = self.names.get(expr)
        if found is None:
            found = self.names[expr] = Ref(expr.dtype, f"{self.prefix}{len(self.values)}")
            self.values[found.name] = expr
        return found


# The parts of each operation that are operands.
_OPERANDS = {
    kind: [part.name for part in fields(kind) if part.type in ("Atom", "Atoms", "Ref")]
    for kind in get_args(Expr)
}


def atoms(expr: Expr) -> Atoms:
    """The operands of `expr` that lie outside it, from left to right."""
    found: Atoms = ()
    inner: set[str] = set()
    match expr:
        case Reduce():
            results: Atoms = (expr.result,)
        case Loop():
            found, results = tuple(atom for _, atom in expr.carried), expr.next
            inner = {expr.index.name, *(ref.name for ref, _ in expr.carried)}
        case _:
            for name in _OPERANDS[type(expr)]:
                part = getattr(expr, name)
                found += part if isinstance(part, tuple) else (part,)
            return found
    inner |= {assign.name for assign in expr.body}
    used = (*(a for assign in expr.body for a in atoms(assign.value)), *results)
    return found + tuple(a for a in used if not (isinstance(a, Ref) and a.name in inner))


def named(body: Iterable[Assign]) -> dict[str, Expr]:
    """The operations by their names."""
    return {assign.name: assign.value for assign in body}


def names_of(values: Iterable[Atom]) -> list[str]:
    """The names among operands."""
    return [value.name for value in values if isinstance(value, Ref)]


def operands(expr: Expr) -> list[str]:
    """The names that an operation uses."""
    return names_of(atoms(expr))


def made_as(atom: Atom, values: Named) -> Expr | None:
    """The operation that makes an operand, if it is one of these."""
    return values.get(atom.name) if isinstance(atom, Ref) else None


def _renamed_part(part: Any, alias: Mapping[str, Atom]) -> Any:
    if isinstance(part, Ref):
        return alias.get(part.name, part)
    if isinstance(part, tuple):
        return tuple(_renamed_part(one, alias) for one in part)
    return Assign(part.name, renamed(part.value, alias)) if isinstance(part, Assign) else part


def renamed(expr: Expr, alias: Mapping[str, Atom]) -> Expr:
    """The operation with other operands in the place of some names."""
    if not _OPERANDS[type(expr)]:
        return expr
    # `replace` takes several times as long, and every pass comes here.
    return type(expr)(*(_renamed_part(getattr(expr, n), alias) for n in expr.__match_args__))


def replayed(
    body: Iterable[Assign],
    values: Iterable[Atom],
    emit: Callable[[str, Expr], Atom],
    alias: Mapping[str, Atom] | None = None,
) -> Atoms:
    """What some values become, where `emit` says of each operation what becomes of it.

    It is given the operation's old name.  `alias` says what became of names from outside.
    """
    known = dict(alias or {})
    for assign in body:
        known[assign.name] = emit(assign.name, renamed(assign.value, known))
    return tuple(_renamed_part(value, known) for value in values)


def mapped(body: Iterable[Assign], change: Callable[[Expr], Expr]) -> Body:
    """The operations, each changed, under their names."""
    return tuple(Assign(assign.name, change(assign.value)) for assign in body)


def deeply(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The operation changed, after what stands inside it."""
    if isinstance(expr, Reduce | Loop):
        expr = replace(expr, body=mapped(expr.body, lambda inner: deeply(inner, change)))
    return change(expr)


def shifted(expr: Expr, by: Offset) -> Expr:
    """The operation at the point that lies `by` from here."""

    def moved(one: Expr) -> Expr:
        if isinstance(one, Read | Gather):
            return replace(one, offset=added(one.offset, by))
        return one

    return deeply(expr, moved)


def within(body: Iterable[Assign]) -> Iterator[Assign]:
    """All assignments, also those in the bodies of loops."""
    for assign in body:
        yield assign
        if isinstance(assign.value, Loop):
            yield from within(assign.value.body)


def needed(body: Iterable[Assign], wanted: Iterable[Atom]) -> Body:
    """The assignments that some values need, in order.

    A loop is needed as a whole: what it carries for nobody costs nothing once it is compiled.
    """
    names = {*names_of(wanted)}
    kept: list[Assign] = []
    for assign in reversed(tuple(body)):
        if assign.name in names:
            kept.append(assign)
            names.update(operands(assign.value))
    return tuple(reversed(kept))


def added(one: Offset, other: Offset) -> Offset:
    """The offset that is one after the other."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def at_index(expr: Expr, index: Offset, position: int) -> Expr | Const:
    """What an operation in a window is at an index of it, the element of this position."""
    match expr:
        case Read():
            return Read(expr.dtype, expr.field, expr.place(index))
        case Weight():
            return Const(expr.dtype, expr.texts[position])
        case Element():
            picked = expr.picked
            return Element(expr.dtype, expr.array, picked[index[0]] if picked else index)
        case _:
            return expr


def zero_product(expr: Expr, values: Named, position: int) -> Const | None:
    """The zero that a product in a window is where its constant weight is, or None."""
    for side in (expr.left, expr.right) if isinstance(expr, Binary) and expr.op == "*" else ():
        made = made_as(side, values)
        if isinstance(made, Cast):
            made = made_as(made.arg, values)
        if isinstance(made, Weight) and not Const(made.dtype, made.texts[position]).value:
            return Const(expr.dtype, "0" if expr.dtype.is_integer else "0.0")
    return None


def at_each(reduce: Reduce, value: Callable[[int], Value]) -> list[Value]:
    """A value for each position of a window, computed once for those with the same weights."""
    weights = [one.value.texts for one in reduce.body if isinstance(one.value, Weight)]
    kinds = [*zip(*weights, strict=True)] or [()] * math.prod(reduce.shape)
    found: dict[tuple[str, ...], Value] = {}
    for position, kind in enumerate(kinds):
        if kind not in found:
            found[kind] = value(position)
    return [found[kind] for kind in kinds]


# Networks: numbers put in order by comparators, the same whatever the numbers are.  Where one is
# NaN the order is any: what is wanted of it asks for NaN by itself.


def sort(items: Sequence[Atom], emit: Emit) -> list[Atom]:
    """The elements in order: two halves in order, merged."""
    if len(items) < 2:
        return list(items)
    half = (len(items) + 1) // 2
    return merge(sort(items[:half], emit), sort(items[half:], emit), emit)


def exchange(a: Atom, b: Atom, emit: Emit) -> tuple[Atom, Atom]:
    """The lesser and the greater; LLVM makes one instruction of each."""
    low = emit(Binary(a.dtype, "minimum", b, a, loose=True))
    return low, emit(Binary(a.dtype, "maximum", a, b, loose=True))


def merge(a: Sequence[Atom], b: Sequence[Atom], emit: Emit) -> list[Atom]:
    """Two ordered lists as one: Batcher's odd-even merge, for any lengths.

    Source: D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.3.4.
    """
    if not a or not b:
        return [*a, *b]
    if len(a) == 1 and len(b) == 1:
        return list(exchange(a[0], b[0], emit))
    even, odd = merge(a[::2], b[::2], emit), merge(a[1::2], b[1::2], emit)
    merged = [even[0]]
    for low, high in zip_longest(odd, even[1:]):
        merged += exchange(low, high, emit) if low and high else [low or high]
    return merged
