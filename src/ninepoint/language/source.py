"""Find the text of a function, and freeze everything that the text refers to.

    WEIGHT = 0.25
    def smooth(x): return WEIGHT * np.sqrt(x[0])
        ->  Function(name="smooth", lines=..., constants={"WEIGHT": 0.25, "np.sqrt": np.sqrt})

A `Function` is all that the compiler ever looks at: it can be pickled, compared and read in a
process that has neither the file nor the modules of the user.  Globals and closure values are
read once, here; helper functions are captured with what they refer to in turn.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from . import errors, statistics
from .definitions import (
    Definition,
    characters,
    codes_in,
    copied,
    expression,
    locate,
    package,
    parsed,
)
from .dtypes import widened
from .errors import Span, alike
from .functions import is_shape
from .positions import Spacing, index, spacing

# The functions of this package take whole arrays: filters, `imread` and others.
_PACKAGE = __name__.partition(".")[0]

_DEF = re.compile(r"(async\s+)?def\s+")


@dataclass(frozen=True, slots=True)
class Unusable:
    """A value that no kernel can use; it is an error only where it is used.

    The `value` itself stays in its process.
    """

    words: str
    value: Any = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> Any:
        return Unusable, (self.words,)


@dataclass(frozen=True, slots=True)
class SelfReference:
    """A function that is being captured already: calling it would be a recursion."""

    name: str


class ArrayFunction:
    """A function of whole arrays that a kernel may call on its fields: what it gives is a stage.

    It never changes, and can be pickled.  Its `definition` is what it means, to those that
    compile it.
    """

    definition: Any


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the user as its text and the values it refers to.

    `text` holds whole lines of the file from line `first_line` on; a lambda is the piece
    between two `columns`, of its first and of its last line.  `constants` maps names,
    dotted where they are attributes of modules, to values.  `tree` takes the place of what the
    text says, where a part of it was taken out.
    """

    name: str
    file: str
    first_line: int
    text: str
    columns: tuple[int, int] | None
    constants: Mapping[str, Any] = field(compare=False, repr=False)
    defaults: Mapping[str, Any] = field(compare=False, repr=False)
    tree: Definition | None = field(default=None, repr=False)

    @property
    def definition(self) -> Definition:
        """The syntax tree, with the line numbers of the file."""
        return self.tree or _parsed(self.text, self.first_line, self.columns)

    @property
    def own(self) -> bool:
        """Whether it is one of this package, whose text is none of the user's."""
        return self.file == statistics.__file__

    @property
    def parameters(self) -> tuple[str, ...]:
        arguments = self.definition.args
        return tuple(a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs)

    def span(self, node: ast.AST) -> Span:
        """Where `node`, a part of the definition, stands in the file."""
        line = getattr(node, "lineno", self.first_line)
        lines = self.text.split("\n")
        text = lines[min(max(line - self.first_line, 0), len(lines) - 1)]
        start, end = characters(text, getattr(node, "col_offset", 0)), len(text)
        if getattr(node, "end_lineno", line) == line:
            end = characters(text, getattr(node, "end_col_offset", len(text.encode())))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            end = len(text)
            if found := _DEF.match(text, start):
                start, end = found.end(), found.end() + len(node.name)
        return Span(self.file, line, start, end, text)

    @property
    def place(self) -> Span:
        """Where the function as a whole stands: its name."""
        return self.span(self.definition)


@functools.lru_cache(maxsize=512)
def _parsed(text: str, first_line: int, columns: tuple[int, int] | None) -> Definition:
    if columns is not None:
        start, end = columns
        data = text.encode()
        piece = data[start : data.rfind(b"\n") + 1 + end].decode()
        tree: Any = expression(f"({' ' * (start - 1)}{piece})")
    elif text[:1].isspace():
        tree = parsed("if 1:\n" + text).body[0].body[0]  # type: ignore[attr-defined]
    else:
        tree = parsed(text).body[0]
    ast.increment_lineno(tree, first_line - tree.lineno)
    assert isinstance(tree, ast.FunctionDef | ast.Lambda)
    return tree


def capture(function: Any) -> Function:
    """Find the source of `function` and freeze the values of the names in it.

    Raises
    ------
    StencilError
        If the source cannot be found, is not that of the function any more, or refers to a
        name that does not exist.
    """
    # Behind a function of `numba.njit` is one of Python.
    plain = getattr(function, "py_func", function)
    assert isinstance(plain, types.FunctionType), plain
    return _capture(plain, frozenset())


# The functions that are captured already, each for the one that calls it.
_Active: TypeAlias = frozenset[types.CodeType]


