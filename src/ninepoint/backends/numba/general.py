"""The general path: kernels that are not analysed, as functions that Numba compiles.

    s = np.sort(x[-1:2])                ->      def ranked(x, ...):  the user's text
    return s[0] + s[1]                          def band(x, out0, outside):  that at every place

The user's functions are kept as they stand, with Numba's rules for numbers.  A field is of a type
of its own (`relative.Seen`), whose index is an offset from the point; a function of numbers is
given the elements themselves.  Numba infers what a point gives, and compiles the band when it
first runs.
"""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numba import from_dtype, njit, types
from numba.np.numpy_support import as_dtype

from ...base.remembered import digest
from ...base.undisturbed import undisturbed
from ...language.control import refuse
from ...language.definitions import (
    Function,
    dotted,
    indexed_parameters,
    meaning,
    passed,
    returned_values,
    with_helpers,
)
from ...language.dtypes import common, computed
from ...language.errors import Span, here, mistake
from ...language.ir import Argument, Box, Coefficients, Field, Kernel, Scalar, joined
from ...language.source import live_names
from ...language.statistics import in_order
from ...language.subscripts import ends_of
from ...language.values import constant, reading, several, wrapped
from ...lowering.schedule import Request
from ...lowering.storage import misfit
from .. import cache
from ..compiled import Compiled, Loaded, Module
from ..pipeline import check_outputs, compiled_of
from . import cpu, relative
from .users import Kept, explained, first_use, jitted, reason

# What Numba has for arrays only, or not as NumPy has it; and what it has not along an axis.
_OURS: dict[Any, Any] = {
    np.where: relative.chosen,
    np.clip: relative.clipped,
    np.sort: relative.ordered,
    np.median: relative.middle,
    in_order: relative.in_order,
}
_ALONG = "max amax min amin mean median std var prod any all ptp".split()

# What `relative.along` is called, which is no name of a user's.
_OWN = "#along"

# Turns up to which a loop is followed to see how far it reads.
_TURNS = 1000


def compile_general(
    function: Function,
    arguments: Mapping[str, Argument],
    request: Request,
) -> Compiled:
    """Compile a kernel that is not analysed.

    Raises
    ------
    StencilError
        If it holds a mistake, or something that Numba cannot compile.
    ValueError
        If `dtypes` do not fit what it gives.
    """
    for one in with_helpers(function):
        refuse(one)
    kinds = Arguments(arguments)
    box = Box((), ()) if kinds.pointwise else _looks(function, kinds, request)
    told = meaning(function), tuple(arguments.items()), request.neighborhood, request.fastmath
    token = digest(told)
    made, result = undisturbed(lambda: _inferred(function, kinds, box, token, request))
    given, several = _results(result, function, kinds)
    check_outputs(function.name, len(given), request)
    natural = [common(d, f.storage) for d, f in zip(given, kinds.fields, strict=False)]
    dtypes = request.dtypes or tuple(natural if request.kept else given)
    for dtype, storage in zip(given, dtypes, strict=True):
        if dtype.kind == "c" and storage.kind != "c":
            raise ValueError(f"dtype={storage} cannot hold the complex result of this kernel.")
        fits = storage.kind not in "iu" or np.can_cast(dtype, storage)
        if not fits and request.overflow is None:
            info = np.iinfo(dtype) if dtype.kind in "iu" else None
            raise misfit(storage, "any float" if info is None else f"{info.min} to {info.max}")
    band = "\n".join(kinds.band(len(given), several, request.overflow)) + "\n"
    title = f'"""{function.name}, on the general path: written by ninepoint for {token[:24]}."""'
    texts = (ast.unparse(one.definition) for one in with_helpers(function))
    text = "\n\n\n".join([title, f"point = {function.name}", *texts, band])
    where = f"{function.place.file}|{function.place.line}"
    places = tuple(f"{axis}|{where}" for axis in range(box.ndim))
    module = Module(text, checked=True, places=places, opaque=partial(_loaded, made, band))
    # Nobody knows what it does, but what it is given.
    kernel = Kernel(
        box.ndim,
        tuple((one.name, one.storage) for one in kinds.fields),
        tuple((one.name, one.dtype) for one in kinds.scalars),
        tuple((one.name, one.storage, one.shape) for one in kinds.tables),
        (),
        (),
    )
    reaches = (box,) * len(given)
    return compiled_of(kernel, function.name, module, reaches, dtypes, request.fastmath)


