"""Compile a gufunc for given types, once, and keep on disk what was made.

    @npt.gufunc("(n),()->(n),()")              def stored(a0, a1, a2, a3):
    def powers(x, p):                              value0, value1 = body(a0, a1[0])
        return x**p, p                  ->         if value0.shape != a2.shape: raise ...
                                                   a2[...] = value0
                                                   a3[0] = value1

Numba writes the loop over a stack around `stored`, as for `numba.guvectorize`, and NumPy calls it
as a gufunc of its own: it broadcasts.  To both a number is an array of one element.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from llvmlite import ir as llvm
from numba import from_dtype, njit
from numba import types as kinds
from numba.core import cgutils, ir
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.np.numpy_support import as_dtype
from numba.np.ufunc import _internal  # type: ignore[attr-defined]
from numba.np.ufunc.wrappers import _GufuncWrapper

from ..backends import cache
from ..backends.numba import users
from ..base.frozen import frozen
from ..base.undisturbed import undisturbed
from ..language.definitions import returned_values
from ..language.dtypes import castable, short
from ..language.errors import Span, mistake
from .definition import Core, GufuncDefinition, Signature, Types

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


class WrongShape(ValueError):
    """Its arguments are the number of a result, counted from 1, and the shape that it has."""


@frozen
class Operand:
    """An array of a call as compiled code takes it: its dtype and its core axes."""

    dtype: np.dtype
    core: Core


@frozen
class Compiled:
    """A gufunc of NumPy's for exact types.

    Attributes
    ----------
    inputs : tuple of Operand
        The inputs and the numbers.
    outputs : tuple of Operand
        The results.
    call : numpy.ufunc
        Takes arrays for all of them; those for results may be left out if inputs have all sizes.
    """

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    call: Any


@functools.lru_cache(maxsize=256)
def compile_for(definition: GufuncDefinition, types: Types, dtypes: Types | None) -> Compiled:
    """What is compiled for given types, and those that are asked for of the results; once."""
    # To NumPy numbers are inputs.
    signature = Signature(definition.cores, definition.signature.outputs)
    inputs = tuple(map(Operand, types, signature.inputs))

    def make() -> Compiled:
        with global_compiler_lock:
            found = _loop(definition, inputs, types, dtypes)
            name = f"__gufunc__.{found.fndesc.mangled_name}"
            address = found.library.get_pointer_to_function(name)
        given = tuple(as_dtype(one.dtype) for one in found.signature.args[len(inputs) :])
        outputs = tuple(map(Operand, given, signature.outputs))
        numbers, counts = [dtype.num for dtype in (*types, *given)], (len(inputs), len(outputs))
        name, none = definition.name, _internal.PyUFunc_None
        # It holds the code, and the name, which NumPy does not copy.
        held = found, name
        call = _internal.fromfunc(
            name, "", [address], [numbers], *counts, [None], held, none, str(signature), ()
        )
        return Compiled(inputs, outputs, call)

    with cache.announced(definition.name, types):
        return undisturbed(make)


def _loop(
    definition: GufuncDefinition, inputs: Sequence[Operand], types: Types, dtypes: Types | None
) -> Any:
    """The loop over a stack, and the function of its item, which has the types of the results."""
    arguments = tuple(array_type(one.dtype, one.core, readonly=True) for one in inputs)
    kept: Any = None
    if not definition.foreign:
        # Values of others may mean something else in another process.
        meaning = f"{definition.token}\n{dtypes}"
        kept = users.Kept(cache.code_named(definition.name, meaning, "loop"))
        found = kept.load_overload(arguments, cpu_target.target_context)
        if found is not None:
            return found
    natural = inferred(definition, types)
    asked = dtypes or natural
    if len(asked) != len(natural):
        raise ValueError(
            f"dtype= names {len(asked)} dtypes, but '{definition.name}' has "
            f"{len(natural)} results."
        )
    for given, wanted in zip(natural, asked, strict=True):
        if short(wanted):
            raise TypeError(
                f"dtype={wanted} is one that '{definition.name}' cannot compute; out= takes "
                "arrays of it, and rounds to them."
            )
        if not castable(given, wanted):
            raise TypeError(
                f"dtype={wanted} does not hold the {given} that '{definition.name}' gives; "
                "convert the result with .astype()."
            )
    outputs = tuple(map(Operand, asked, definition.signature.outputs))
    call = kinds.void(*arguments, *(array_type(one.dtype, one.core) for one in outputs))
    # Alone first: then errors are those of the user's text.
    _typed(definition, types, asked)
    with mistakes(definition):
        stored = _stored(definition, outputs)
        stored.compile(call)
        found = stored.overloads[call.args]
        # All as inputs: Numba knows the sizes of these only, and counts them as NumPy does.
        cores = [one.core for one in (*inputs, *outputs)]
        made = _Loop(stored.py_func, found, cores, [], cache=False, is_parfors=False)
        found = found._replace(library=made.build().library)
    if kept is not None:
        kept.save_overload(arguments, found)
    return found


class _Loop(_GufuncWrapper):
    """Numba's loop over a stack, without the interpreter's lock and without warnings of floats.

    NumPy lets go of the lock where there are many elements; an item may take long as well.
    """

    def gen_prologue(self, builder, pyapi):
        self._held = pyapi.gil_ensure()
        self._thread = pyapi.save_thread()

    def gen_epilogue(self, builder, pyapi):
        # All that NumPy looks for, on machines of any kind.
        word = llvm.IntType(32)
        kind = llvm.FunctionType(word, [word])
        clear = cgutils.get_or_insert_function(builder.module, kind, "feclearexcept")
        builder.call(clear, [word(0x1F)])
        pyapi.restore_thread(self._thread)
        pyapi.gil_release(self._held)


def _stored(definition: GufuncDefinition, outputs: Sequence[Operand]) -> Any:
    """A function of arrays, which stores the results for one item."""
    count = len(definition.given)
    names = [f"a{k}" for k in range(count + len(outputs))]
    results = names[count:]
    given = {
        name: one if core else f"{one}[0]"
        for name, one, core in zip(definition.given, names, definition.cores, strict=False)
    }
    given |= zip(definition.outs, results, strict=False)
    text = f"body({', '.join(given[name] for name in definition.parameters)})"
    if not definition.outs:
        values = [f"value{k}" for k in range(len(outputs))]
        text = f"{', '.join(values)} = {text}"
        for k, (value, out, one) in enumerate(zip(values, results, outputs, strict=True), 1):
            if one.core:
                wrong = f"raise WrongShape({k}, {value}.shape)"
                text += f"\n    if {value}.shape != {out}.shape: {wrong}"
            text += f"\n    {out}[{'...' if one.core else 0}] = {value}"
    found: dict[str, Any] = {
        "__name__": __name__,
        "body": body(definition),
        "WrongShape": WrongShape,
    }
    exec(f"def stored({', '.join(names)}):\n    {text}", found)
    found["stored"].__qualname__ = f"{definition.token}.stored"
    # Within the loop, not called by it: 1e6 cross products take 3 ms, and 16 ms else (a Xeon).
    return njit(**users.INSIDE, forceinline=True)(found["stored"])


# The function of the user as Numba's: what it gives, and what is wrong.
#
#     def f(x): return x.sum() / len(x)      x: int8[:]     ->     float64, of no axes


@functools.lru_cache(maxsize=16)
def body(definition: GufuncDefinition) -> Any:
    """Numba's function of the user's text, which holds what is compiled of it.

    Raises
    ------
    StencilError
        If it names what cannot be used.
    """
    options: dict[str, Any] = {"fastmath": definition.options.fastmath}
    if definition.options.boundscheck:
        options |= {"boundscheck": True, "pipeline_class": users.BoundedCompiler}
    return users.jitted(definition.function, definition.token, options)


# What it gives, without a run.


def array_type(dtype: np.dtype, core: Core, readonly: bool = False) -> Any:
    """Numba's type of a core array; of no axes it has one of length 1."""
    return kinds.Array(from_dtype(dtype), max(len(core), 1), "C", readonly=readonly)


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
    found = _typed(definition, types, ()).signature.return_type
    function, outputs = definition.function, definition.signature.outputs
    place = function.span(returned_values(function.definition)[-1])
    if isinstance(found, kinds.Optional | kinds.NoneType):
        raise mistake("result-missing", function.place, definition.name)
    given: Any = found if isinstance(found, kinds.BaseTuple) else (found,)
    if len(given) != len(outputs):
        raise mistake("result-count", place, str(definition.signature), len(outputs), len(given))
    dtypes = list[np.dtype]()
    for number, (kind, core) in enumerate(zip(given, outputs, strict=True), 1):
        axes, element = getattr(kind, "ndim", None), _element(kind)
        if axes == 0:
            raise mistake(
                "result-type", place, number, "an array without axes; its number is x[()]"
            )
        if not isinstance(element, kinds.Number | kinds.Boolean):
            raise mistake("result-type", place, number, f"a value of type '{element}'")
        if (axes or 0) != len(core):
            raise mistake(
                "result-axes", place, number, f"({','.join(core)})", len(core), axes or 0
            )
        dtypes.append(as_dtype(element))
    return tuple(dtypes)


