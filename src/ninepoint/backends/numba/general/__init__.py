"""The general path: kernels that are not analysed, as functions that Numba compiles.

    s = np.sort(x[-1:2])                ->      def point(x, ...):  the user's body
    return s[0] + s[1]                          def band(x, out0, outside):  point at every place

The user's functions are kept as they stand, statement by statement, with Numba's rules for
numbers; only their reads are mapped, and what their names mean is kept.  A function of numbers is
given the elements themselves.  Numba infers what a point gives, and compiles the band when it
first runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import from_dtype, njit, types

from ....base.remembered import digest
from ....base.undisturbed import undisturbed
from ....language import errors
from ....language.definitions import Function, meaning, returned_values
from ....language.dtypes import Argument, Coefficients, Field, Scalar, common, computed
from ....language.errors import Span
from ....language.ir import DType, Length, Position
from ....language.parameters import indexed_parameters
from ....language.positions import GREATEST, LEAST
from ....lowering.schedule import Request
from ....lowering.storage import misfit
from ... import cache
from ...compiled import Compiled, Loaded, Module
from ...llvm.layout import Kind
from ...patience import announced
from ...pipeline import check_outputs
from .. import cpu, relative
from ..kept import Kept
from ..points import plus
from ..users import explained, jitted, reason
from .rewrite import Rewriter

# How many times as long it takes as an analysed kernel of the same reads, where it has these.
_SLOWER = {"making": "50 to 500", "loops": "20 to 200"}


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
    token = digest(
        (meaning(function), tuple(arguments.items()), request.neighborhood, request.fastmath)
    )
    point = Point(arguments, Rewriter(function, arguments, request.neighborhood), token)
    made, returned = undisturbed(lambda: _inferred(function, point, request))
    several = isinstance(returned, types.BaseAnonymousTuple) and len(returned) > 0
    outputs: list[Any] = list(returned) if several else [returned]
    if any(isinstance(kind, types.Array) for kind in outputs):
        _refuse_array(function, point)
    given = [_dtype(kind, point.returned, function) for kind in outputs]
    check_outputs(function.name, len(given), request)
    fields, tables, scalars = point.named(Field), point.named(Coefficients), point.named(Scalar)
    natural = [common(d, f.storage) for d, f in zip(given, fields, strict=False)]
    dtypes = request.dtypes or tuple(natural if request.kept else given)
    for dtype, storage in zip(given, dtypes, strict=True):
        _check(dtype, storage, request.overflow)
    band = "\n".join(point.band(len(given), several)) + "\n"
    positions, lengths, asked = point.positions, point.lengths, point.rewriter.asked
    return Compiled(
        name=cache.identifier(function.name),
        fields=(*(f.name for f in fields), *(one.words for one in positions)),
        coefficients=tuple(one.name for one in tables),
        scalars=(*(one.name for one in scalars), *lengths),
        reaches=(point.rewriter.box,) * len(given),
        field_dtypes=(*(f.storage for f in fields), *[np.dtype("int64")] * len(positions)),
        out_dtypes=dtypes,
        coefficient_types=tuple((one.storage, len(one.shape)) for one in tables),
        scalar_types=(*(one.dtype for one in scalars), *[DType.INT] * len(lengths)),
        fastmath=request.fastmath,
        module=Module(
            point.text(band),
            checked=True,
            places=tuple(point.rewriter.places),
            opaque=partial(_loaded, made, band, given, request.overflow),
        ),
        load=cpu.load,
        factor=next((_SLOWER[one] for one in _SLOWER if one in asked), "5 to 20"),
        positions=positions,
    )


class Point:
    """A kernel whose reads are mapped, before the types of its outputs are known.

    Attributes
    ----------
    function : Function
        What computes a point.
    token : str
        Names what that means.
    returned : Span
        Where it returns at last.
    lengths, positions : tuple
        What it is told besides its arguments.
    kinds : tuple
        Numba's types of what it is given.
    """

    def __init__(self, arguments: Mapping[str, Argument], rewriter: Rewriter, token: str) -> None:
        self._arguments, self.rewriter, self.token = arguments, rewriter, token
        self.function = rewriter.function(rewriter.scopes.root)
        self.returned = _returned(rewriter.scopes.root.function)
        axes, asked = range(rewriter.box.ndim), rewriter.asked
        self.lengths = tuple(map(Length, axes if "lengths" in asked else ()))
        self.positions = tuple(
            Position(axis, among, LEAST, GREATEST)
            for among in ("elements", "results")
            if among in asked
            for axis in axes
        )
        self.kinds = tuple(self._kinds())

    def named(self, kind: Any) -> list[Any]:
        """The arguments of a kind."""
        return [one for one in self._arguments.values() if isinstance(one, kind)]

    def _kinds(self) -> Iterator[Any]:
        def element(storage: np.dtype) -> Any:
            """The type of an element once `wide` has made its integers exact."""
            narrow = storage.kind in "iu" and storage.itemsize < 8
            return types.int64 if narrow else from_dtype(computed(storage))

        ndim, asked = self.rewriter.box.ndim + 1, [one.among for one in self.positions]
        told = len(self.lengths), asked.count("elements"), asked.count("results")
        for argument in self._arguments.values():
            match argument:
                case Field(storage=storage, pointwise=True):
                    yield element(storage)
                case Field(storage=storage):
                    array = types.Array(from_dtype(computed(storage)), ndim, "A", readonly=True)
                    yield relative.seen(array, ndim, *told)
                case Coefficients(storage=storage, shape=shape):
                    yield types.Array(element(storage), len(shape), "C")
                case Scalar(dtype=dtype):
                    yield from_dtype(dtype.numpy)
        if self.rewriter.pointwise:
            yield types.Array(types.int64, 1, "A")

    def text(self, band: str) -> str:
        """The whole text, whose last function computes a block."""
        functions = [*reversed(self.rewriter.helpers.values()), self.function]
        trees = [ast.unparse(one.definition) for one in functions]
        name, token = self.function.name, self.token[:24]
        title = f"{name}, on the general path: written by ninepoint for {token}."
        return "\n\n\n".join([f'"""{title}"""', *trees, band])

    def band(self, outputs: int, several: bool) -> Iterator[str]:
        """What computes a block, for a number of outputs."""
        outs = [f"out{n}" for n in range(outputs)]
        lengths = [f"length{length.axis}" for length in self.lengths]
        # Positions lie beside the elements of a block, which begins where the kernel looks first.
        point = ", ".join(
            plus(f"at[{a}]", -low) for a, low in enumerate((0, *self.rewriter.box.lo))
        )
        told = [lengths] + [
            [f"place{k}[{point}]" for k, one in enumerate(self.positions) if one.among == among]
            for among in ("elements", "results")
        ]
        seen = ", ".join(f"({''.join(f'{one}, ' for one in group)})" for group in told)
        # Arguments are numbered: no name of the user's can then clash.
        fields, arrays, scalars = (
            {one.name: f"{kind.__name__.lower()}{k}" for k, one in enumerate(self.named(kind))}
            for kind in (Field, Coefficients, Scalar)
        )
        given = {name: f"Neighbours({one}, at, outside, {seen})" for name, one in fields.items()}
        if self.rewriter.pointwise:
            given = {name: f"wide({one}[at])" for name, one in fields.items()}
        given |= arrays | scalars
        values = [given[name] for name in self._arguments]
        values += ["outside"] if self.rewriter.pointwise else []
        read = [*fields.values(), *(f"place{k}" for k in range(len(self.positions)))]
        order = [*read, *outs, *arrays.values(), *scalars.values(), *lengths, "outside"]
        yield f"def band({', '.join(order)}):"
        yield from (f"    {n} = unowned({n})" for n in (*read, "outside"))
        yield from (f"    {n} = wide({n})" for n in arrays.values())
        yield "    for at in np.ndindex(out0.shape):"
        yield "        go_on(outside)"
        yield f"        value = point({', '.join(values)})"
        for n, out in enumerate(outs):
            yield f"        {out}[at] = value{f'[{n}]' if several else ''}"


def _returned(function: Function) -> Span:
    """Where the kernel returns at last; its values must be as many wherever it does."""
    values = returned_values(function.definition)
    if not values:
        raise errors.no_return(function.place, function.name)
    counts = [len(v.elts) if isinstance(v, ast.Tuple) else 0 for v in values]
    for value, count in zip(values, counts, strict=True):
        if count and counts[0] and count != counts[0]:
            raise errors.return_mismatch(function.span(value), count, counts[0])
    return function.span(values[-1])


def _inferred(function: Function, point: Point, request: Request) -> tuple[Any, Any]:
    """Numba's function of a point, and the type of what that gives."""
    if cpu.interpreted():
        raise RuntimeError(
            f"'{function.name}' is compiled by Numba as it is written (it takes the general "
            "path), so it does not run with NUMBA_DISABLE_JIT=1; unset that variable."
        )
    name, fields = cache.identifier(function.name), point.named(Field)

    def words(text: str, place: Span, error: Exception) -> Exception:
        _refuse_array(function, point)
        if relative.NOT_WHOLE in text:
            return errors.offset_type(place, "a number that is not whole")
        return errors.not_compiled(place, reason(text))

    with announced(name, [one.storage for one in fields]), explained(function, words):
        own = {word + point.rewriter.suffix: one for word, one in vars(relative).items()}
        options = {"boundscheck": True, "fastmath": request.fastmath}
        made = jitted(point.function, point.token, options, own)
        made._cache = Kept(cache.code_place(name, point.token, "point"))
        made.compile(point.kinds)
    return made, made.overloads[point.kinds].signature.return_type


