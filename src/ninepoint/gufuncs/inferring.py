"""What a function gives for inputs of given types, as Numba finds it, without a run.

def f(x): return x.sum() / len(x)      x: int8[:]     ->     float64, of no axes
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backends.numba.inferring import plain, reason
from ..language import errors
from ..language.errors import Span
from ..language.source import Function, own_nodes
from .bodies import body
from .definition import GufuncDefinition, Types, all_functions, returned_values, whole_line

# How often the types of arrays that are written into may be guessed anew.
_GUESSES = 4


def core_type(dtype: np.dtype[Any], axes: int, readonly: bool) -> Any:
    """Numba's type of a core array, or of a number where there are no axes."""
    from numba import from_dtype, types

    if axes == 0:
        return from_dtype(dtype)
    return types.Array(from_dtype(dtype), axes, "C", readonly=readonly)


def out_type(dtype: np.dtype[Any], axes: int) -> Any:
    """Numba's type of what a result is written into; a number has one axis of length 1."""
    return core_type(dtype, max(axes, 1), readonly=False)


def inferred(definition: GufuncDefinition, types: Types) -> tuple[np.dtype[Any], ...]:
    """The dtype of each result.

    Raises
    ------
    StencilError
        If Numba cannot compile the function for these types, or if it gives other results than
        the signature says.
    """
    if definition.outs:
        return _written(definition, types)
    from numba import types as kinds

    found = _compiled(definition, _arguments(definition, types, ())).signature.return_type
    function, outputs = definition.function, definition.signature.outputs
    place = function.span(returned_values(function.definition)[-1])
    if isinstance(found, kinds.Optional | kinds.NoneType):
        raise errors.result_missing(function.place, definition.name)
    several = isinstance(found, kinds.BaseTuple)
    given: list[Any] = list(found) if several else [found]
    if len(given) != len(outputs):
        raise errors.result_count(place, str(definition.signature), len(outputs), len(given))
    return tuple(
        _result(definition, number, kind, place) for number, kind in enumerate(given, start=1)
    )


def _result(definition: GufuncDefinition, number: int, kind: Any, place: Span) -> np.dtype[Any]:
    """The dtype of one result, which has the axes that the signature says."""
    from numba import types
    from numba.np.numpy_support import as_dtype

    core = definition.signature.outputs[number - 1]
    kind = getattr(kind, "literal_type", kind)
    if isinstance(kind, types.Array) and kind.ndim == 0:
        raise errors.result_type(place, number, "an array without axes; its number is x[()]")
    axes = kind.ndim if isinstance(kind, types.Array) else 0
    kind = kind.dtype if isinstance(kind, types.Array) else kind
    if not isinstance(kind, types.Number | types.Boolean):
        raise errors.result_type(place, number, f"a value of type '{kind}'")
    if axes != len(core):
        raise errors.result_axes(place, number, f"({','.join(core)})", len(core), axes)
    dtype: np.dtype[Any] = as_dtype(kind)
    return dtype


def _arguments(
    definition: GufuncDefinition, types: Types, outs: Sequence[np.dtype[Any]]
) -> tuple[Any, ...]:
    """The types of the parameters, in their order."""
    signature = definition.signature
    named: dict[str, Any] = {}
    for name, dtype, core in zip(definition.inputs, types.inputs, signature.inputs, strict=True):
        named[name] = core_type(dtype, len(core), readonly=True)
    for name, dtype in zip(definition.scalars, types.scalars, strict=True):
        named[name] = core_type(dtype, 0, readonly=True)
    for name, dtype, core in zip(definition.outs, outs, signature.outputs, strict=bool(outs)):
        named[name] = out_type(dtype, len(core))
    return tuple(named[name] for name in definition.function.parameters)


# Functions that write their results into arrays.


def _written(definition: GufuncDefinition, types: Types) -> tuple[np.dtype[Any], ...]:
    """The dtypes of what is stored in the arrays for results.

    What is stored may depend on the array's own dtype, as in `out[0] += x[i]`: it is guessed,
    until what is stored is what was guessed.
    """
    guess = (np.result_type(*types.inputs),) * len(definition.outs)
    for _ in range(_GUESSES):
        found = _compiled(definition, _arguments(definition, types, guess)).type_annotation
        stored = [_stored(found, name) for name in definition.outs]
        for name, one in zip(definition.outs, stored, strict=True):
            if one is None:
                raise errors.result_unknown(_parameter(definition.function, name), name)
        known = tuple(one for one in stored if one is not None)
        if known == guess:
            return known
        guess = known
    return guess


