"""The function of the user as Numba's: what it gives, and what is wrong.

def f(x): return x.sum() / len(x)      x: int8[:]     ->     float64, of no axes
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from numba import from_dtype
from numba import types as kinds
from numba.core import ir
from numba.np.numpy_support import as_dtype

from ..backends.numba.compilers import BoundedCompiler
from ..backends.numba.users import explained, jitted, reason
from ..language import errors
from ..language.definitions import copied, own_nodes, returned_values
from ..language.errors import Span
from .definition import GufuncDefinition, Types

# How often the types of arrays that are written into may be guessed anew.
_GUESSES = 4

_NUMBER = r"(?:bool|u?int\d+|float\d+|complex\d+)"
_WRITES = re.compile(
    r"Cannot modify readonly array|(?:setitem|arr_fill|run_quicksort\d?)\(readonly array"
)
_INDEXED_NUMBER = re.compile(rf">>> (?:static_)?getitem\({_NUMBER},")
_ALGEBRA = re.compile(
    r">>> (?:v?dot|matmul)\([^\n]*array\((?:bool|u?int)"
    r"|only supported on (?:float|complex|float and complex) arrays|unsupported dtype for <BLAS"
)


@functools.lru_cache(maxsize=16)
def body(definition: GufuncDefinition) -> Any:
    """Numba's function of the user's text, to which all is given by its place.

    It holds what is compiled of it.

    Raises
    ------
    StencilError
        If it names what cannot be used.
    """
    tree = copied(definition.function.definition)
    given = tree.args
    given.args = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    given.posonlyargs, given.kwonlyargs = [], []
    options: dict[str, Any] = {"fastmath": definition.options.fastmath}
    if definition.options.boundscheck:
        options |= {"boundscheck": True, "pipeline_class": BoundedCompiler}
    function = replace(definition.function, tree=tree, defaults={})
    return jitted(function, definition.token, options)


# What it gives, without a run.


def input_type(dtype: np.dtype[Any], axes: int) -> Any:
    """Numba's type of a core array, or of a number where there are no axes."""
    if axes == 0:
        return from_dtype(dtype)
    return kinds.Array(from_dtype(dtype), axes, "C", readonly=True)


def out_type(dtype: np.dtype[Any], axes: int) -> Any:
    """Numba's type of what a result is written into; a number has one axis of length 1."""
    return kinds.Array(from_dtype(dtype), max(axes, 1), "C")


def inferred(definition: GufuncDefinition, types: Types) -> Types:
    """The dtype of each result.

    Raises
    ------
    StencilError
        If Numba cannot compile the function for these types, or if it gives other results than
        the signature says.
    """
    if definition.outs:
        return _written(definition, types)
    found = _compiled(definition, types, ()).signature.return_type
    function, outputs = definition.function, definition.signature.outputs
    place = function.span(returned_values(function.definition)[-1])
    if isinstance(found, kinds.Optional | kinds.NoneType):
        raise errors.result_missing(function.place, definition.name)
    given: Any = found if isinstance(found, kinds.BaseTuple) else (found,)
    if len(given) != len(outputs):
        raise errors.result_count(place, str(definition.signature), len(outputs), len(given))
    return tuple(
        _result(definition, number, kind, place) for number, kind in enumerate(given, start=1)
    )


def _result(definition: GufuncDefinition, number: int, kind: Any, place: Span) -> np.dtype[Any]:
    """The dtype of one result, which has the axes that the signature says."""
    core = definition.signature.outputs[number - 1]
    axes = kind.ndim if isinstance(kind, kinds.Array) else 0
    element = _element(kind)
    if isinstance(kind, kinds.Array) and not axes:
        raise errors.result_type(place, number, "an array without axes; its number is x[()]")
    if not isinstance(element, kinds.Number | kinds.Boolean):
        raise errors.result_type(place, number, f"a value of type '{element}'")
    if axes != len(core):
        raise errors.result_axes(place, number, f"({','.join(core)})", len(core), axes)
    dtype: np.dtype[Any] = as_dtype(element)
    return dtype


def _element(kind: Any) -> Any:
    """The type of a number, or of the elements of an array."""
    kind = getattr(kind, "literal_type", kind)
    return kind.dtype if isinstance(kind, kinds.Array) else kind


def _compiled(definition: GufuncDefinition, types: Types, outs: Sequence[np.dtype[Any]]) -> Any:
    """What Numba makes of the function for arguments, and arrays for results, of these types."""
    outputs = definition.signature.outputs
    named = {
        name: input_type(dtype, len(core))
        for name, dtype, core in zip(definition.given, types, definition.cores, strict=True)
    }
    named |= {
        name: out_type(dtype, len(core))
        for name, dtype, core in zip(definition.outs, outs, outputs, strict=bool(outs))
    }
    arguments = tuple(named[name] for name in definition.parameters)
    with mistakes(definition):
        made = body(definition)
        made.compile(arguments)
    return made.overloads[arguments]


# Functions that write their results into arrays.


def _written(definition: GufuncDefinition, types: Types) -> Types:
    """The dtypes of what is stored in the arrays for results.

    What is stored may depend on the array's own dtype, as in `out[0] += x[i]`: it is guessed,
    until what is stored is what was guessed.
    """
    guess: Types = (np.result_type(*types[: len(definition.inputs)]),) * len(definition.outs)
    for _ in range(_GUESSES):
        found = _compiled(definition, types, guess).type_annotation
        stored = tuple(_stored(definition, found, name) for name in definition.outs)
        if stored == guess:
            break
        guess = stored
    return guess


def _stored(definition: GufuncDefinition, found: Any, name: str) -> np.dtype[Any]:
    """The dtype that holds all that is stored in an array of this name."""
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
            element = _element(found.typemap[one.value.name])
            stored = isinstance(root, ir.Arg) and root.name == name
            if stored and isinstance(element, kinds.Number | kinds.Boolean):
                dtypes.append(as_dtype(element))
    if not dtypes:
        function = definition.function
        nodes = ast.walk(function.definition.args)
        place = next(one for one in nodes if isinstance(one, ast.arg) and one.arg == name)
        raise errors.result_unknown(function.span(place), name)
    return np.result_type(*dtypes)


# What Numba says.


def mistakes(definition: GufuncDefinition) -> AbstractContextManager[None]:
    """Raise what Numba finds as a mistake at the user's line."""

    def words(text: str, place: Span, error: Exception) -> Exception:
        if isinstance(error, AttributeError) and (changed := _changed(definition)):
            return errors.input_changed(changed)
        if _WRITES.search(text):
            return errors.input_changed(place)
        if _INDEXED_NUMBER.search(text):
            return errors.core_number(place)
        if _ALGEBRA.search(text):
            return errors.core_integers(place)
        return errors.body_not_compiled(place, reason(text))

    return explained(definition.function, words)


def _changed(definition: GufuncDefinition) -> Span | None:
    """Where an input is the target of `+=` and the like, if it is anywhere."""
    function = definition.function
    for node in own_nodes(function.definition):
        match node:
            case ast.AugAssign(target=ast.Name(name)) if name in definition.inputs:
                return function.span(node)
    return None
