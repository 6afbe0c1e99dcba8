"""The function of the user as Numba's, and results made in place.

Results that it makes in arrays of its own may be made in those of the call instead:

    def f(x):                                    def f(x, out0):
        y = np.zeros(len(x))             ->          y = taken(1, out0, len(x), 0)
        ...                                          ...
        return y                                     return y

`taken` (see `compiled`) is `out0`, filled, if it has that shape.  So nothing is allocated for an
item, and nothing copied.  That is the same where the local is bound once, at the top of the
function, and is what every `return` gives at one place: until then nobody else has the memory, and
afterwards nobody reads the local.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backends.numba.compilers import BoundedCompiler
from ..backends.numba.users import jitted
from ..language.definitions import Definition, copied
from ..language.source import Function
from .definition import GufuncDefinition, returned_values

# What makes a new array of a shape, or like another array, and what fills it.
_FILLS: dict[Any, Any] = {
    np.empty: None,
    np.zeros: 0,
    np.ones: 1,
    np.full: ...,
    np.empty_like: None,
    np.zeros_like: 0,
    np.ones_like: 1,
    np.full_like: ...,
}


@functools.lru_cache(maxsize=16)
def body(definition: GufuncDefinition) -> Any:
    """Numba's function of the user's text as it stands, which holds what is compiled of it."""
    return _jitted(definition, body_tree(definition), {})


def body_in_place(
    definition: GufuncDefinition, tree: Definition, made: Mapping[int, Made], taken: Any
) -> Any:
    """Numba's function of the text, which is also given the arrays of results that it makes."""
    word, out = _free_word(tree, "taken"), _free_word(tree, "out")
    for number, one in made.items():
        tree.args.args.append(ast.arg(f"{out}{number}"))
        given = [ast.Constant(number + 1), ast.Name(f"{out}{number}", ast.Load())]
        call = ast.Call(ast.Name(word, ast.Load()), [*given, one.shape, one.fill], [])
        # An error leads to the user's line.
        one.place.value = ast.copy_location(call, one.place.value)
    return _jitted(definition, ast.fix_missing_locations(tree), {word: taken})


def body_tree(definition: GufuncDefinition) -> Definition:
    """A copy of the tree of the gufunc's function, to which all is given by its place."""
    tree = copied(definition.function.definition)
    given = tree.args
    given.args = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    given.posonlyargs, given.kwonlyargs = [], []
    return tree


def _free_word(tree: ast.AST, word: str) -> str:
    """The word, or a longer one, with which no name of the function begins."""
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    taken |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    while any(name.startswith(word) for name in taken):
        word += "_"
    return word


def _jitted(definition: GufuncDefinition, tree: Definition, more: Mapping[str, Any]) -> Any:
    """Numba's function of a tree, which was made from the user's and also names what is in `more`.

    Raises
    ------
    StencilError
        If it names what cannot be used.
    """
    options: dict[str, Any] = {"fastmath": definition.options.fastmath}
    if definition.options.boundscheck:
        options |= {"boundscheck": True, "pipeline_class": BoundedCompiler}
    function = replace(definition.function, tree=tree, defaults={})
    return jitted(function, definition.token, options, more)


# What is made in place.


@dataclass(frozen=True, slots=True)
class Made:
    """A local that is a result: where it is made, its shape or what it is like, what fills it."""

    local: str
    place: ast.Assign
    shape: ast.expr
    fill: ast.expr


def made_in_place(definition: GufuncDefinition, tree: Definition) -> dict[int, Made]:
    """The results of which it is proved that the call's own array may hold them, by number."""
    found: dict[int, Made] = {}
    cores = definition.signature.outputs
    if definition.outs or isinstance(tree, ast.Lambda):
        return found
    values = list(_results(tree, len(cores)))
    for number, core in enumerate(cores):
        names = {getattr(one[number], "id", "") for one in values}
        made = _made(definition.function, tree, names.pop()) if len(names) == 1 and core else None
        if made is not None and all(made.local != other.local for other in found.values()):
            found[number] = made
    return found


def _results(tree: ast.FunctionDef, count: int) -> Iterator[Sequence[ast.expr]]:
    """The results that each `return` gives, one by one; `...` where its text does not tell."""
    for value in returned_values(tree):
        if count == 1:
            yield [value]
        elif isinstance(value, ast.Tuple) and len(value.elts) == count:
            yield value.elts
        else:
            yield [ast.Constant(...)] * count


def _made(function: Function, tree: ast.FunctionDef, local: str) -> Made | None:
    """How a local is made, if that is done once and for all."""
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == local]
    bound = [n for n in names if not isinstance(n.ctx, ast.Load)]
    place = next((s for s in tree.body if isinstance(s, ast.Assign) and s.targets == bound), None)
    if place is None or local in function.parameters or not isinstance(place.value, ast.Call):
        return None
    call = place.value
    maker = function.constants.get(ast.unparse(call.func))
    if not callable(maker) or maker not in _FILLS:
        return None
    fill = _FILLS[maker]
    needed = 2 if fill is ... else 1
    # A dtype may follow, which is that of the result.  Any order but C's is another array.
    if not needed <= len(call.args) <= needed + 1 or any(k.arg != "dtype" for k in call.keywords):
        return None
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    return Made(local, place, call.args[0], call.args[1] if fill is ... else ast.Constant(fill))
