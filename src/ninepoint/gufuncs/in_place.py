"""Results that a function makes in its own arrays are made in those of the call instead.

    def f(x):                             def f(x, out0, told):
        y = np.empty(len(x))                  shape0 = (len(x),)
        for k in range(len(x)):     ->        if out0.shape[0] != shape0[0]: ...
            y[k] = 2 * x[k]                   y = out0
        return y                              for k in range(len(x)):
                                                  y[k] = 2 * x[k]
                                              return

That is the same where the local is bound once, at the top of the function, to a new array of
the result's type, is not seen by a function inside, and is what every `return` gives at one
place: until then nobody else has the memory, and afterwards nobody reads the local.  All other
results are stored where they are returned, `out0[...] = value`.  In both ways shapes are compared
first; what is wrong is written into `told`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..language.source import Function, bound_names, own_nodes
from .bodies import plain_tree
from .definition import GufuncDefinition, Types

# What makes a new array, and what fills it; by its shape, or as another array.
_FILLS: dict[Any, str | None] = {
    np.empty: None,
    np.zeros: "0",
    np.ones: "1",
    np.full: "value",
    np.empty_like: None,
    np.zeros_like: "0",
    np.ones_like: "1",
    np.full_like: "value",
}
_LIKE = (np.empty_like, np.zeros_like, np.ones_like, np.full_like)

# The dtypes by which a text names what Numba knows by the same name.
_KINDS = frozenset(
    getattr(np, name)
    for name in (
        "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
        "float32 float64 complex64 complex128"
    ).split()
)

# What the rewritten text says besides the user's names; each may end in a number.  The last two
# are found outside it.
WORDS = ("out", "told", "shape", "value", "wrong", "shape_of")


@dataclass(frozen=True, slots=True)
class Made:
    """A local that is a result: where it is made, in which way, and of what."""

    local: str
    place: ast.Assign
    shape: ast.expr
    like: bool
    fill: str | None
    value: ast.expr | None
    dtype: ast.expr | None


def made_in_place(definition: GufuncDefinition, tree: ast.FunctionDef) -> dict[int, Made]:
    """The results of which it is proved that the call's own array may hold them, by number."""
    found: dict[int, Made] = {}
    count = len(definition.signature.outputs)
    values = list(_results(tree, count))
    for number, core in enumerate(definition.signature.outputs):
        names = {_name(one[number]) if one is not None else None for one in values}
        local = names.pop() if len(names) == 1 else None
        if not core or local is None or any(made.local == local for made in found.values()):
            continue
        one = _made(definition.function, tree, local)
        if one is not None:
            found[number] = one
    return found


def _results(tree: ast.FunctionDef, count: int) -> Iterator[Sequence[ast.expr] | None]:
    """The results that each `return` gives, where its text tells them one by one."""
    for node in own_nodes(tree):
        if isinstance(node, ast.Return):
            if count == 1 and node.value is not None:
                yield (node.value,)
            elif isinstance(node.value, ast.Tuple) and len(node.value.elts) == count:
                yield node.value.elts
            else:
                yield None


def _name(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _made(function: Function, tree: ast.FunctionDef, local: str) -> Made | None:
    """How a local is made, if that is done once and for all."""
    if local in function.parameters or local in _inner_names(tree):
        return None
    binding = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == local and not isinstance(node.ctx, ast.Load)
    ]
    place = next((s for s in tree.body if isinstance(s, ast.Assign) and _binds(s, local)), None)
    changed = [s.target for s in ast.walk(tree) if isinstance(s, ast.AugAssign)]
    if place is None or any(n is not place.targets[0] and n not in changed for n in binding):
        return None
    if not isinstance(place.value, ast.Call):
        return None
    maker = function.constants.get(ast.unparse(place.value.func))
    if not callable(maker) or maker not in _FILLS:
        return None
    like, fill = maker in _LIKE, _FILLS[maker]
    given = _arguments(place.value, like, fill == "value", maker is np.empty_like)
    if given is None:
        return None
    return Made(local, place, *given[:1], like, fill, given[1], given[2])


def _binds(statement: ast.Assign, local: str) -> bool:
    return len(statement.targets) == 1 and _name(statement.targets[0]) == local