class Arguments:
    """What a kernel is given, in its order."""

    def __init__(self, given: Mapping[str, Argument]) -> None:
        self.given = given

        def named(kind: Any) -> list[Any]:
            return [one for one in self.given.values() if isinstance(one, kind)]

        self.fields, self.tables, self.scalars = map(named, (Field, Coefficients, Scalar))
        self.pointwise = any(one.pointwise for one in self.fields)

    def types(self, box: Box) -> Iterator[Any]:
        """Numba's types of them, of a kernel that looks so far."""
        for argument in self.given.values():
            match argument:
                case Field(storage=storage, pointwise=True):
                    yield from_dtype(_exact(storage))
                case Field(storage=storage):
                    elements = from_dtype(computed(storage))
                    block = types.Array(elements, box.ndim + 1, "A", readonly=True)
                    yield relative.Seen(block, box)
                case Coefficients(storage=storage, shape=shape):
                    yield types.Array(from_dtype(_exact(storage)), len(shape), "C")
                case Scalar(dtype=dtype):
                    yield from_dtype(dtype.numpy)

    def band(self, outputs: int, several: bool, overflow: str | None) -> Iterator[str]:
        """What computes a block, for a number of outputs, and stores them by that rule."""
        outs = [f"out{n}" for n in range(outputs)]
        # What users named ends in an underscore, as nothing else does.
        fields, tables, scalars = (
            [f"{one.name}_" for one in ones] for ones in (self.fields, self.tables, self.scalars)
        )
        yield f"def band({', '.join([*fields, *outs, *tables, *scalars, 'outside'])}):"
        yield from (f"    {n} = wide({n})" for n in tables)
        yield "    for at in np.ndindex(out0.shape):"
        yield "        go_on(outside)"
        seen = "wide({}_[at])" if self.pointwise else "seen({}_, at, outside)"
        pairs = self.given.items()
        given = [(seen if isinstance(one, Field) else "{}_").format(n) for n, one in pairs]
        yield f"        value = point({', '.join(given)})"
        for n, out in enumerate(outs):
            one = f"value[{n}]" if several else "value"
            yield f"        {out}[at] = {f'{overflow}({one}, {out})' if overflow else one}"


def _exact(dtype: np.dtype) -> np.dtype:
    """The type that elements are computed in: integers of less than 64 bits become int64."""
    narrow = dtype.kind in "iu" and dtype != np.uint64
    return np.dtype(np.int64) if narrow else computed(dtype)


# How far it looks.


def _looks(function: Function, kinds: Arguments, request: Request) -> Box:
    """The box that is declared, or that holds all reads whose offsets the text says.

    Each read is checked when it happens too: one that nobody sees here is an error then.
    """
    declared, boxes = request.neighborhood, list[Box]()
    reading.neighborhood = declared
    reading.count = None if declared is None else len(declared)
    names = {one.name for one in kinds.fields}
    for node, offsets in _reads(function, names, follow=declared is None):
        name = ast.unparse(node.value)
        if not isinstance(node.ctx, ast.Load):
            raise mistake("assigned-field", name)
        if offsets:
            first, last, *_ = ends_of(name, offsets, node)
            reading.check(name, first, last)
            boxes.append(Box(first, last))
        elif declared is None:
            raise mistake("offset-not-constant", ast.unparse(node.slice))
    if declared is not None:
        return Box(*zip(*declared, strict=True))
    if not boxes:
        raise mistake("no-field", function.place, function.name)
    return joined(boxes)


def _reads(
    function: Function, fields: Collection[str], *, follow: bool
) -> Iterator[tuple[ast.Subscript, tuple[Any, ...]]]:
    """Where a function, or one that it gives a field to, reads some fields by their names.

    That is `here` meanwhile.  With each read come its offsets, or none where they vary.  To
    `follow` a loop over a constant range is to give those of each of its turns.
    """
    names, nodes = live_names(function), list(ast.walk(function.definition))

    def value(node: ast.expr, **more: Any) -> Any:
        return eval(compile(ast.Expression(node), function.file, "eval"), names | more)

    # What names are in each turn of a loop, or always; what is not known here varies.
    turns = dict[str, Sequence[Any]]()
    stored = [one.id for one in nodes if isinstance(one, ast.Name) and type(one.ctx) is ast.Store]
    for node in nodes if follow else ():
        with suppress(Exception):
            match node:
                case (
                    ast.For(target=ast.Name(id=name), iter=each)
                    | ast.comprehension(target=ast.Name(id=name), iter=each)
                ) if len(value(each)) <= _TURNS:
                    turns[name] = [*turns.get(name, ()), *value(each)]
                case ast.Assign(targets=[ast.Name(id=name)], value=one) if stored.count(name) == 1:
                    turns[name] = [value(one)]
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in fields:
                used = {one.id for one in ast.walk(index) if isinstance(one, ast.Name)}
                loops = {one: turns[one] for one in used & turns.keys()}
                for turn in itertools.product(*loops.values()):
                    offsets: Any = ()
                    with suppress(Exception):
                        offsets = several(value(index, **dict(zip(loops, turn, strict=True))))
                    here.place = function, node
                    yield node, offsets
            case ast.Call(func=called):
                helper = function.constants.get(ast.unparse(called))
                if isinstance(helper, Function):
                    given = {str(k) for k, one in passed(helper.parameters, node) if one in fields}
                    yield from _reads(helper, given, follow=follow)


