"""The general path on the CPU: Numba infers what a kernel gives, and compiles it.

translate    the user's functions, their reads mapped    general
_inferred    the types that `point` returns              Numba
_loaded      machine code, when it first runs            Numba
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import from_dtype, njit, types

from ...language import errors
from ...language.dtypes import Argument, Coefficients, DType, Field, Scalar, common, computed
from ...language.errors import Span
from ...language.parameters import indexed_parameters
from ...language.source import Function
from ...lowering.schedule import Request
from ...lowering.storage import misfit
from ...undisturbed import undisturbed
from .. import cache
from ..compiled import Compiled, Loaded
from ..generated import Module
from ..llvm.layout import Kind
from ..patience import announced
from ..pipeline import check_outputs
from . import cpu, relative
from .general import General, translate
from .kept import Kept
from .users import explained, jitted, reason


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
    general = translate(function, arguments, request)
    fields = [a for a in arguments.values() if isinstance(a, Field)]
    tables = [a for a in arguments.values() if isinstance(a, Coefficients)]
    scalars = {n: a.dtype for n, a in arguments.items() if isinstance(a, Scalar)}
    point, returned = undisturbed(lambda: _inferred(function, general, request.fastmath))
    several = isinstance(returned, types.BaseTuple) and len(returned) > 0
    several = several and not isinstance(returned, types.NamedTuple)
    outputs: list[Any] = list(returned) if several else [returned]
    if any(isinstance(kind, types.Array) for kind in outputs):
        _refuse_array(function, arguments)
    given = [_dtype(kind, general.returned, function) for kind in outputs]
    check_outputs(function.name, len(given), request)
    natural = [common(d, f.storage) for d, f in zip(given, fields, strict=False)]
    dtypes = request.dtypes or tuple(natural if request.kept else given)
    for dtype, storage in zip(given, dtypes, strict=True):
        _check(dtype, storage, request.overflow)
    positions = general.positions
    band = general.band(len(given), several, request.overflow)
    return Compiled(
        name=cache.identifier(function.name),
        fields=(*(f.name for f in fields), *(one.words for one in positions)),
        coefficients=tuple(one.name for one in tables),
        scalars=(*scalars, *general.lengths),
        reaches=(general.box,) * len(given),
        field_dtypes=(*(f.storage for f in fields), *[np.dtype("int64")] * len(positions)),
        out_dtypes=dtypes,
        coefficient_types=tuple((one.storage, len(one.shape)) for one in tables),
        scalar_types=(*scalars.values(), *[DType.INT] * len(general.lengths)),
        fastmath=request.fastmath,
        module=Module(
            general.text(band),
            checked=True,
            places=general.places,
            opaque=partial(_loaded, point, band),
        ),
        load=cpu.load,
        factor=general.factor,
        positions=positions,
    )


def _loaded(point: Any, band: str, path: Path, compiled: Compiled) -> Loaded:
    """What Numba compiles of a `band` around a `point`, or made of it before.

    `parallel` is never used: Numba's default threading layer aborts the process when two
    threads enter it at once.
    """
    names = {**vars(relative), "point": point}
    exec(band, names)
    names["band"].__qualname__ = f"{path.stem}.band"
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=compiled.fastmath)(
        names["band"]
    )
    dispatcher._cache = Kept(path.with_suffix(".band"))
    # The last argument is where it notes what it read.
    kinds = [*cpu.kinds_of(compiled)[:-1], Kind(np.dtype("int64"), 1, mutable=True)]
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
    return Loaded(dispatcher, bool(dispatcher.stats.cache_hits))


# What the kernel gives.


def _inferred(function: Function, general: General, fastmath: bool) -> tuple[Any, Any]:
    """Numba's function of a point, and the type of what that gives."""
    if cpu.interpreted():
        raise RuntimeError(
            f"'{function.name}' is compiled by Numba as it is written (it takes the general "
            "path), so it does not run with NUMBA_DISABLE_JIT=1; unset that variable."
        )
    arguments, name = general.arguments, cache.identifier(function.name)

    def words(text: str, place: Span, error: Exception) -> Exception:
        _refuse_array(function, arguments)
        if relative.NOT_WHOLE in text:
            return errors.offset_type(place, "a number that is not whole")
        return errors.not_compiled(place, reason(text))

    kinds = _kinds(general)
    dtypes = [a.storage for a in arguments.values() if isinstance(a, Field)]
    with announced(name, dtypes), explained(function, words):
        own = {word + general.suffix: one for word, one in vars(relative).items()}
        options = {"boundscheck": True, "fastmath": fastmath}
        point = jitted(general.functions[0], general.token, options, own)
        point._cache = cache.kept_by_meaning(name, general.token, "point")
        point.compile(kinds)
    return point, point.overloads[kinds].signature.return_type


def _kinds(general: General) -> tuple[Any, ...]:
    """Numba's types of what a point is given."""

    def element(storage: np.dtype) -> Any:
        """The type of an element once `wide` has made its integers exact."""
        narrow = storage.kind in "iu" and storage.itemsize < 8
        return types.int64 if narrow else from_dtype(computed(storage))

    ndim, asked = general.box.ndim + 1, [one.among for one in general.positions]
    told = len(general.lengths), asked.count("elements"), asked.count("results")
    kinds: list[Any] = []
    for argument in general.arguments.values():
        match argument:
            case Field(storage=storage, pointwise=True):
                kinds.append(element(storage))
            case Field(storage=storage):
                array = types.Array(from_dtype(computed(storage)), ndim, "A", readonly=True)
                kinds.append(relative.seen(array, ndim, *told))
            case Coefficients(storage=storage, shape=shape):
                kinds.append(types.Array(element(storage), len(shape), "C"))
            case Scalar(dtype=dtype):
                kinds.append(from_dtype(dtype.numpy))
    if general.pointwise:
        kinds.append(types.Array(types.int64, 1, "A"))
    return tuple(kinds)


def _refuse_array(function: Function, arguments: Mapping[str, Argument]) -> None:
    """Raise if an array was given for a parameter that the kernel takes for a number."""
    indexed = indexed_parameters(function)
    nodes = list(ast.walk(function.definition))
    if any(isinstance(node, ast.Slice) for node in nodes):
        # An array may be combined with a window.
        return
    for node in nodes:
        argument = arguments.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(argument, Coefficients) and argument.name not in indexed:
            pointwise = any(isinstance(a, Field) and a.pointwise for a in arguments.values())
            place = function.span(node)
            raise errors.array_for_scalar(place, argument.name, argument.shape, pointwise)


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