def _capture(function: types.FunctionType, active: _Active) -> Function:
    code = function.__code__
    lines, node = locate(function)
    last = node.end_lineno or node.lineno
    captured = Function(
        name=function.__name__,
        file=code.co_filename,
        first_line=node.lineno,
        text="\n".join(line.rstrip("\n") for line in lines[node.lineno - 1 : last]),
        columns=(node.col_offset, node.end_col_offset or 0)
        if isinstance(node, ast.Lambda)
        else None,
        constants={},
        defaults={},
    )
    _check_signature(captured)
    active |= {code}
    constants = dict(_constants(captured, function, active))
    # Not by its signature: annotations may name what does not exist.
    positional = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    given = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    given |= function.__kwdefaults__ or {}
    # A constant of a kernel is no spacing, but a default may be.
    defaults = {
        name: value if isinstance(value, Spacing) else _freeze(value, active)
        for name, value in given.items()
    }
    return replace(captured, constants=constants, defaults=defaults)


def _check_signature(function: Function) -> None:
    arguments = function.definition.args
    for extra in filter(None, (arguments.vararg, arguments.kwarg)):
        raise errors.parameter_kind(function.span(extra), extra.arg)
    for node in own_nodes(function.definition):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            word = "await" if isinstance(node, ast.Await) else "yield"
            raise errors.generator(function.span(node), word)


