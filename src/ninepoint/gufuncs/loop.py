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

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba import types as kinds
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import overload
from numba.np.ufunc.wrappers import _GufuncWrapper

from ..backends import cache
from .bodies import INSIDE, body, body_tree, jitted
from .compiled import Operand
from .definition import GufuncDefinition
from .in_place import made_in_place, take_places
from .inferring import core_type, explained, out_type
from .raising import WrongShape


@global_compiler_lock
def loop(
    definition: GufuncDefinition,
    natural: Sequence[np.dtype[Any]],
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    meaning: str,
) -> tuple[int, Any]:
    """Where the loop over a stack begins, and what has to be held as long as it is called.

    `natural` are the dtypes that the function gives, and `meaning` names all this on disk.
    """
    arguments = [core_type(one.dtype, max(len(one.core), 1), readonly=True) for one in inputs]
    arguments += [out_type(one.dtype, len(one.core)) for one in outputs]
    call = kinds.void(*arguments)
    kept = cache.kept_by_meaning(definition.name, meaning) if definition.kept else None
    found: Any = None
    if kept is not None:
        found = kept.load_overload(call, cpu_target.target_context)
    if found is None:
        with explained(definition):
            stored = _stored(definition, natural, outputs, call.args)
            stored.compile(call)
            found = stored.overloads[call.args]
            cores = [one.core for one in inputs], [one.core for one in outputs]
            made = _Loop(stored.py_func, found, *cores, cache=False, is_parfors=False)
            found = found._replace(library=made.build().library)
        if kept is not None:
            kept.save_overload(call, found)
    name = f"__gufunc__.{found.fndesc.mangled_name}"
    return found.library.get_pointer_to_function(name), found


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
    definition: GufuncDefinition,
    natural: Sequence[np.dtype[Any]],
    outputs: Sequence[Operand],
    arguments: Sequence[Any],
) -> Any:
    """A function of arrays of these types, which stores the results for one item."""
    tree = body_tree(definition)
    made = made_in_place(definition, tree)
    made = {k: one for k, one in made.items() if natural[k] == outputs[k].dtype}
    if made:
        function = jitted(definition, tree, {take_places(tree, made): taken})
    else:
        function = body(definition)
    # What the body is given, as text and as a type.
    names = [f"a{k}" for k in range(len(arguments))]
    operands = list(zip(names, arguments, strict=True))
    results = operands[len(operands) - len(outputs) :]
    cores = (*definition.signature.inputs, *((),) * len(definition.scalars))
    values = [
        (name, kind) if core else (f"{name}[0]", kind.dtype)
        for (name, kind), core in zip(operands, cores, strict=False)
    ]
    given = dict(zip((*definition.inputs, *definition.scalars), values, strict=True))
    given |= dict(zip(definition.outs, results, strict=False))
    order = [given[name] for name in definition.function.parameters] + [results[k] for k in made]
    # Alone first: then errors are those of the user's text.
    function.compile(tuple(kind for _, kind in order))
    text = f"body({', '.join(value for value, _ in order)})"
    if not definition.outs:
        text = "\n    ".join(
            [f"{', '.join(f'value{k}' for k in range(len(outputs)))} = {text}"]
            + [_store(k, results[k][0], outputs[k]) for k in range(len(outputs)) if k not in made]
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


def _shape(like):
    """The shape of an array, or of one that is made of that shape."""


@overload(_shape)
def _shape_of(like):
    if isinstance(like, kinds.Integer):
        return lambda like: (like,)
    if isinstance(like, kinds.Array):
        return lambda like: like.shape
    return lambda like: like


@njit(**INSIDE, forceinline=True)
def taken(number, out, like, fill):
    """The array for a result, which has this shape or that of `like`, filled unless by None."""
    shape = _shape(like)
    if out.shape != shape:
        raise WrongShape(number, shape)
    if fill is not None:
        out[...] = fill
    return out
