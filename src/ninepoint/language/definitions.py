"""A function of the user as its text and what that refers to, and what the text asks for.

    WEIGHT = 0.25
    def smooth(x): return WEIGHT * np.sqrt(x[0])
        ->  Function(name="smooth", text=..., constants={"WEIGHT": 0.25, "np.sqrt": np.sqrt})

A `Function` is all that the compiler ever looks at: it can be pickled, compared and read in a
process that has neither the file nor the modules of the user.

One thread makes trees of texts at a time: Python up to 3.12 counts how deep a tree is in one place
for all threads, and raises SystemError where two of them parse at once
(https://github.com/python/cpython/issues/106905).

The text says which parameters are fields, those that are read with an index, here or in a helper;
of a function of numbers the signature says it.  It may ask for positions, where in the whole array
the point is:

    i, j = npt.index(x)      ->     i = read index0, j = read index1: fields that hold 0, 1, 2, ...

A kernel is called with a field more for each position that it asks for, which nobody gives by
name: a number for each place along one axis, the same along all others.

A result of k times as many points is read at p = k * I + r, where I counts the elements.  So for
the phase r

    (p + 3) % 2     ->     (r + 3) % 2          a number
    (p + 3) // 2    ->     I + (r + 3) // 2     the element (r + 3) // 2 away: an offset
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from ..base import undisturbed
from ..base.frozen import frozen
from ..base.tracebacks import door
from .errors import Span
from .functions import PYTHON

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


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
        """The syntax tree, with the line numbers of the file; who changes it copies it first."""
        return self.tree or _parsed(self.text, self.first_line, self.columns)

    @property
    def parameters(self) -> tuple[str, ...]:
        arguments = self.definition.args
        return tuple(a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs)

    def span(self, node: Any) -> Span:
        """Where `node`, a part of the definition that has a place, stands in the file."""
        line = node.lineno
        text = self.text.split("\n")[line - self.first_line]
        start, end = characters(text, node.col_offset), len(text)
        if isinstance(node, ast.AsyncFunctionDef):
            end = start + len("async")
        elif isinstance(node, ast.FunctionDef):
            start = max(start, text.find(node.name, start + len("def")))
            end = start + len(node.name)
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
        text = f"({' ' * (start - 1)}{piece})"
    elif text[:1].isspace():
        text = "if 1:\n" + text
    tree = next(node for node in ast.walk(parsed(text)) if isinstance(node, Definition))
    ast.increment_lineno(tree, first_line - tree.lineno)
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

    values = (tuple(sorted(each.items())) for each in (function.constants, function.defaults))
    text = function.text if function.tree is None else ast.dump(function.tree)
    return (function.name, text, function.columns, *map(meant, values))


def own_nodes(node: ast.AST, *others: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a function in the order of its text, without those of functions inside it.

    Nor are there those inside nodes of `others` of these kinds.
    """
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, *others)):
            yield from own_nodes(child, *others)


def returned_values(definition: Definition) -> list[ast.expr]:
    """What a function returns, wherever it does so."""
    if isinstance(definition, ast.Lambda):
        return [definition.body]
    nodes = own_nodes(definition)
    return [node.value for node in nodes if isinstance(node, ast.Return) and node.value]


def with_helpers(function: Function) -> Iterator[Function]:
    """A function and all that it calls."""
    yield function
    for value in function.constants.values():
        if isinstance(value, Function):
            yield from with_helpers(value)


def stored_names(loop: ast.AST) -> set[str]:
    """The names that a loop binds, or writes elements of; not those of functions inside it."""
    found = set[str]()
    for node in own_nodes(loop):
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
    names = [*map(dotted, nodes)]
    return names if all(names) else []


def parsed(text: str) -> ast.Module:
    """The tree of the text of a module."""
    with undisturbed.parsing:
        return ast.parse(text)


# Which parameters are fields.