def _refuse_array(function: Function, point: Point) -> None:
    """Raise if an array was given for a parameter that the kernel takes for a number."""
    indexed = indexed_parameters(function)
    nodes = list(ast.walk(function.definition))
    if any(isinstance(node, ast.Slice) for node in nodes):
        # An array may be combined with a window.
        return
    arrays = {one.name: one for one in point.named(Coefficients) if one.name not in indexed}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in arrays:
            place, one = function.span(node), arrays[node.id]
            raise errors.array_for_scalar(place, one.name, one.shape, point.rewriter.pointwise)


def _dtype(kind: Any, span: Span, function: Function) -> np.dtype:
    # A literal is of its number's type.
    kind = getattr(kind, "literal_type", kind)
    if isinstance(kind, types.Boolean):
        return np.dtype("bool")
    if isinstance(kind, types.Integer):
        return np.dtype("uint64" if kind == types.uint64 else "int64")
    if isinstance(kind, types.Float | types.Complex):
        return np.dtype(str(kind))
    if isinstance(kind, types.Optional | types.NoneType):
        raise errors.no_return(span, function.name)
    raise errors.not_a_number(span, _words(kind))


def _words(kind: Any) -> str:
    if isinstance(kind, types.Array):
        return f"an array of {kind.ndim} axes"
    if isinstance(kind, types.NamedTuple):
        return "a field itself"
    if isinstance(kind, types.BaseTuple):
        return f"a tuple of {len(kind)}"
    if isinstance(kind, types.UnicodeType):
        return "text"
    return f"a value of type '{kind}'"


