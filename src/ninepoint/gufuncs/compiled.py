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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba import types as kinds
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.np.numpy_support import as_dtype
from numba.np.ufunc.wrappers import _GufuncWrapper

from ..backends import cache
from ..backends.numba.cpu import interpreted
from ..backends.numba.kept import Kept
from ..backends.numba.users import INSIDE
from ..backends.patience import announced
from ..backends.universal import Universal
from ..base.undisturbed import undisturbed
from ..language.dtypes import castable, short
from .bodies import (
    body,
    inferred,
    input_type,
    mistakes,
    out_type,
)
from .calling import wanted_types
from .definition import Core, GufuncDefinition, Signature, Types


class WrongShape(ValueError):
    """Its arguments are the number of a result, counted from 1, and the shape that it has."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An array of a call as compiled code takes it: its dtype and its core axes."""

    dtype: np.dtype[Any]
    core: Core


@dataclass(slots=True)
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
    most : float
        Up to so many elements of its first input a call is too short to be shared among threads.
    """

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    call: Any
    _held: Any
    most: float = 0


def compile_for(
    definition: GufuncDefinition, types: Types, options: Mapping[str, Any] | None = None
) -> Compiled:
    """What is compiled for given types and the options of a call; once."""
    dtypes = wanted_types(definition, options or {})
    key = types, dtypes
    found: Compiled | None = definition.made.get(key)
    if found is None:
        found = definition.made.setdefault(key, _compiled(definition, types, dtypes))
    return found


def _compiled(definition: GufuncDefinition, types: Types, dtypes: Types | None) -> Compiled:
    if interpreted():
        raise RuntimeError(
            f"'{definition.name}' is compiled by Numba, so it does not run with "
            f"NUMBA_DISABLE_JIT=1; unset that variable, or call {definition.name}.debug(...)."
        )
    plain = definition.signature.plain
    # To NumPy numbers are inputs.
    signature = Signature(plain.inputs + ((),) * len(definition.scalars), plain.outputs)
    inputs = tuple(map(Operand, types, signature.inputs))

    def make() -> Compiled:
        with global_compiler_lock:
            found = _loop(definition, inputs, dtypes)
            name = f"__gufunc__.{found.fndesc.mangled_name}"
            address = found.library.get_pointer_to_function(name)
        given = tuple(as_dtype(one.dtype) for one in found.signature.args[len(inputs) :])
        made = Universal(address, 0, types, given, definition.name, str(signature))
        outputs = tuple(map(Operand, given, signature.outputs))
        return Compiled(inputs, outputs, made.call, (made, found))

    with announced(definition.name, types):
        return undisturbed(make)


def _checked_types(
    definition: GufuncDefinition, natural: Types, dtypes: Sequence[np.dtype[Any]] | None
) -> Types:
    """The dtypes that are asked for, if any are, and if the results may be stored in them."""
    if dtypes is None:
        return natural
    if len(dtypes) != len(natural):
        raise ValueError(
            f"dtype= names {len(dtypes)} dtypes, but '{definition.name}' has "
            f"{len(natural)} results."
        )
    for given, wanted in zip(natural, dtypes, strict=True):
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
    return tuple(dtypes)


def _loop(definition: GufuncDefinition, inputs: Sequence[Operand], dtypes: Types | None) -> Any:
    """The loop over a stack, and the function of its item, which has the types of the results."""
    arguments = tuple(input_type(one.dtype, max(len(one.core), 1)) for one in inputs)
    kept: Any = None
    if not definition.foreign:
        # Values of others may mean something else in another process.
        meaning = f"{definition.token}\n{dtypes}"
        kept = Kept(cache.code_place(definition.name, meaning, "loop"))
        found = kept.load_overload(arguments, cpu_target.target_context)
        if found is not None:
            return found
    natural = inferred(definition, tuple(one.dtype for one in inputs))
    asked = _checked_types(definition, natural, dtypes)
    outputs = tuple(map(Operand, asked, definition.signature.plain.outputs))
    call = kinds.void(*arguments, *(out_type(one.dtype, len(one.core)) for one in outputs))
    with mistakes(definition):
        stored = _stored(definition, outputs, call.args)
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
        self._thread = cgutils.alloca_once_value(builder, pyapi.voidptr(None))
        held = self._call(builder, "PyGILState_Check")
        with builder.if_then(builder.icmp_signed("!=", held, held.type(0))):
            builder.store(pyapi.save_thread(), self._thread)

    def gen_epilogue(self, builder, pyapi):
        # All that NumPy looks for, on machines of any kind.
        self._call(builder, "feclearexcept", ir.IntType(32)(0x1F))
        thread = builder.load(self._thread)
        with builder.if_then(cgutils.is_not_null(builder, thread)):
            pyapi.restore_thread(thread)

    def _call(self, builder, name, *values):
        kind = ir.FunctionType(ir.IntType(32), [value.type for value in values])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def _stored(
    definition: GufuncDefinition, outputs: Sequence[Operand], arguments: Sequence[Any]
) -> Any:
    """A function of arrays of these types, which stores the results for one item."""
    function = body(definition)
    # What the body is given, as text and as a type.
    names = [f"a{k}" for k in range(len(arguments))]
    operands = list(zip(names, arguments, strict=True))
    results = operands[len(operands) - len(outputs) :]
    values = [
        (name, kind) if core else (f"{name}[0]", kind.dtype)
        for (name, kind), core in zip(operands, definition.cores, strict=False)
    ]
    given = dict(zip(definition.given, values, strict=True))
    given |= dict(zip(definition.outs, results, strict=False))
    order = [given[name] for name in definition.parameters]
    # Alone first: then errors are those of the user's text.
    function.compile(tuple(kind for _, kind in order))
    text = f"body({', '.join(value for value, _ in order)})"
    if not definition.outs:
        text = "\n    ".join(
            [f"{', '.join(f'value{k}' for k in range(len(outputs)))} = {text}"]
            + [_store(k, results[k][0], outputs[k]) for k in range(len(outputs))]
        )
    found: dict[str, Any] = {"body": function, "WrongShape": WrongShape, "__name__": __name__}
    exec(f"def stored({', '.join(names)}):\n    {text}", found)
    found["stored"].__qualname__ = f"{definition.token}.stored"
    # Within the loop, not called by it: 1e6 cross products take 3 ms, and 16 ms else (a Xeon).
    return njit(**INSIDE, forceinline=True)(found["stored"])


def _store(number: int, out: str, operand: Operand) -> str:
    """The lines that store a result."""
    value = f"value{number}"
    if not operand.core:
        return f"{out}[0] = {value}"
    wrong = f"raise WrongShape({number + 1}, {value}.shape)"
    return f"if {value}.shape != {out}.shape: {wrong}\n    {out}[...] = {value}"
