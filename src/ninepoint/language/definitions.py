"""Find the text of a live function: the lines it stands in, and its definition among them.

Where a function stands says which text is its own.  Whether that is still what Python read is
told by what Python makes of the text now: the code is the same, but for where it stands.  A call
`math.sqrt(x)` is another one beside `import math` than without, and a notebook compiles each
statement of a cell by itself: so a text is compiled as a whole and by its statements.

A node of `ast` may carry what other tools hung on it: IPython sets a `parent` when it shows a
traceback, and `ast.Load()` is one object in every tree of the process.  So of a node only what the
grammar gives it is copied.

One thread makes trees of texts at a time: Python up to 3.12 counts how deep a tree is in one place
for all threads, and raises SystemError where two of them parse at once
(https://github.com/python/cpython/issues/106905).
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import linecache
import os
import sys
import sysconfig
import threading
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from . import errors
from .errors import Span

Definition: TypeAlias = ast.FunctionDef | ast.Lambda
_Found: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Node = TypeVar("_Node", bound=ast.AST)

# A file that was not touched since is as Python read it.
_BEGIN = time.time()

# With what a cell of a notebook imports from `__future__` all later ones are compiled.
_FUTURE = __future__.annotations.compiler_flag

_TIMED = "<timed exec>"

# Where packages are installed.
_FOLDERS = tuple(
    os.path.join(sysconfig.get_path(name), "")
    for name in ("purelib", "platlib", "stdlib", "platstdlib")
)


@dataclass(frozen=True, slots=True)
class _Text:
    """A text with every function in it: as syntax, and as the code Python makes of it."""

    lines: list[str]
    nodes: list[_Found]
    codes: list[types.CodeType]


def locate(function: types.FunctionType) -> tuple[list[str], Definition]:
    """The lines of a function's text, and its definition, with the line numbers of these.

    Raises
    ------
    StencilError
        If there is no text, if it is not what the function was made from, or if it does not
        tell which of several functions is meant.
    """
    code, name = function.__code__, function.__name__
    found = _text(function)
    if found is None:
        raise errors.source_missing(place_of(code, name), name)
    here = place_of(code, found.lines[min(code.co_firstlineno, len(found.lines)) - 1])
    node = _definition(found, code, here)
    if node is None:
        raise errors.source_changed(here, name)
    if isinstance(node, ast.AsyncFunctionDef):
        text = found.lines[node.lineno - 1].rstrip("\n")
        start = characters(text, node.col_offset)
        span = Span(code.co_filename, node.lineno, start, start + len("async"), text)
        raise errors.generator(span, "async")
    return found.lines, node


def characters(text: str, column: int) -> int:
    """A column in characters, from `ast`'s column in UTF-8 bytes."""
    return len(text.encode()[:column].decode(errors="ignore"))


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


def _text(function: types.FunctionType) -> _Text | None:
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__) or _prompted(function)
    if lines:
        return _parsed(code.co_filename, "".join(lines), code.co_flags & _FUTURE)
    for text in _timed_cells() if code.co_filename == _TIMED else ():
        found = _parsed(_TIMED, text, code.co_flags & _FUTURE)
        if found is not None and any(_same(code, other) for other in found.codes):
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
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    codes = [code for one in made for code in codes_in(one)]
    return _Text(text.splitlines(keepends=True), nodes, codes)


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Some code, and that of every function inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def _prompted(function: types.FunctionType) -> list[str]:
    """What was written at a prompt or behind ``-c``: all of it has one file's name."""
    try:
        lines, _ = inspect.findsource(function)
    except OSError:
        return []
    return lines


def _timed_cells() -> Iterator[str]:
    """The cells that IPython timed, the last first: their text has no file's name."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cells = getattr(getattr(shell, "history_manager", None), "input_hist_raw", ())
    for cell in reversed(cells):
        first, _, body = cell.lstrip().partition("\n")
        if first.startswith("%%time") and body:
            yield shell.transform_cell(body)


# The definition in a text.


def _definition(found: _Text, code: types.CodeType, here: Span) -> _Found | None:
    """What a function was made from: it stands there still, or lines were put before it.

    A tool may have rewritten what it was given before it was compiled, so that the code does
    more than the text says.  The text is taken then, if nobody can have changed it.
    """
    place = code.co_name, code.co_firstlineno
    there = [one for one in found.codes if (one.co_name, one.co_firstlineno) == place]
    alike = [one for one in there if _same(code, one)]
    if not alike and _steady(code.co_filename):
        alike = [one for one in there if {*one.co_names} <= {*code.co_names}]
    if not alike and code.co_name != "<lambda>":
        alike = [one for one in found.codes if _same(code, one)]
    nodes = [node for node in found.nodes if any(_matches(node, one) for one in alike)]
    if len(nodes) > 1 and code.co_name == "<lambda>":
        nodes = [n for n in nodes if isinstance(n, ast.Lambda) and _surrounds(n.body, code)]
        if not nodes:
            raise errors.lambda_ambiguous(here)
        # Of lambdas inside lambdas the innermost: an outer one has places outside the inner.
        nodes.sort(key=lambda n: (n.lineno, n.col_offset))
    return nodes[-1] if nodes else None


def _matches(node: _Found, code: types.CodeType) -> bool:
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(one.lineno for one in decorators)])
    return name == code.co_name and first <= code.co_firstlineno <= node.lineno


def _surrounds(node: ast.expr, code: types.CodeType) -> bool:
    """Whether everything that `code` does stands inside `node`; no if nothing is known."""
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    places = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and column is not None and (line, column) != (end_line, end_column)
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


def _same(code: types.CodeType, other: types.CodeType) -> bool:
    """Whether two code objects do the same; where they stand may differ."""
    return code.co_name == other.co_name and _placeless(code) == _placeless(other)


def _placeless(code: types.CodeType) -> types.CodeType:
    parts = (_placeless(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(
        co_consts=tuple(parts), co_firstlineno=1, co_linetable=b"", co_qualname="", co_flags=0
    )


# Trees.


def copied(node: _Node) -> _Node:
    """A copy that shares no node with the original, however deep that is."""
    made: dict[ast.AST, Any] = {}

    def new(part: Any) -> Any:
        if isinstance(part, list):
            return [new(item) for item in part]
        return made[part] if isinstance(part, ast.AST) else part

    # What is in a node comes behind it.
    for one in reversed(list(ast.walk(node))):
        parts = {name: new(part) for name, part in ast.iter_fields(one)}
        made[one] = ast.copy_location(type(one)(**parts), one)
    copy: _Node = made[node]
    return copy


# Of texts.

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # No child is born while a thread that it does not have holds the lock.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


def parsed(text: str) -> ast.Module:
    """The tree of the text of a module."""
    with _lock:
        return ast.parse(text)


def expression(text: str) -> ast.expr:
    """The tree of the text of an expression."""
    with _lock:
        return ast.parse(text, mode="eval").body
