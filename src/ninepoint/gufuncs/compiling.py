"""From a gufunc to the machine code of its loop."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.numba import emit
from . import inside
from .bodies import linked, plain_tree
from .definition import GufuncDefinition, Types
from .in_place import WORDS, made_in_place, rewritten
from .inferring import core_type, explained, flags, out_type
from .loop import ENTRY, Operand, loop_module

# Machine code that is in Numba's engine stays as long as what Numba holds of it.
_held: list[Any] = []


def object_code(
    definition: GufuncDefinition,
    types: Types,
    natural: Sequence[np.dtype[Any]],
    dtypes: Sequence[np.dtype[Any]],
) -> tuple[bytes, tuple[str, ...]] | None:
    """The loop as object code with the names of what it calls; nothing where that cannot be."""
    with explained(definition):
        function, signature, entries = _parts(definition, types, natural, dtypes, ENTRY)
        return emit.object_code(function, signature, entries=entries, **flags(definition))


def address_here(
    definition: GufuncDefinition,
    types: Types,
    natural: Sequence[np.dtype[Any]],
    dtypes: Sequence[np.dtype[Any]],
    number: int,
) -> int:
    """Where the loop begins, compiled for this process alone."""
    entry = f"{ENTRY}_{number}"
    with explained(definition):
        function, signature, entries = _parts(definition, types, natural, dtypes, entry)
        address, held = emit.address_here(
            function, signature, entry, entries=entries, **flags(definition)
        )
    _held.append(held)
    return address


def body(
    definition: GufuncDefinition,
    natural: Sequence[np.dtype[Any]],
    dtypes: Sequence[np.dtype[Any]],
) -> tuple[ast.FunctionDef, dict[str, str]]:
    """The tree that is compiled, and what the words of `in_place` are called in it."""
    tree = plain_tree(definition.function)
    if definition.outs:
        return tree, {}
    words = _words(tree)
    made = made_in_place(definition, tree)
    same = {k: one for k, one in made.items() if natural[k] == dtypes[k]}
    rewritten(tree, same, definition.signature.outputs, words)
    return tree, words


def _parts(
    definition: GufuncDefinition,
    types: Types,
    natural: Sequence[np.dtype[Any]],
    dtypes: Sequence[np.dtype[Any]],
    entry: str,
) -> tuple[Any, Any, Callable[[Any, Any], Any]]:
    """The function, Numba's signature of it, and what writes the loop around it."""
    from numba import njit
    from numba import types as kinds

    def called(function: Any) -> Any:
        return njit(**flags(definition))(function)

    tree, words = body(definition, natural, dtypes)
    more: dict[str, Any] = {}
    if words:
        more = {words["wrong"]: inside.WRONG, words["shape_of"]: inside.shape_of}
    function = linked(definition, tree, more, called)
    operands = _operands(definition, types, dtypes)
    inputs, outs = len(types.inputs), len(dtypes)
    named = {name: k for k, name in enumerate((*definition.inputs, *definition.scalars))}
    results = range(len(operands) - outs, len(operands))
    named |= dict(zip(definition.outs, results, strict=False))
    order = [named[name] for name in definition.function.parameters]
    if words:
        order += results
    arguments = [operands[k].kind for k in order]
    if words:
        arguments.append(kinds.Array(kinds.int64, 1, "C"))
    assert len(operands) == inputs + len(types.scalars) + outs

    def entries(context: Any, described: Any) -> Any:
        return loop_module(context, described, operands, order, bool(words), entry)

    return function, kinds.void(*arguments), entries


def _operands(
    definition: GufuncDefinition, types: Types, dtypes: Sequence[np.dtype[Any]]
) -> list[Operand]:
    """The arrays of a call, in NumPy's order."""
    signature = definition.signature
    numbers = {name: k for k, name in enumerate(signature.names)}
    operands = []
    for dtype, core in zip(types.inputs, signature.inputs, strict=True):
        kind = core_type(dtype, len(core), readonly=True)
        operands.append(Operand(kind, tuple(numbers[name] for name in core), False))
    operands += [Operand(core_type(one, 0, readonly=True), (), False) for one in types.scalars]
    for dtype, core in zip(dtypes, signature.outputs, strict=True):
        kind = out_type(dtype, len(core))
        operands.append(Operand(kind, tuple(numbers[name] for name in core), True))
    return operands


def _words(tree: ast.FunctionDef) -> dict[str, str]:
    """Words for what the rewritten text says, with which no name of the user's begins."""
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    taken |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    end = ""
    while any(name.startswith(f"{word}{end}") for name in taken for word in WORDS):
        end += "_"
    return {word: f"{word}{end}" for word in WORDS}