def _element(kind: Any) -> Any:
    """The type of a number, or of the elements of an array."""
    kind = getattr(kind, "literal_type", kind)
    return kind.dtype if isinstance(kind, kinds.Array) else kind


def _typed(definition: GufuncDefinition, types: Types, outs: Sequence[np.dtype]) -> Any:
    """What Numba makes of the function for arguments, and arrays for results, of these types."""
    outputs = definition.signature.outputs
    named = {
        name: array_type(dtype, core, readonly=True) if core else from_dtype(dtype)
        for name, dtype, core in zip(definition.given, types, definition.cores, strict=True)
    }
    named |= {
        name: array_type(dtype, core)
        for name, dtype, core in zip(definition.outs, outs, outputs, strict=False)
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
        found = _typed(definition, types, guess).type_annotation
        stored = tuple(_stored_type(definition, found, name) for name in definition.outs)
        if stored == guess:
            break
        guess = stored
    return guess


def _stored_type(definition: GufuncDefinition, found: Any, name: str) -> np.dtype:
    """The dtype that holds all that is stored in an array of this name."""
    statements = [one for block in found.blocks.values() for one in block.body]
    sources = {one.target.name: one.value for one in statements if isinstance(one, ir.Assign)}
    dtypes = list[np.dtype]()
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
        raise mistake("result-unknown", function.span(place), name)
    return np.result_type(*dtypes)


# What Numba says.


def mistakes(definition: GufuncDefinition) -> AbstractContextManager[None]:
    """Raise what Numba finds as a mistake at the user's line."""

    def words(text: str, place: Span, error: Exception) -> Exception:
        # Numba lacks an attribute of its own where a whole input is changed, as in `x += 1`.
        if isinstance(error, AttributeError) or _WRITES.search(text):
            return mistake("input-changed", place)
        if _INDEXED_NUMBER.search(text):
            return mistake("core-number", place)
        if _ALGEBRA.search(text):
            return mistake("core-integers", place)
        return mistake("body-not-compiled", place, users.reason(text))

    return users.explained(definition.function, words)