def meaning(function: Function) -> tuple[Any, ...]:
    """What a function does, wherever it stands: its text, and what its names mean."""

    def meant(value: Any) -> Any:
        if isinstance(value, Function):
            return meaning(value)
        return tuple(map(meant, value)) if isinstance(value, tuple) else value

    values = (*sorted(function.constants.items()), ("", None), *sorted(function.defaults.items()))
    text = function.text if function.tree is None else ast.dump(function.tree)
    return (function.name, text, function.columns, tuple((n, meant(v)) for n, v in values))


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function in the order of its text, without those of functions inside it."""
    pending = list(ast.iter_child_nodes(node))[::-1]
    while pending:
        child = pending.pop()
        yield child
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            pending += list(ast.iter_child_nodes(child))[::-1]


def returned_values(definition: Definition) -> list[ast.expr]:
    """What a function returns, wherever it does so."""
    if isinstance(definition, ast.Lambda):
        return [definition.body]
    found = [node for node in own_nodes(definition) if isinstance(node, ast.Return)]
    return [node.value for node in found if node.value is not None]


def with_helpers(function: Function) -> Iterator[Function]:
    """A function and all that it calls."""
    yield function
    for value in function.constants.values():
        if isinstance(value, Function):
            yield from with_helpers(value)


# Freezing what the names mean.


def bound_names(definition: ast.AST) -> set[str]:
    """Every name that a kernel gives a value to: parameters, locals, loop variables."""
    names: set[str] = set()
    for node in ast.walk(definition):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) if node is not definition:
                names.add(name)
            case _:
                pass
    return names


def stored_names(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that some statements bind, those of functions inside them left out."""
    pending, found = [*nodes], set[str]()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            inside = (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
            found |= {n.target.id for n in inside}
        elif not isinstance(node, ast.Lambda):
            pending += ast.iter_child_nodes(node)
    return found


def _constants(
    function: Function, live: types.FunctionType, active: _Active
) -> Iterator[tuple[str, Any]]:
    enclosing = closure(live)
    space = {**vars(builtins), **live.__globals__, **enclosing}
    outside = _global_names(live.__code__) | enclosing.keys()
    for node, (root, *attributes) in _name_uses(function.definition.body):
        if root not in outside:
            continue
        value = space.get(root, _EMPTY)
        if root == live.__name__ and enclosing.get(root, _EMPTY) is _EMPTY:
            value = SelfReference(root)
        if value is _EMPTY:
            known = () if root in enclosing else (*live.__code__.co_varnames, *space)
            raise errors.undefined_name(function.span(node), root, alike(root, known))
        name = root
        for attribute in attributes:
            if not isinstance(value, types.ModuleType | types.SimpleNamespace | type):
                break
            name = f"{name}.{attribute}"
            if not hasattr(value, attribute):
                close = alike(attribute, [n for n in dir(value) if n[0] != "_"])
                home = name.removesuffix(attribute)
                raise errors.undefined_name(function.span(node), name, close and home + close)
            value = getattr(value, attribute)
        frozen = _freeze(value, active)
        yield name, replace(frozen, value=value) if isinstance(frozen, Unusable) else frozen


def _global_names(code: types.CodeType) -> set[str]:
    """The names that the code, or a function inside it, looks up outside of all functions."""
    steps = (step for one in codes_in(code) for step in dis.get_instructions(one))
    return {step.argval for step in steps if step.opname == "LOAD_GLOBAL"}


# What stands for a variable of the enclosing function that has no value yet.
_EMPTY = object()


def closure(live: types.FunctionType) -> dict[str, Any]:
    """The variables of enclosing functions that `live` uses."""
    found: dict[str, Any] = {}
    for name, cell in zip(live.__code__.co_freevars, live.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            found[name] = _EMPTY
    return found


def _name_uses(body: Any) -> Iterator[tuple[ast.expr, list[str]]]:
    """Every use of a name, with the attributes that follow it; annotations are not uses."""
    pending = [body]
    while pending:
        one = pending.pop()
        # In the order of the text: the first mistake is the one that is shown.
        if isinstance(one, list):
            pending += reversed(one)
        elif chain := _chain(one):
            if isinstance(one, ast.Attribute) or isinstance(one.ctx, ast.Load):
                yield one, chain
        elif isinstance(one, ast.AST):
            parts = dict(ast.iter_fields(one))
            pending += reversed([parts[n] for n in parts if n not in ("annotation", "returns")])


def _chain(node: Any) -> list[str]:
    """`a.b.c` as ["a", "b", "c"]; empty for anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        head = _chain(node.value)
        return [*head, node.attr] if head else []
    return []


def _freeze(value: Any, active: _Active) -> Any:
    """The value as something that never changes and can be pickled."""
    if isinstance(value, SelfReference | ArrayFunction) or value is index:
        return value
    value = widened(value)
    if isinstance(value, np.generic | np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            return Unusable("a masked array: fill it first, with .filled(value)")
        if value.dtype.kind not in "biufc" or value.dtype.char in "gG":
            words = "an array" if isinstance(value, np.ndarray) else "a number"
            return Unusable(f"{words} of dtype {value.dtype}")
    if value is None or isinstance(
        value, bool | int | float | complex | str | np.number | np.bool | slice | np.ufunc
    ):
        return value
    if isinstance(value, type):
        known = value.__module__.partition(".")[0] in ("builtins", "numpy")
        return value if known else Unusable(f"the class '{value.__name__}'")
    if isinstance(value, np.ndarray):
        frozen = np.array(value)
        frozen.flags.writeable = False
        return frozen
    if isinstance(value, tuple | list):
        return tuple(_freeze(item, active) for item in value)
    if isinstance(value, np.dtype):
        return value.type
    plain = getattr(value, "py_func", value)
    if isinstance(plain, types.FunctionType):
        if _is_numpy(plain) or is_shape(plain) or plain in statistics.PRIMITIVE:
            return value
        if plain is spacing:
            return Unusable("for a default in the signature of a stencil, as dx=npt.spacing(0)")
        if plain.__code__ in active:
            return SelfReference(plain.__name__)
        if (plain.__module__ or "").startswith(f"{_PACKAGE}.") and not statistics.is_own(plain):
            return Unusable("a function of whole arrays: give the kernel what it makes as a field")
        try:
            return _capture(plain, active)
        except errors.StencilError as error:
            if error.diagnostic.code == "source-missing":
                return Unusable(f"a function whose source cannot be found ('{plain.__name__}')")
            home = package(plain.__code__.co_filename)
            if not home:
                raise
            why = error.diagnostic.message.rstrip(".")
            return Unusable(f"a function of '{home}' that cannot be compiled: {why}")
    if isinstance(value, types.BuiltinFunctionType) or _is_numpy(value):
        return value
    if isinstance(value, Spacing):
        return Unusable(f"{value!r}, for a default in the signature of a stencil; give a number")
    if isinstance(value, types.ModuleType):
        return Unusable(f"the module '{value.__name__}'")
    return Unusable(f"a value of type '{type(value).__name__}'")


def _is_numpy(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    return callable(value) and module.partition(".")[0] == "numpy"


def live_names(function: Function) -> dict[str, Any]:
    """What the names in the text of a function mean, for Python to run it."""
    names: dict[str, Any] = {"__builtins__": builtins}
    # A module's own name comes before those in it.
    for name, value in sorted(function.constants.items()):
        root, *attributes = name.split(".")
        live = rebuild(value) if isinstance(value, Function) else value
        if isinstance(live, types.ModuleType):
            # A copy, for what the names in it meant is put there.
            live = types.ModuleType(root)
            vars(live).update(vars(value))
        if not attributes:
            names[root] = live
            continue
        # Numba too looks into modules.
        space = names.setdefault(root, types.ModuleType(root))
        if not isinstance(space, types.ModuleType):
            continue
        for attribute in attributes[:-1]:
            if not hasattr(space, attribute):
                setattr(space, attribute, types.ModuleType(attribute))
            space = getattr(space, attribute)
        setattr(space, attributes[-1], live)
    return names


def rebuild(function: Function, names: dict[str, Any] | None = None) -> Any:
    """Make a live Python function again, in a process that never saw the user's module.

    `names` are its globals, which may be filled later.
    """
    names = live_names(function) if names is None else names
    definition = copied(function.definition)
    # Without defaults and annotations: their names may mean nothing here.
    arguments = definition.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        one.annotation = None
    arguments.defaults, arguments.kw_defaults = [], [None for _ in arguments.kwonlyargs]
    if isinstance(definition, ast.Lambda):
        made = eval(compile(ast.Expression(definition), function.file, "eval"), names)
    else:
        definition.decorator_list, definition.returns = [], None
        exec(compile(ast.Module([definition], []), function.file, "exec"), names)
        made = names[definition.name]
        made.__name__ = function.name
    named = {a.arg for a in arguments.kwonlyargs}
    defaults = function.defaults
    made.__defaults__ = tuple(v for k, v in defaults.items() if k not in named) or None
    made.__kwdefaults__ = {k: v for k, v in defaults.items() if k in named} or None
    return made