def passed(parameters: Iterable[str], call: ast.Call) -> list[tuple[str | None, str]]:
    """The names that a call gives, each with the parameter that it is for."""
    given: list[tuple[str | None, ast.expr]] = [*zip(parameters, call.args, strict=False)]
    given += [(keyword.arg, keyword.value) for keyword in call.keywords]
    return [(name, one.id) for name, one in given if isinstance(one, ast.Name)]


def array_parameters(function: Function) -> tuple[str, ...]:
    """The parameters of a function of numbers for which arrays are given.

    They can be given by position, and have no number for a default.
    """
    arguments = function.definition.args
    numbers = (int, float, complex, np.number, np.bool)
    return tuple(
        one.arg
        for one in (*arguments.posonlyargs, *arguments.args)
        if not isinstance(function.defaults.get(one.arg), numbers)
    )


# What is asked of an array as a whole, besides `len`.
_OF_WHOLE = frozenset("shape size ndim strides T".split())


def array_uses(function: Function, names: Collection[str]) -> Iterator[tuple[Span, str, bool]]:
    """Where the text of a function indexes one of these names, or asks for its length or shape.

    Each place comes with the name, and with whether it is the array as a whole that is asked.
    """
    for node in ast.walk(function.definition):
        match node:
            case ast.Subscript(value=ast.Name(id=name)):
                whole = False
            case ast.Attribute(value=ast.Name(id=name), attr=asked) if asked in _OF_WHOLE:
                whole = True
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]) if (
                function.constants.get("len", len) is len
            ):
                whole = True
            case _:
                continue
        if name in names:
            yield function.span(node), name, whole


def indices(function: Function, fields: Collection[str]) -> int | None:
    """With how many indices a function reads its fields, by the first read that its text shows.

    What the stencils make that it calls, it reads with as many.
    """
    nodes, arrays = list(ast.walk(function.definition)), {*fields}

    def is_array(node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return isinstance(function.constants.get(dotted(node.func)), ArrayFunction)
        return dotted(node) in arrays

    for node in nodes:
        if isinstance(node, ast.Assign) and is_array(node.value):
            arrays.update(target_names(node.targets[0]))
    for node in nodes:
        if isinstance(node, ast.Subscript) and is_array(node.value):
            if isinstance(node.slice, ast.Tuple):
                return len(node.slice.elts)
            known = function.constants.get(dotted(node.slice))
            return len(known) if isinstance(known, tuple) else 1
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=called)):
                if function.constants.get(dotted(called)) is index:
                    return len(names)
    helpers = [one for one in function.constants.values() if isinstance(one, Function)]
    return next(filter(None, (indices(one, one.parameters) for one in helpers)), None)


def asks_position(function: Function) -> bool:
    """Whether a function asks for the position of the point, or a helper that it calls does."""
    return any(
        value is index for one in with_helpers(function) for value in one.constants.values()
    )


def indexed_parameters(function: Function, active: tuple[Function, ...] = ()) -> set[str]:
    """The parameters that are read with an index, here or in a function they are given to."""
    active = (*active, function)
    parameters = set(function.parameters)
    nodes = list(ast.walk(function.definition))
    # As numbers do, those stand beside an operator.
    numbers = parameters - {*array_parameters(function)}
    alias: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.BoolOp():
                numbers.update(map(dotted, ast.iter_child_nodes(node)))
            case ast.Assign(targets=targets, value=ast.Name(id=source)):
                names = {*map(dotted, targets)} - parameters
                alias |= dict.fromkeys(names, alias.get(source, source))
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Name(id=name)):
                found.add(name)
            case ast.Call(func=called):
                # The names that a call gives for arrays; what a ufunc is given may be a number.
                helper, sure = function.constants.get(dotted(called)), True
                if helper is index:
                    some, arrays, sure = ["field"], ["field"], False
                elif isinstance(helper, ArrayFunction):
                    callee = helper.definition
                    some, arrays, sure = callee.parameters, callee.fields, not callee.pointwise
                elif isinstance(helper, Function) and helper not in active:
                    some, arrays = [*helper.parameters], [*indexed_parameters(helper, active)]
                else:
                    continue
                given = {one for name, one in passed(some, node) if name in arrays}
                found |= given if sure else given - numbers
    return {alias.get(name, name) for name in found} & parameters