def _parameter(function: Function, name: str) -> Span:
    arguments = function.definition.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return function.span(next(one for one in every if one.arg == name))


def _stored(found: Any, name: str) -> np.dtype[Any] | None:
    """The dtype that holds all that is stored in an array of this name, if it is seen."""
    from numba import types
    from numba.core import ir
    from numba.np.numpy_support import as_dtype

    statements = [one for block in found.blocks.values() for one in block.body]
    sources = {one.target.name: one.value for one in statements if isinstance(one, ir.Assign)}
    dtypes: list[np.dtype[Any]] = []
    for one in statements:
        if isinstance(one, ir.SetItem | ir.StaticSetItem):
            root: Any = one.target
            # Arrays that are exchanged in a loop are each other's source.
            for _ in sources:
                if isinstance(root, ir.Var):
                    root = sources.get(root.name)
            kind = found.typemap[one.value.name]
            kind = getattr(kind, "literal_type", kind)
            kind = kind.dtype if isinstance(kind, types.Array) else kind
            stored = isinstance(root, ir.Arg) and root.name == name
            if stored and isinstance(kind, types.Number | types.Boolean):
                dtypes.append(as_dtype(kind))
    return np.result_type(*dtypes) if dtypes else None


def _compiled(definition: GufuncDefinition, arguments: tuple[Any, ...]) -> Any:
    """What Numba makes of the function for arguments of these types."""
    with explained(definition):
        made = body(definition)
        made.compile(arguments)
    return made.overloads[arguments]


@contextmanager
def explained(definition: GufuncDefinition) -> Iterator[None]:
    """Raise what Numba finds as a mistake at the user's line, without its traceback."""
    from numba.core.errors import NumbaError, NumbaWarning

    try:
        with warnings.catch_warnings():
            # What may be slow is told by a measurement.
            warnings.simplefilter("ignore", NumbaWarning)
            yield
    except (NumbaError, AssertionError, NotImplementedError, AttributeError) as error:
        # The others where Numba has begun something and finds that it lacks a part; the last one
        # of `x += 1` for an input, which may not be written to.
        text = plain(error)
        place = _place(definition.function, text, error)
        if isinstance(error, AttributeError) and (changed := _changed(definition)):
            raise errors.input_changed(changed) from None
        if _WRITES.search(text):
            raise errors.input_changed(place) from None
        if _INDEXED_NUMBER.search(text):
            raise errors.core_number(place) from None
        if _ALGEBRA.search(text):
            raise errors.core_integers(place) from None
        raise errors.body_not_compiled(place, reason(text)) from None


def _changed(definition: GufuncDefinition) -> Span | None:
    """Where an input is the target of `+=` and the like, if it is anywhere."""
    function = definition.function
    for node in own_nodes(function.definition):
        match node:
            case ast.AugAssign(target=ast.Name(name)) if name in definition.inputs:
                return function.span(node)
    return None


_NUMBER = r"(?:bool|u?int\d+|float\d+|complex\d+)"
_WRITES = re.compile(
    r"Cannot modify readonly array|(?:setitem|arr_fill|run_quicksort\d?)\(readonly array"
)
_INDEXED_NUMBER = re.compile(rf">>> (?:static_)?getitem\({_NUMBER},")
_ALGEBRA = re.compile(
    r">>> (?:v?dot|matmul)\([^\n]*array\((?:bool|u?int)"
    r"|only supported on (?:float|complex|float and complex) arrays|unsupported dtype for <BLAS"
)
_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def _place(function: Function, text: str, error: Exception) -> Span:
    """The first of the user's lines that Numba names, which is where the mistake is."""
    lines = [(file, int(line)) for file, line in _LINE.findall(text)]
    loc = getattr(error, "loc", None)
    lines += [] if loc is None else [(loc.filename, loc.line)]
    known = list(all_functions(function))
    for file, line in lines:
        for one in known:
            row = line - one.first_line
            if _same_file(one.file, file) and 0 <= row <= one.text.count("\n"):
                return whole_line(one, line)
    return function.place


def _same_file(known: str, told: str) -> bool:
    # Numba shortens paths.
    return known == told or known.endswith(told.lstrip("."))