# What Numba makes of it.


def _inferred(
    function: Function, given: Arguments, box: Box, token: str, request: Request
) -> tuple[Any, Any]:
    """Numba's function of a point, and the type of what that gives."""
    name, kinds = cache.identifier(function.name), tuple(given.types(box))

    def told(text: str, place: Span, error: Exception) -> Exception:
        if relative.NOT_WHOLE in text:
            return mistake("offset-type", place, "a number that is not whole")
        return mistake("not-compiled", place, reason(text))

    with cache.announced(name, [one.storage for one in given.fields]), explained(function, told):
        options = {"boundscheck": True, "fastmath": request.fastmath}
        made = jitted(_prepared(function), token, options, _held)
        made._cache = Kept(cache.code_named(name, token, "point"))
        made.compile(kinds)
    return made, made.overloads[kinds].signature.return_type


def _prepared(function: Function) -> Function:
    """A function, and those that it calls, which reduce windows along an axis by ours."""
    tree, constants = copy.deepcopy(function.definition), function.constants
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                ast.Attribute(array, name) as reduce, args, [] | [ast.keyword("axis")] as named
            ) if name in _ALONG:
                # A function or a method.
                given = [*args, *(one.value for one in named)]
                if dotted(reduce) not in constants:
                    given.insert(0, array)
                if len(given) == 2:
                    node.func, node.keywords = ast.Name(_OWN, ast.Load()), []
                    node.args = [ast.Constant(name), *given]
    prepared = {
        n: _prepared(one) if isinstance(one, Function) else one for n, one in constants.items()
    }
    prepared[_OWN] = relative.along
    return replace(function, tree=ast.fix_missing_locations(tree), constants=prepared)


def _held(value: Any) -> Any:
    """A value from outside as Numba is given it: integers are exact, so those of arrays are int64.

    Raises
    ------
    LookupError
        If it is no number, and no function of Python's or NumPy's.
    """
    value = constant(value)
    match value:
        case bool() | float() | complex() | str() | None | np.generic():
            return value
        case int():
            return value if -(2**63) <= value < 2**64 else wrapped(value)
        case np.ndarray():
            return value.astype(_exact(value.dtype))
    name = getattr(value, "__name__", "")
    known = name and any(
        getattr(one, name, None) is value for one in (np, np.linalg, math, builtins)
    )
    if known or value in (relative.along, in_order):
        return _OURS.get(value, value)
    raise LookupError(name)


# What it gives.


def _results(result: Any, function: Function, kinds: Arguments) -> tuple[list[np.dtype], bool]:
    """The types of what a point gives, and whether that is a tuple."""
    several = isinstance(result, types.BaseAnonymousTuple) and len(result) > 0
    outputs: list[Any] = list(result) if several else [result]
    if any(isinstance(kind, types.Array) for kind in outputs):
        indexed = indexed_parameters(function)
        for one in kinds.tables:
            if one.name not in indexed:
                place = first_use(function, one.name)
                raise mistake("array-for-scalar", place, one.name, one.shape)
    # Where it returns at last.
    span = next(map(function.span, returned_values(function.definition)[::-1]), function.place)
    dtypes = list[np.dtype]()
    for kind in outputs:
        # A literal is of its number's type.
        kind = getattr(kind, "literal_type", kind)
        if isinstance(kind, types.Optional | types.NoneType):
            raise mistake("no-return", span, function.name)
        if not isinstance(kind, types.Number | types.Boolean):
            arrays = isinstance(kind, types.Array)
            what = f"an array of {kind.ndim} axes" if arrays else f"a value of type '{kind}'"
            raise mistake("not-a-number", span, what)
        dtypes.append(_exact(as_dtype(kind)))
    return dtypes, several


# The band.


def _loaded(point: Any, band: str, file: str, compiled: Compiled) -> Loaded:
    """What Numba compiles of a `band` around a `point`, or made of it before.

    `parallel` is never used: Numba's default threading layer aborts the process when two
    threads enter it at once.
    """
    names = {**vars(relative), "point": point, "seen": relative.seen_within(compiled.reach)}
    exec(band, names)
    names["band"].__qualname__ = file
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=compiled.fastmath)(
        names["band"]
    )
    dispatcher._cache = Kept(file)
    given = [
        types.Array(from_dtype(one.dtype), one.ndim, "A", readonly=not one.mutable)
        if one.ndim
        else from_dtype(one.dtype)
        for one in cpu.kinds_of(compiled)[:-1]
    ]
    # The last argument is where it notes what it read.
    dispatcher.compile(types.void(*given, types.int64[:]))
    dispatcher.disable_compile()
    return Loaded(dispatcher, bool(dispatcher.stats.cache_hits))
