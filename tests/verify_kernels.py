"""What holds of every kernel, after whichever pass.

    t1 = t0 + 1.0        where t0 is an int       ->      AssertionError: t1: int and float64
    out = v0[0, 3]       where x reaches 2 only   ->      AssertionError: x[0, 3] beyond 2

A pass that breaks one of these is wrong, even where the numbers happen to be right.  This is
looked at after every pass; see `ninepoint.lowering.passes`.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from ninepoint.analysis.footprint import extents
from ninepoint.language import ir
from ninepoint.language.dtypes import value_type
from ninepoint.language.functions import FLOAT_FUNCTIONS
from ninepoint.language.ir import COMPARISONS, Atom, Body, Box, DType, Expr
from ninepoint.lowering.rolling import computed_at, full

# Operators whose operands need not have one type.
_MIXED = frozenset({"**", "<<", ">>"})


def verify(kernel: ir.Kernel, reach: Box | None = None) -> None:
    """Raise `AssertionError` for what no kernel may be; `reach` is how far it may look."""
    _Check(kernel).kernel()
    if reach is not None:
        _check_reach(kernel, reach)


class _Check:
    def __init__(self, kernel: ir.Kernel) -> None:
        self.whole = kernel
        self.arrays = {name: {value_type(dtype)} for name, dtype in kernel.fields}
        self.shapes = {name: (value_type(d), shape) for name, d, shape in kernel.coefficients}
        self.scalars = dict(kernel.scalars)
        self.taken: set[str] = set()
        self.loops: dict[str, ir.Loop] = {}

    def kernel(self) -> None:
        whole = self.whole
        self.take((*self.arrays, *self.shapes, *self.scalars))
        for stage in whole.stages:
            # A stage reads fields and what earlier ones made: there is no way round.
            self.stage(stage)
        assert whole.outputs, "a kernel gives something"
        self.body(whole.body, whole.outputs, self.scalars)
        assert whole.rows >= 1, whole.rows
        assert not whole.every or len(whole.every) == whole.ndim, whole.every
        assert all(step >= 1 for step in whole.every), whole.every
        self.places()

    def places(self) -> None:
        """What no call gives: the last of the fields, and the last of the scalars."""
        whole = self.whole
        first = len(whole.fields) - len(whole.positions)
        for (name, dtype), one in zip(whole.fields[first:], whole.positions, strict=True):
            assert 0 <= one.axis < whole.ndim, f"{name}: axis {one.axis}"
            assert dtype.kind in "iu", f"{name}: a position of {dtype}"
        first = len(whole.scalars) - len(whole.lengths)
        for (name, kind), axis in zip(whole.scalars[first:], whole.lengths, strict=True):
            assert 0 <= axis < whole.ndim, f"{name}: axis {axis}"
            assert kind is DType.INT, f"{name}: a length of {kind}"

    def take(self, names: Iterable[str]) -> None:
        for name in names:
            assert name.isidentifier(), f"{name!r} is no name"
            assert name not in self.taken, f"{name!r} means two things"
            self.taken.add(name)

    def stage(self, stage: ir.Stage) -> None:
        assert len(stage.names) == len(stage.values), stage
        self.body(stage.body, stage.values, self.scalars)
        self.take(stage.names)
        if isinstance(stage, ir.Histogram):
            assert len(stage.names) == 1, stage
            count = sum(length for *_, length in stage.runs)
            assert 0 <= stage.rank <= count - len(stage.names), f"rank {stage.rank} of {count}"
            most = max(self.whole.ndim, 2) + 1
            assert all(3 <= len(run) <= most for run in stage.runs), stage
        if isinstance(stage, ir.State):
            assert len(stage.storage) == len(stage.names), stage
        for k, name in enumerate(stage.names):
            if isinstance(stage, ir.State):
                self.arrays[name] = {value_type(stage.storage[k])}
            elif stage.values[k].dtype.is_integer:
                # Kept as narrow as its range is, and read as what its array would hold.
                self.arrays[name] = {DType.BOOL, DType.INT, DType.UINT}
            else:
                self.arrays[name] = {stage.values[k].dtype}

    def body(
        self,
        body: Body,
        values: Iterable[Atom],
        known: Mapping[str, DType],
        within: ir.Reduce | ir.Loop | None = None,
    ) -> None:
        """Operations and what they give; those within another one have names of their own."""
        known = dict(known)
        for assign in body:
            if within is None:
                self.take((assign.name,))
            assert assign.name not in known, f"{assign.name!r} means two things"
            self.expression(assign.name, assign.value, known, within)
            known[assign.name] = assign.value.dtype
        for value in values:
            _check_atom("a result", value, known)

    def expression(
        self, name: str, expr: Expr, known: Mapping[str, DType], within: ir.Reduce | ir.Loop | None
    ) -> None:
        for atom in ir.atoms(expr):
            _check_atom(name, atom, known)
        shape = within.shape if isinstance(within, ir.Reduce) else None
        match expr:
            case ir.Reduce() if shape is not None:
                raise AssertionError(f"{name}: {expr} inside of a window")
            case ir.Read():
                self.read(name, expr, expr.field, expr.offset)
                assert expr.picked or len(expr.axes) == len(shape or ()), expr
            case ir.Weight():
                assert shape is not None, f"{name} stands outside of a window"
                assert len(expr.texts) == math.prod(shape), expr
            case ir.Element() if shape is not None:
                assert expr.array in self.shapes, expr
                assert not expr.index, expr
            case ir.Element():
                dtype, shape = self.shapes[expr.array]
                assert expr.dtype is dtype, f"{name} reads {expr.array} as {expr.dtype}"
                inside = len(expr.index) == len(shape) and all(
                    0 <= i < n for i, n in zip(expr.index, shape, strict=True)
                )
                assert inside, f"{name}: {expr.array}{expr.index} of {shape}"
            case ir.Reduce():
                self.body(expr.body, [expr.result], known, expr)
            case ir.Gather():
                self.read(name, expr, expr.field, expr.offset)
                assert all(atom.dtype is DType.INT for atom in expr.index), f"{name}: {expr.index}"
            case ir.Inside():
                assert expr.dtype is expr.index.dtype is DType.INT, f"{name}: {expr}"
                assert expr.active.dtype is DType.BOOL, f"{name}: {expr.active}"
            case ir.Loop():
                self.loop(name, expr, known)
            case ir.Carried():
                carried = self.loops[expr.loop.name].carried
                assert expr.number < len(carried), f"{name}: {expr.number} of {len(carried)}"
                assert carried[expr.number][0].dtype is expr.dtype, f"{name}: {expr}"
            case _:
                _check_types(name, expr)

    def loop(self, name: str, loop: ir.Loop, known: Mapping[str, DType]) -> None:
        inner = {**known, loop.index.name: loop.index.dtype}
        assert loop.index.dtype is DType.INT, name
        assert len(loop.next) == len(loop.carried) > 0, name
        for (ref, before), after in zip(loop.carried, loop.next, strict=True):
            assert ref.dtype is before.dtype is after.dtype, f"{name}: {ref}, {before}, {after}"
            assert ref.name not in inner, f"{ref.name!r} means two things"
            inner[ref.name] = ref.dtype
        assert loop.carried[0][0].dtype is DType.BOOL, name
        self.body(loop.body, loop.next, inner, loop)
        self.loops[name] = loop

    def read(self, name: str, expr: ir.Read | ir.Gather, field: str, offset: ir.Offset) -> None:
        assert field in self.arrays, f"{name} reads {field}, which is not made yet"
        assert len(offset) == self.whole.ndim, f"{name}: {field}{offset}"
        assert expr.dtype in self.arrays[field], f"{name} reads {field} as {expr.dtype}"


def _check_atom(user: str, atom: Atom, known: Mapping[str, DType]) -> None:
    if isinstance(atom, ir.Const):
        return
    assert atom.name in known, f"{user} uses {atom.name}, which is not known yet"
    assert atom.dtype is known[atom.name], f"{user} takes {atom.name} for {atom.dtype}"


def _check_types(name: str, expr: Expr) -> None:
    """Whether an operation and its operands have types that go together."""
    types = [atom.dtype for atom in ir.atoms(expr)]
    match expr:
        case ir.Binary():
            same = expr.op in _MIXED or all(a is b for a, b in pairwise(types))
            assert same, f"{name}: {types}"
            assert expr.op not in COMPARISONS or expr.dtype is DType.BOOL, name
        case ir.Select():
            assert types[0] is DType.BOOL, f"{name}: chosen by {types[0]}"
            assert types[1] is types[2] is expr.dtype, f"{name}: {types}"
        case ir.Unary(op="not"):
            assert types[0] is DType.BOOL, f"{name}: not of {types[0]}"
        case ir.Call():
            row = FLOAT_FUNCTIONS.get(expr.function)
            count = row.arguments if row else 2 if expr.function == "complex" else 1
            assert len(types) == count, f"{name}: {expr}"
            alike = expr.dtype is DType.BOOL or expr.function == "complex"
            assert alike or all(one is expr.dtype for one in types), f"{name}: {types}"
            assert not any(one.is_integer for one in types), f"{name}: {types}"
        case _:
            pass


def _check_reach(kernel: ir.Kernel, reach: Box) -> None:
    """Whether no field is read farther from a point of the result than `reach` says."""
    fields = {name for name, _ in kernel.fields}
    allowed = Box(full(reach.lo), full(reach.hi))
    for body, at in computed_at(kernel):
        for assign in body:
            for field, least, most in extents(assign.value):
                looks = at.shift(full(least)) | at.shift(full(most))
                inside = field not in fields or looks | allowed == allowed
                assert inside, f"{assign.name}: {field}{least}..{most} beyond {reach}"