# Positions, and the spacing of coordinates.


@door
def index(field: Any = None, /) -> Any:
    """Give the position of the point, in a kernel: whole numbers, one for each axis.

    Parameters
    ----------
    field : field of the kernel, optional
        The position in this field of its element ``field[0, ..., 0]``, in the whole array, however
        that is cut into chunks.  Without it, the position among the results, which is another
        one only where these are not as many as the elements (``boundary="valid"``, ``every=``).

    Returns
    -------
    int or tuple of int
        A number for a kernel of one axis, else one for each axis of the kernel.

    Raises
    ------
    TypeError
        If it is called outside of a kernel.

    Notes
    -----
    Of a local that is read elsewhere, as ``d[1]``, it is the position there: one more, also where
    the border's rule takes the elements of a field from somewhere else.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil
    ... def checkerboard(x):
    ...     i, j = npt.index(x)
    ...     return x[0, 0] if (i + j) % 2 == 0 else 0
    >>> checkerboard(np.ones((2, 4), int))
    array([[1, 0, 1, 0],
           [0, 1, 0, 1]])
    """
    raise TypeError(
        "npt.index gives the position of the point inside a kernel; call it in a function that is "
        "decorated with @npt.stencil, with a field of that: i, j = npt.index(x)."
    )


@frozen
class Line:
    """`scale * I + shift`, for a point I of the array that is read."""

    scale: int
    shift: int

    def combined(self, symbol: str, other: int, reflected: bool = False) -> Line | int | None:
        """It with a known number; a known number where I drops out, None where it is no line."""
        match symbol, reflected:
            case ("+", _) | ("-", False):
                steps = 1
            case "*", _ if other > 0:
                steps = 1
            case ("//" | "%", False) if other > 0:
                steps = other
            case "&", _ if other == 1:
                steps = 2
            case ">>", False if other >= 0:
                steps = 2**other
            case _:
                return None
        if self.scale % steps:
            return None
        first, second = (PYTHON[symbol](self.shift + one, other) for one in (0, self.scale))
        return first if first == second else Line(second - first, first)


# The element around which a point is.
ELEMENT = Line(1, 0)


@frozen
class Spacing:
    """Stands for the spacing along an axis of the kernel, until a call has arrays."""

    axis: int

    def __repr__(self) -> str:
        return f"npt.spacing({self.axis})"


@door
def spacing(axis: int, /) -> Any:
    """Give what a parameter may have for a default: the spacing of the coordinates along an axis.

    Parameters
    ----------
    axis : int
        The axis of the kernel, as its offsets count them.

    Returns
    -------
    Spacing
        For the signature of a stencil.  Where a call with xarray objects gives no value, it is
        the difference of neighbouring coordinates: a float, negative where they fall, and in
        seconds where they are dates.

    Raises
    ------
    TypeError
        If `axis` is no whole number.

    Notes
    -----
    A call raises an error where there are no such coordinates, or they are not evenly spaced: then
    the coordinate itself is a field for the kernel to take differences of.

    Examples
    --------
    >>> import ninepoint as npt
    >>> import xarray as xr
    >>> @npt.stencil(boundary="valid")
    ... def slope(u, dx=npt.spacing(0)):
    ...     return (u[1] - u[-1]) / (2 * dx)
    >>> height = xr.DataArray([0.0, 1.0, 4.0, 9.0], {"x": [0.0, 0.5, 1.0, 1.5]}, "x")
    >>> slope(height).values
    array([4., 8.])
    >>> slope(height.values, dx=0.5)
    array([4., 8.])
    >>> @npt.stencil(boundary="valid")
    ... def uneven(u, x):
    ...     return (u[1] - u[-1]) / (x[1] - x[-1])
    >>> apart = height.assign_coords(x=[0.0, 0.5, 2.0, 3.0])
    >>> uneven(apart, apart["x"]).values
    array([2. , 3.2])
    """
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"npt.spacing takes the number of an axis of the kernel, not {axis!r}.")
    return Spacing(axis)
