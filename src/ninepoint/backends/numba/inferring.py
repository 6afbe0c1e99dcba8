"""The general path on the CPU: Numba infers what a kernel gives, and compiles it.

translate    the user's body, its reads mapped    general
_inferred    the types that `point` returns       Numba
Compiled     machine code, when it first runs     cpu
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ...language import errors
from ...language.dtypes import DType, common, computed
from ...language.errors import Span, StencilError
from ...language.kinds import Argument, Coefficients, Field, Scalar
from ...language.parameters import indexed_parameters
from ...language.source import Function
from ...lowering.schedule import Request
from ...lowering.storage import misfit
from ...undisturbed import undisturbed
from .. import cache
from ..compiled import Compiled
from ..patience import announced
from ..pipeline import check_outputs
from . import cpu
from .general import General, translate
from .raised import place, plain, reason


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
    given, several = undisturbed(lambda: _inferred(function, general, arguments))
    check_outputs(function.name, len(given), request)
    natural = [common(d, f.storage) for d, f in zip(given, fields, strict=False)]
    dtypes = request.dtypes or tuple(natural if request.kept else given)
    for dtype, storage in zip(given, dtypes, strict=True):
        _check(dtype, storage, request.overflow)
    positions = general.positions
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
        module=general.module(len(given), several, request.overflow),
        factor=general.factor,
        positions=positions,
    )


# What the kernel gives.


def _inferred(
    function: Function,
    general: General,
    arguments: Mapping[str, Argument],
) -> tuple[list[np.dtype], bool]:
    """The type of each output, as Numba infers it, and whether they are a tuple."""
    # Imported here, not above: `import ninepoint` must not import Numba.
    from numba import from_dtype, types
    from numba.core.errors import NumbaError

    def element(storage: np.dtype) -> Any:
        """The type of an element once `wide` has made its integers exact."""
        narrow = storage.kind in "iu" and storage.itemsize < 8
        return types.int64 if narrow else from_dtype(computed(storage))

    from . import relative

    if cpu.interpreted():
        raise RuntimeError(
            f"'{function.name}' is compiled by Numba as it is written (it takes the general "
            "path), so it does not run with NUMBA_DISABLE_JIT=1; unset that variable."
        )
    ndim, seen = general.box.ndim + 1, cast(Any, relative.seen)
    kinds: list[Any] = []
    for argument in arguments.values():
        if isinstance(argument, Field) and argument.pointwise:
            kinds.append(element(argument.storage))
        elif isinstance(argument, Field):
            array = types.Array(from_dtype(computed(argument.storage)), ndim, "A", readonly=True)
            asked = [one.among for one in general.positions]
            counts = (asked.count("elements"), asked.count("results"))
            kinds.append(seen(array, ndim, len(general.lengths), *counts))
        elif isinstance(argument, Coefficients):
            kinds.append(types.Array(element(argument.storage), len(argument.shape), "C"))
        else:
            kinds.append(from_dtype(argument.dtype.numpy))
    if general.pointwise:
        kinds.append(types.Array(types.int64, 1, "A"))
    point = general.point
    dtypes = [a.storage for a in arguments.values() if isinstance(a, Field)]
    try:
        with announced(cache.identifier(function.name), dtypes):
            point.compile(tuple(kinds))
    except (NumbaError, AssertionError, NotImplementedError) as error:
        # The last two where Numba has begun something and finds that it lacks a part.
        _refuse_array(function, arguments)
        raise _mistake(function, error) from None
    # Not the last signature: these types may have been compiled before some others.
    returned: Any = point.overloads[tuple(kinds)].signature.return_type
    several = isinstance(returned, types.BaseTuple) and len(returned) > 0
    several = several and not isinstance(returned, types.NamedTuple)
    outputs: list[Any] = list(returned) if several else [returned]
    for kind in outputs:
        if isinstance(kind, types.Array):
            _refuse_array(function, arguments)
    return [_dtype(kind, general.returned, function) for kind in outputs], several


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
    from numba import types

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
    from numba import types

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


# What Numba says.


def _mistake(function: Function, error: Exception) -> StencilError:
    """What Numba found, at the place in the user's file and without its traceback."""
    from .relative import NOT_WHOLE

    text = plain(error)
    span = place(function, text, error)
    if NOT_WHOLE in text:
        return errors.offset_type(span, "a number that is not whole")
    return errors.not_compiled(span, reason(text))
