"""A function of the user as its text and what that refers to; trees of such texts.

    WEIGHT = 0.25
    def smooth(x): return WEIGHT * np.sqrt(x[0])
        ->  Function(name="smooth", text=..., constants={"WEIGHT": 0.25, "np.sqrt": np.sqrt})

A `Function` is all that the compiler ever looks at: it can be pickled, compared and read in a
process that has neither the file nor the modules of the user.

One thread makes trees of texts at a time: Python up to 3.12 counts how deep a tree is in one place
for all threads, and raises SystemError where two of them parse at once
(https://github.com/python/cpython/issues/106905).
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from ..base import undisturbed
from ..base.frozen import frozen
from . import statistics
from .errors import Span

Definition: TypeAlias = ast.FunctionDef | ast.Lambda

_DEF = re.compile(r"(async\s+)?def\s+")


@frozen
class Unusable:
    """A value that no kernel can use; it is an error only where it is used.

    The `value` itself stays in its process.
    """

    words: str
    value: Any = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> Any:
        return Unusable, (self.words,)


@frozen
class SelfReference:
    """A function that is being captured already: calling it would be a recursion."""

    name: str


class ArrayFunction:
    """A function of whole arrays that a kernel may call on its fields: what it gives is a stage.

    It never changes, and can be pickled.  Its `definition` is what it means, to those that
    compile it.
    """

    definition: Any


@frozen
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

    def parsed(self) -> Definition:
        """The syntax tree of its text, which nobody else has: it may be changed."""
        return _parsed.__wrapped__(self.text, self.first_line, self.columns)

    @property
    def own(self) -> bool:
        """Whether it is one of this package, whose text is none of the user's."""
        return self.file == statistics.__file__

    @property
    def parameters(self) -> tuple[str, ...]:
        arguments = self.definition.args
        return tuple(a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs)

    def span(self, node: Any) -> Span:
        """Where `node`, a part of the definition that has a place, stands in the file."""
        line = node.lineno
        text = self.text.split("\n")[line - self.first_line]
        start, end = characters(text, node.col_offset), len(text)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if found := _DEF.match(text, start):
                start, end = found.end(), found.end() + len(node.name)
        elif node.end_lineno == line:
            end = characters(text, node.end_col_offset)
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
        whole: Any = parsed(f"({' ' * (start - 1)}{piece})")
        tree = whole.body[0].value
    elif text[:1].isspace():
        whole = parsed("if 1:\n" + text)
        tree = whole.body[0].body[0]
    else:
        tree = parsed(text).body[0]
    ast.increment_lineno(tree, first_line - tree.lineno)
    assert isinstance(tree, ast.FunctionDef | ast.Lambda)
    return tree


def characters(text: str, column: int) -> int:
    """A column in characters, from `ast`'s column in UTF-8 bytes."""
    return len(text.encode()[:column].decode(errors="ignore"))


# What the text of a function holds.


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
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from own_nodes(child)


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


def stored_names(nodes: Iterable[Any]) -> set[str]:
    """The names that statements bind, or write elements of; not those of functions inside them."""
    found = set[str]()
    for node in own_nodes(ast.Module([*nodes], [])):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Subscript(value=ast.Name(id=name), ctx=ast.Store())
            ):
                found.add(name)
    return found


def dotted(node: Any) -> str:
    """The text of a name, or of attributes of one, as `a.b.c`; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            head = dotted(value)
            return head and f"{head}.{attribute}"
    return ""


def target_names(node: ast.expr) -> list[str]:
    """The names that are bound; none where something else is."""
    nodes = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    names = [one.id for one in nodes if isinstance(one, ast.Name)]
    return names if len(names) == len(nodes) else []


def parsed(text: str) -> ast.Module:
    """The tree of the text of a module."""
    with undisturbed.parsing:
        return ast.parse(text)