def _inner_names(tree: ast.FunctionDef) -> set[str]:
    """The names that functions and comprehensions inside say, or that are made global."""
    found: set[str] = set()
    scopes = ast.FunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp
    for node in ast.walk(tree):
        if node is not tree and isinstance(node, scopes | ast.GeneratorExp):
            found |= bound_names(node)
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if isinstance(node, ast.Global | ast.Nonlocal):
            found |= set(node.names)
    return found


def _arguments(
    call: ast.Call, like: bool, filled: bool, prototype: bool
) -> tuple[ast.expr, ast.expr | None, ast.expr | None] | None:
    """What the maker needs: shape, value and dtype; any order but C's is another array."""
    order = [("prototype" if prototype else "a") if like else "shape"]
    order += ["fill_value"] if filled else []
    needed = len(order)
    order.append("dtype")
    given = dict(zip(order, call.args, strict=False))
    if len(call.args) > len(order) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    for keyword in call.keywords:
        if keyword.arg not in order:
            return None
        given[keyword.arg] = keyword.value
    if any(name not in given for name in order[:needed]):
        return None
    return given[order[0]], given.get("fill_value"), given.get("dtype")


def proved_dtypes(definition: GufuncDefinition, types: Types) -> tuple[np.dtype[Any], ...] | None:
    """The dtypes of the results, where the text proves them and how many axes there are.

    To let Numba infer them takes as long as to compile all that the function calls, `np.zeros`
    among it, of which nothing is left in the end.
    """
    if definition.outs:
        return None
    tree = plain_tree(definition.function)
    made = made_in_place(definition, tree)
    found = [
        _proved(definition, types, tree, made[k], len(core)) if k in made else None
        for k, core in enumerate(definition.signature.outputs)
    ]
    known = tuple(one for one in found if one is not None)
    return known if len(known) == len(found) else None


def _proved(
    definition: GufuncDefinition, types: Types, tree: ast.FunctionDef, one: Made, axes: int
) -> np.dtype[Any] | None:
    """The dtype of a result, if the text says it, and that it has so many axes."""
    dtype: np.dtype[Any] | None = None
    if one.value is not None:
        return None
    if one.like:
        stored = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_bound(n)]
        name = _name(one.shape)
        if name not in definition.inputs or name in stored:
            return None
        k = definition.inputs.index(name)
        dtype = types.inputs[k] if len(definition.signature.inputs[k]) == axes else None
    else:
        lengths = one.shape.elts if isinstance(one.shape, ast.Tuple) else [one.shape]
        if (
            len(lengths) == axes
            and _is_own_len(definition, tree)
            and all(map(_is_length, lengths))
        ):
            dtype = np.dtype("float64")
    if dtype is None or one.dtype is None:
        return dtype
    kind = definition.function.constants.get(ast.unparse(one.dtype))
    return np.dtype(kind) if isinstance(kind, type) and kind in _KINDS else None


def _is_own_len(definition: GufuncDefinition, tree: ast.FunctionDef) -> bool:
    """Whether `len` is Python's, wherever the text says it."""
    found = definition.function.constants.get("len", len)
    return found is len and "len" not in bound_names(tree)


