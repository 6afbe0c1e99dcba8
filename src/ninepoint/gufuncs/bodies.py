"""From the text of a function to one that Numba compiles, with what its names meant.

    def mean(x): return np.sum(x) / SCALE     ->     def mean(x): return a0(x) / a1
                                                     a0 = np.sum, a1 = 100, as they were

Every name that is found outside becomes one of our own, so that the function means the same in a
process that has neither the user's file nor modules.  Functions that it calls are compiled with
it.  Lines stay those of the user's file: Numba's errors lead there.
"""

from __future__ import annotations

import ast
import builtins
import functools
import types
from collections.abc import Mapping
from typing import Any

from ..language import errors
from ..language.source import ArrayFunction, Function, SelfReference, Unusable
from ..language.trees import copied
from .definition import FROM_LAMBDA, GufuncDefinition

# Functions that are called from machine code alone need no door to Python.
INSIDE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def jitted(definition: GufuncDefinition, tree: ast.FunctionDef, more: Mapping[str, Any]) -> Any:
    """Numba's function of a tree, which was made from the user's and also names what is in `more`.

    Raises
    ------
    StencilError
        If it names what cannot be used.
    """
    linker = _Linker(definition)
    return linker.compiled(linker.function(definition.function, tree, more), forceinline=True)


@functools.lru_cache(maxsize=16)
def body(definition: GufuncDefinition) -> Any:
    """Numba's function of the user's text as it stands, which holds what is compiled of it."""
    return jitted(definition, body_tree(definition), {})


def body_tree(definition: GufuncDefinition) -> ast.FunctionDef:
    """A copy of the tree of the gufunc's function, to which all is given by its place."""
    tree = plain_tree(definition.function)
    given = tree.args
    given.args = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    given.posonlyargs, given.kwonlyargs, given.defaults, given.kw_defaults = [], [], [], []
    return tree


def plain_tree(function: Function) -> ast.FunctionDef:
    """A copy of a function's tree as that of a `def`, without decorators and annotations."""
    tree = copied(function.definition)
    if isinstance(tree, ast.Lambda):
        back = ast.copy_location(ast.Return(tree.body), tree.body)
        tree = ast.copy_location(_def(FROM_LAMBDA, tree.args, [back]), tree)
    tree.decorator_list, tree.returns = [], None
    for argument in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
        argument.annotation = None
    return tree


def free_word(tree: ast.FunctionDef, word: str) -> str:
    """The word, or a longer one, with which no name of the function begins."""
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    taken |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    while any(name.startswith(word) for name in taken):
        word += "_"
    return word


def _def(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    known: dict[str, Any] = {"name": name, "args": arguments, "body": body, "decorator_list": []}
    if "type_params" in ast.FunctionDef._fields:
        known["type_params"] = []
    return ast.FunctionDef(**known)


class _Linker:
    """Makes functions whose names are bound to values."""

    def __init__(self, definition: GufuncDefinition) -> None:
        self._definition = definition
        # What a function that is being made is called by its own text.
        self._active: dict[str, Any] = {}
        self._made: dict[int, Any] = {}

    def function(
        self, function: Function, tree: ast.FunctionDef, more: Mapping[str, Any]
    ) -> types.FunctionType:
        made, fresh = self._begun(function, tree)
        self._bind(function, made, fresh)
        made.__globals__.update(more)
        return made

    def compiled(self, function: types.FunctionType, **more: Any) -> Any:
        # Imported here, not above: to explain a gufunc needs no Numba.
        from numba import njit

        from ..backends.numba.compilers import BoundedCompiler

        options = self._definition.options
        found = {"error_model": "numpy", "fastmath": options.fastmath, **INSIDE, **more}
        if options.boundscheck:
            found |= {"boundscheck": True, "pipeline_class": BoundedCompiler}
        return njit(**found)(function)

    def _begun(
        self, function: Function, tree: ast.FunctionDef
    ) -> tuple[types.FunctionType, dict[str, str]]:
        """A function whose names mean nothing yet, and what they are now."""
        prefix = free_word(tree, "a")
        outside = [n for n, v in function.constants.items() if getattr(builtins, n, None) is not v]
        fresh = {name: f"{prefix}{k}" for k, name in enumerate(outside)}
        _Renaming(fresh).visit(tree)
        tree.args.defaults = [_nothing(node) for node in tree.args.defaults]
        tree.args.kw_defaults = [node and _nothing(node) for node in tree.args.kw_defaults]
        # Numba imports the module of what it kept on disk.
        names: dict[str, Any] = {"__builtins__": builtins, "__name__": __name__}
        module = ast.fix_missing_locations(ast.Module([tree], []))
        exec(compile(module, function.file, "exec"), names)
        made: types.FunctionType = names[tree.name]
        # All that Numba has compiled is in one engine, where names of code from disk differ too.
        made.__qualname__ = f"{self._definition.token}.{tree.name}"
        keyword = {a.arg for a in tree.args.kwonlyargs}
        defaults = function.defaults
        made.__defaults__ = tuple(v for k, v in defaults.items() if k not in keyword) or None
        made.__kwdefaults__ = {k: v for k, v in defaults.items() if k in keyword} or None
        return made, fresh

    def _bind(
        self, function: Function, made: types.FunctionType, fresh: Mapping[str, str]
    ) -> None:
        for name, new in fresh.items():
            made.__globals__[new] = self._value(function, name, function.constants[name])

    def _value(self, function: Function, name: str, value: Any) -> Any:
        match value:
            case Function():
                return self._called(value)
            case SelfReference(name=own):
                return self._active[own]
            case Unusable(words=words):
                key = function.name, name
                if key not in self._definition.foreign:
                    raise errors.bad_constant(_place(function, name), name, words)
                return self._definition.foreign[key]
            case ArrayFunction():
                words = "a stencil, which makes whole arrays"
                raise errors.bad_constant(_place(function, name), name, words)
            case tuple():
                return tuple(self._value(function, name, one) for one in value)
            case _:
                return value

    def _called(self, function: Function) -> Any:
        """A function that the user's calls, compiled once however often it is named."""
        if id(function) not in self._made:
            tree = plain_tree(function)
            plain, fresh = self._begun(function, tree)
            made = self.compiled(plain)
            self._made[id(function)] = made
            before = self._active.get(function.name)
            self._active[function.name] = made
            self._bind(function, plain, fresh)
            self._active[function.name] = before
        return self._made[id(function)]


def _nothing(node: ast.expr) -> ast.expr:
    """In the place of a default, whose value is known already."""
    return ast.copy_location(ast.Constant(None), node)


def _place(function: Function, name: str) -> errors.Span:
    """Where a function first says a name."""
    for node in ast.walk(function.definition):
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name:
            return function.span(node)
    return function.place


class _Renaming(ast.NodeTransformer):
    """Puts names of our own in the place of those that are found outside, dotted ones whole."""

    def __init__(self, fresh: Mapping[str, str]) -> None:
        self._fresh = fresh

    def _new(self, node: ast.expr) -> ast.expr | None:
        new = self._fresh.get(ast.unparse(node))
        return None if new is None else ast.copy_location(ast.Name(new, ast.Load()), node)

    def visit_Name(self, node: ast.Name) -> Any:
        return (isinstance(node.ctx, ast.Load) and self._new(node)) or node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        bare: ast.expr = node
        while isinstance(bare, ast.Attribute):
            bare = bare.value
        found = isinstance(bare, ast.Name) and isinstance(node.ctx, ast.Load) and self._new(node)
        return found or self.generic_visit(node)