def _check(dtype: np.dtype, storage: np.dtype, overflow: str | None) -> None:
    if dtype.kind == "c" and storage.kind != "c":
        raise ValueError(f"dtype={storage} cannot hold the complex result of this kernel.")
    if storage.kind not in "iu" or overflow is not None or np.can_cast(dtype, storage):
        return
    info = np.iinfo(dtype) if dtype.kind in "iu" else None
    raise misfit(storage, "any float" if info is None else f"{info.min} to {info.max}")


def _loaded(
    point: Any,
    band: str,
    given: Sequence[np.dtype],
    overflow: str | None,
    place: Path,
    compiled: Compiled,
) -> Loaded:
    """What Numba compiles of a `band` around a `point`, or made of it before.

    With a rule for `overflow` its results, of the types `given`, are stored by that rule.

    `parallel` is never used: Numba's default threading layer aborts the process when two
    threads enter it at once.
    """
    names = {**vars(relative), "point": point}
    exec(band, names)
    names["band"].__qualname__ = f"{place.stem}.band"
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=compiled.fastmath)(
        names["band"]
    )
    dispatcher._cache = Kept(place)
    # The last argument is where it notes what it read.
    kinds = [*cpu.kinds_of(compiled)[:-1], Kind(np.dtype("int64"), 1, mutable=True)]
    outs = slice(len(compiled.field_dtypes), len(compiled.field_dtypes) + len(given))
    if overflow is not None:
        kinds[outs] = [replace(kind, dtype=d) for kind, d in zip(kinds[outs], given, strict=True)]
    dispatcher.compile(
        types.void(
            *(
                types.Array(from_dtype(one.dtype), one.ndim, "A", readonly=not one.mutable)
                if one.ndim
                else from_dtype(one.dtype)
                for one in kinds
            )
        )
    )
    dispatcher.disable_compile()

    def stored(*arguments: Any) -> None:
        results = arguments[outs]
        made = [np.empty(one.shape, dtype) for one, dtype in zip(results, given, strict=True)]
        dispatcher(*arguments[: outs.start], *made, *arguments[outs.stop :])
        for out, values in zip(results, made, strict=True):
            out[...] = _fitted(values, out.dtype, overflow)

    entry = dispatcher if overflow is None else stored
    return Loaded(entry, bool(dispatcher.stats.cache_hits))


def _fitted(values: np.ndarray, dtype: np.dtype, overflow: str | None) -> np.ndarray:
    """Values that a type of integers holds: the nearest, or of the same lowest bits; NaN is 0."""
    if dtype.kind not in "iu" or values.dtype.kind == "b":
        return values
    cut = overflow == "saturate"
    kept = np.iinfo(dtype if cut else np.int64)
    if values.dtype.kind == "f":
        whole = np.rint(values) if cut else values
        with np.errstate(invalid="ignore"):
            made = np.where(np.isnan(whole), 0, whole).astype(kept.dtype)
        made[whole >= kept.max] = kept.max
        made[whole <= kept.min] = kept.min
        return made
    own = np.iinfo(values.dtype)
    return np.clip(values, max(kept.min, own.min), min(kept.max, own.max)) if cut else values
