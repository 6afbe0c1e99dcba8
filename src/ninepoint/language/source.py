"""Find the text of a live function, and freeze everything that the text refers to.

The place of a function says which piece of text is its own.  To know whether the text is still
what Python read, it is compiled again: the code must be the same, but for where it stands.  Python
compiles a call `math.sqrt(x)` otherwise where `import math` stands in the same text, and a
notebook compiles each statement of a cell by itself: so a text is compiled as a whole and by its
statements.

Globals and closure values are read once, here; helper functions are captured with what they refer
to in turn.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import copy
import dis
import functools
import inspect
import linecache
import os
import sys
import sysconfig
import time
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ..base.frozen import frozen
from . import statistics
from .definitions import (
    ArrayFunction,
    Definition,
    Function,
    SelfReference,
    Spacing,
    Unusable,
    dotted,
    index,
    own_nodes,
    parsed,
    spacing,
)
from .dtypes import is_masked, widened
from .errors import Span, StencilError, alike, mistake
from .functions import from_numpy, is_shape, origin
from .signature import give_defaults

# A file that was not touched since is as Python read it.
_BEGIN = time.time()

# With what a cell of a notebook imports from `__future__` all later ones are compiled.
_FUTURE = __future__.annotations.compiler_flag

# Where packages are installed.
_FOLDERS = tuple(
    os.path.join(sysconfig.get_path(name), "")
    for name in ("purelib", "platlib", "stdlib", "platstdlib")
)


# The functions that are captured already, each for the one that calls it.
_Active: TypeAlias = frozenset[types.CodeType]


def capture(function: types.FunctionType, active: _Active = frozenset()) -> Function:
    """Find the source of `function` and freeze the values of the names in it.

    Raises
    ------
    StencilError
        If the source cannot be found, is not that of the function any more, does not tell which
        of several functions is meant, or refers to a name that does not exist.
    """
    code, name = function.__code__, function.__name__
    found = _text(function)
    if found is None:
        raise mistake("source-missing", place_of(code, name), name)
    here = place_of(code, found.lines[min(code.co_firstlineno, len(found.lines)) - 1])
    node = _definition(found, code, here)
    if node is None:
        raise mistake("source-changed", here, name)
    captured = Function(
        name,
        code.co_filename,
        node.lineno,
        "\n".join(found.lines[node.lineno - 1 : node.end_lineno]),
        (node.col_offset, node.end_col_offset or 0) if isinstance(node, ast.Lambda) else None,
        {},
        {},
    )
    arguments = captured.definition.args
    if extra := arguments.vararg or arguments.kwarg:
        raise mistake("parameter-kind", captured.span(extra), extra.arg)
    for one in (captured.definition, *own_nodes(captured.definition)):
        if word := _WAITING.get(type(one)):
            raise mistake("generator", captured.span(one), word)
    active |= {code}
    constants = dict(_constants(captured, function, active))
    # Not by its signature: annotations may name what does not exist.
    positional = reversed(code.co_varnames[: code.co_argcount])
    given = dict(zip(positional, reversed(function.__defaults__ or ()), strict=False))
    given |= function.__kwdefaults__ or {}
    # A constant of a kernel is no spacing, but a default may be.
    defaults = {
        name: value if isinstance(value, Spacing) else _freeze(value, active)
        for name, value in given.items()
    }
    return replace(captured, constants=constants, defaults=defaults)


# What makes a generator or a coroutine of a function.
_WAITING: dict[type[ast.AST], str] = {
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Await: "await",
    ast.AsyncFunctionDef: "async",
}

# Freezing what the names mean.


def _constants(
    function: Function, live: types.FunctionType, active: _Active
) -> Iterator[tuple[str, Any]]:
    code, enclosing = live.__code__, dict[str, Any]()
    for name, cell in zip(code.co_freevars, live.__closure__ or (), strict=True):
        # It may have no value yet.
        with suppress(ValueError):
            enclosing[name] = cell.cell_contents
    empty = dict.fromkeys(code.co_freevars, _EMPTY)
    space = {**vars(builtins), **live.__globals__, **empty, **enclosing}
    # What the code, or a function inside it, looks up outside of all functions.
    steps = (step for one in codes_in(code) for step in dis.get_instructions(one))
    outside = {*empty, *(step.argval for step in steps if step.opname == "LOAD_GLOBAL")}
    for node, (root, *attributes) in _name_uses(function.definition.body):
        if root not in outside:
            continue
        value = space.get(root, _EMPTY)
        if root == live.__name__ and root not in enclosing:
            value = SelfReference(root)
        if value is _EMPTY:
            known = () if root in empty else (*code.co_varnames, *space)
            raise mistake("undefined-name", function.span(node), root, _perhaps(root, known))
        name = root
        for attribute in attributes:
            if not isinstance(value, types.ModuleType | types.SimpleNamespace | type):
                break
            name = f"{name}.{attribute}"
            if not hasattr(value, attribute):
                close = _perhaps(attribute, [n for n in dir(value) if n[0] != "_"])
                raise mistake("undefined-name", function.span(node), name, close)
            value = getattr(value, attribute)
        held = _freeze(value, active)
        yield name, replace(held, value=value) if isinstance(held, Unusable) else held


def _perhaps(name: str, known: Iterable[str]) -> str:
    close = alike(name, known)
    return f" Perhaps you mean '{close}'." if close else ""


# What stands for a variable of the enclosing function that has no value yet.
_EMPTY = object()


def _name_uses(part: Any) -> Iterator[tuple[ast.expr, list[str]]]:
    """Every use of a name, with the attributes that follow it; annotations are not uses."""
    if isinstance(part, list):
        for one in part:
            yield from _name_uses(one)
    elif name := dotted(part):
        if isinstance(part, ast.Attribute) or isinstance(part.ctx, ast.Load):
            yield part, name.split(".")
    elif isinstance(part, ast.AST):
        for field, one in ast.iter_fields(part):
            if field not in ("annotation", "returns"):
                yield from _name_uses(one)


def _freeze(value: Any, active: _Active) -> Any:
    """The value as something that never changes and can be pickled."""
    value = widened(value)
    match value:
        case _ if is_masked(value):
            return Unusable("a masked array: fill it first, with .filled(value)")
        case np.generic() | np.ndarray() if (
            value.dtype.kind not in "biufc" or value.dtype.char in "gG"
        ):
            words = "an array" if isinstance(value, np.ndarray) else "a number"
            return Unusable(f"{words} of dtype {value.dtype}")
        case np.ndarray():
            array = np.array(value)
            array.flags.writeable = False
            return array
        case tuple() | list():
            return tuple(_freeze(item, active) for item in value)
        case np.dtype():
            return value.type
        case type():
            known = origin(value) in ("builtins", "numpy")
            return value if known else Unusable(f"the class '{value.__name__}'")
        case Spacing():
            words = f"{value!r}, for a default in the signature of a stencil; give a number"
            return Unusable(words)
        case types.ModuleType():
            return Unusable(f"the module '{value.__name__}'")
        case (
            None | int() | float() | complex() | str() | slice() | np.generic() | np.ufunc()
            | SelfReference() | ArrayFunction() | types.BuiltinFunctionType()
        ):  # fmt: skip
            return value
    plain = getattr(value, "py_func", value)
    if from_numpy(plain) or is_shape(plain):
        return value
    if not isinstance(plain, types.FunctionType):
        return Unusable(f"a value of type '{type(value).__name__}'")
    if plain in (*statistics.PRIMITIVE, index):
        return value
    if plain is spacing:
        return Unusable("for a default in the signature of a stencil, as dx=npt.spacing(0)")
    if plain.__code__ in active:
        return SelfReference(plain.__name__)
    if origin(plain) == "ninepoint" and plain.__code__.co_filename != statistics.__file__:
        # Those of this package take whole arrays: filters, `imread` and others.
        return Unusable("for outside: give what it makes as a field, or to the decorator")
    try:
        return capture(plain, active)
    except StencilError as error:
        if error.diagnostic.code == "source-missing":
            return Unusable(f"a function whose source cannot be found ('{plain.__name__}')")
        home = package(plain.__code__.co_filename)
        if not home:
            raise
        why = error.diagnostic.message.rstrip(".")
        return Unusable(f"a function of '{home}' that cannot be compiled: {why}")


def live_names(function: Function) -> dict[str, Any]:
    """What the names in the text of a function mean, for Python to run it."""
    names: dict[str, Any] = {"__builtins__": builtins}
    # A module's own name comes before those in it.
    for name, value in sorted(function.constants.items()):
        *modules, last = name.split(".")
        live = value.value if isinstance(value, Unusable) else value
        live = rebuild(live) if isinstance(live, Function) else live
        if isinstance(live, types.ModuleType):
            # A copy, for what the names in it meant is put there.
            module, live = live, types.ModuleType(last)
            vars(live).update(vars(module))
        space = names
        for one in modules:
            # Numba too looks into modules.
            inner = space.setdefault(one, types.ModuleType(one))
            if not isinstance(inner, types.ModuleType):
                break
            space = vars(inner)
        else:
            space[last] = live
    return names


def rebuild(
    function: Function, names: dict[str, Any] | None = None, by_place: bool = False
) -> Any:
    """Make a live Python function again, in a process that never saw the user's module.

    `names` are its globals, which may be filled later.  If it is asked, all its parameters may be
    given `by_place`.
    """
    names = live_names(function) if names is None else names
    # Without defaults: their names may mean nothing here.  Annotations are no code in this file.
    definition = copy.deepcopy(function.definition)
    given = definition.args
    if by_place:
        given.args = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        given.posonlyargs, given.kwonlyargs = [], []
    given.defaults, given.kw_defaults = [], [None for _ in given.kwonlyargs]
    if isinstance(definition, ast.Lambda):
        made = eval(compile(ast.Expression(definition), function.file, "eval"), names)
    else:
        definition.decorator_list = []
        exec(compile(ast.Module([definition], []), function.file, "exec"), names)
        made = names[definition.name]
        made.__name__ = function.name
    give_defaults(made, function.defaults)
    return made


# Places.


def place_of(code: types.CodeType, text: str) -> Span:
    """Where a function begins, in a line of this text."""
    line = text.rstrip("\n")
    return Span(code.co_filename, code.co_firstlineno, 0, len(line), line)


def package(file: str) -> str:
    """The package that a file was installed with; empty for the user's own."""
    for folder in _FOLDERS:
        if file.startswith(folder):
            return file[len(folder) :].partition(os.sep)[0].removesuffix(".py")
    return ""