def _is_bound(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def rewritten(
    tree: ast.FunctionDef,
    made: Mapping[int, Made],
    cores: Sequence[Sequence[str]],
    words: Mapping[str, str],
) -> None:
    """Let a tree write its results to more parameters, and return nothing.

    `cores` are the core axes of the results, and `words` what `WORDS` are called in the tree.
    """
    outs = [f"{words['out']}{k}" for k in range(len(cores))]
    arguments = tree.args
    arguments.args = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    arguments.posonlyargs, arguments.kwonlyargs = [], []
    arguments.defaults, arguments.kw_defaults = [], []
    arguments.args += [ast.arg(name) for name in (*outs, words["told"])]
    for number, one in made.items():
        _take(tree, number, one, len(cores[number]), words)
    _Storing(cores, made, words).visit(tree)


def _take(
    tree: ast.FunctionDef, number: int, one: Made, axes: int, words: Mapping[str, str]
) -> None:
    """Let a local be the array of its result, and fill it as it would be."""
    out, shape, value = (f"{words[word]}{number}" for word in ("out", "shape", "value"))
    held = [_assigned(shape, _shape(one, axes, words))]
    if one.value is not None:
        held.append(_assigned(value, one.value))
    text = _agreed(words, number, axes, shape)
    text.append(f"{one.local} = {out}")
    if one.fill is not None:
        text.append(f"{one.local}[...] = {value if one.fill == 'value' else one.fill}")
    place = tree.body.index(one.place)
    tree.body[place : place + 1] = _placed([*held, *ast.parse("\n".join(text)).body], one.place)


def _shape(one: Made, axes: int, words: Mapping[str, str]) -> ast.expr:
    """The shape of a new array as a tuple."""
    shape = one.shape
    if one.like:
        return ast.Attribute(shape, "shape", ast.Load())
    if isinstance(shape, ast.Tuple) and len(shape.elts) == axes:
        return shape
    if axes == 1 and _is_length(shape):
        return ast.Tuple([shape], ast.Load())
    # It may be a tuple or a number.
    return ast.Call(ast.Name(words["shape_of"], ast.Load()), [shape], [])


def _is_length(node: ast.expr) -> bool:
    """Whether it is seen that this is a number."""
    match node:
        case ast.Constant(value=int()):
            return True
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=int())):
            return True
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.FloorDiv(), left=left, right=right):
            return _is_length(left) and _is_length(right)
        case _:
            return False


def _agreed(words: Mapping[str, str], number: int, axes: int, shape: str) -> list[str]:
    """Lines that compare the shape of an array with that of its result."""
    out, told = f"{words['out']}{number}", words["told"]
    differs = " or ".join(f"{out}.shape[{k}] != {shape}[{k}]" for k in range(axes))
    notes = [f"    {told}[{k + 1}] = {shape}[{k}]" for k in range(axes)]
    return [
        f"if {differs}:",
        f"    {told}[0] = {number + 1}",
        *notes,
        f"    raise {words['wrong']}",
    ]


def _assigned(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _placed(statements: Sequence[ast.stmt], like: ast.AST) -> list[ast.stmt]:
    """Statements of our own, at the place of the user's: that is where an error leads."""
    kept = set(map(id, ast.walk(like)))
    for statement in statements:
        for part in ast.walk(statement):
            if id(part) not in kept and isinstance(part, ast.expr | ast.stmt):
                ast.copy_location(part, like)
    return list(statements)


class _Storing(ast.NodeTransformer):
    """Puts stores of what is returned in the place of each `return`."""

    def __init__(
        self,
        cores: Sequence[Sequence[str]],
        made: Mapping[int, Made],
        words: Mapping[str, str],
    ) -> None:
        self._cores, self._made, self._words = cores, made, words
        self._inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if self._inside:
            # It returns to the function around it.
            return node
        self._inside = True
        return self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        assert node.value is not None
        name = self._words["value"]
        count, value = len(self._cores), node.value
        if count > 1 and not (isinstance(value, ast.Tuple) and len(value.elts) == count):
            whole = f"{name}_all"
            parts = {k: f"{whole}[{k}]" for k in range(count)}
            held = [_assigned(whole, value)]
        else:
            values = value.elts if count > 1 and isinstance(value, ast.Tuple) else [value]
            parts = {k: f"{name}{k}" for k in range(count) if k not in self._made}
            # All are there before the first is stored: one may be made of another.
            held = [_assigned(one, values[k]) for k, one in parts.items()]
        text = [line for k, one in parts.items() for line in self._stored(k, one)]
        after = ast.parse("\n".join(text)).body
        return _placed([*held, *after, ast.Return(None)], node)

    def _stored(self, number: int, value: str) -> list[str]:
        """Lines that store a result."""
        out, axes = f"{self._words['out']}{number}", len(self._cores[number])
        if not axes:
            return [f"{out}[0] = {value}"]
        shape = f"{self._words['shape']}{number}"
        agreed = _agreed(self._words, number, axes, shape)
        return [f"{shape} = {value}.shape", *agreed, f"{out}[...] = {value}"]