# Texts.


@frozen
class _Text:
    """A text with every function in it: as syntax, and as the code Python makes of it."""

    lines: list[str]
    nodes: list[Definition]
    codes: list[types.CodeType]


def _text(function: types.FunctionType) -> _Text | None:
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        # What was written at a prompt or behind `-c`: all of it has one file's name.
        with suppress(OSError):
            lines, _ = inspect.findsource(function)
    for text in ["".join(lines)] if lines else _timed_cells():
        found = _parsed(code.co_filename, text, code.co_flags & _FUTURE)
        if lines or (found and _alike(found.codes, code)):
            return found
    return None


@functools.lru_cache(maxsize=32)
def _parsed(file: str, text: str, flags: int) -> _Text | None:
    # A cell of a notebook may await something next to its functions.
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = parsed(text)
        parts: list[Any] = [text, *(ast.Module([statement], []) for statement in tree.body)]
        made = [compile(one, file, "exec", flags=flags, dont_inherit=True) for one in parts]
    except (SyntaxError, ValueError):
        return None
    nodes = [node for node in ast.walk(tree) if isinstance(node, Definition)]
    codes = [code for one in made for code in codes_in(one)]
    return _Text(text.rstrip("\n").split("\n"), nodes, codes)


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Some code, and that of every function inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def _timed_cells() -> Iterator[str]:
    """The cells that IPython timed, the last first: their text has no file's name."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cells = getattr(getattr(shell, "history_manager", None), "input_hist_raw", ())
    for cell in reversed(cells):
        first, _, body = cell.lstrip().partition("\n")
        if first.startswith("%%time") and body:
            yield shell.transform_cell(body)


# The definition in a text.


def _definition(found: _Text, code: types.CodeType, here: Span) -> Definition | None:
    """What a function was made from: it stands there still, or lines were put before it.

    A tool may have rewritten the text before it was compiled, so that the code does more than the
    text says.  Then the text counts, if nobody can have changed it since.
    """
    place = code.co_name, code.co_firstlineno
    there = [one for one in found.codes if (one.co_name, one.co_firstlineno) == place]
    alike = _alike(there, code)
    if not alike and _steady(code.co_filename):
        alike = [one for one in there if {*one.co_names} <= {*code.co_names}]
    if not alike and code.co_name != "<lambda>":
        alike = _alike(found.codes, code)
    nodes = [node for node in found.nodes if any(_matches(node, one) for one in alike)]
    if len(nodes) > 1 and code.co_name == "<lambda>":
        nodes = [n for n in nodes if isinstance(n, ast.Lambda) and _surrounds(n.body, code)]
        if not nodes:
            raise mistake("lambda-ambiguous", here)
        # Of lambdas inside lambdas the innermost: an outer one has places outside the inner.
        nodes.sort(key=lambda n: (n.lineno, n.col_offset))
    return nodes[-1] if nodes else None


def _matches(node: Definition, code: types.CodeType) -> bool:
    name = getattr(node, "name", "<lambda>")
    first = min(one.lineno for one in (node, *getattr(node, "decorator_list", ())))
    return name == code.co_name and first <= code.co_firstlineno <= node.lineno


def _surrounds(node: ast.expr, code: types.CodeType) -> bool:
    """Whether everything that `code` does stands inside `node`; no if nothing is known."""
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    places = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if column is not None and (line, column) != (end_line, end_column)
    ]
    return bool(places) and all(first <= start and end <= last for start, end in places)


def _steady(file: str) -> bool:
    """Whether the text of a file cannot have changed since Python read it."""
    if file.startswith("<ipython-input-") or "ipykernel_" in file:
        return True  # named by its content
    try:
        status = os.stat(file)
    except OSError:
        return False
    return max(status.st_mtime, status.st_ctime) < _BEGIN


def _alike(codes: list[types.CodeType], code: types.CodeType) -> list[types.CodeType]:
    """Those that do the same as some code; where they stand may differ."""
    return [one for one in codes if _placeless(one) == _placeless(code)]


def _placeless(code: types.CodeType) -> types.CodeType:
    parts = (_placeless(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(
        co_consts=tuple(parts), co_firstlineno=1, co_linetable=b"", co_qualname="", co_flags=0
    )
