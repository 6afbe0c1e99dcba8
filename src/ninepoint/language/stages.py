"""Stages: the stencils that a kernel calls on its fields, taken out of its text.

    def corners(x, k):                    xx = square(x, 2 * k)         <- a StageCall
        xx = square(x, 2 * k)      ->     def corners(x, xx, k):        <- what remains
        return xx[0, 1] - k                   return xx[0, 1] - k

A call is done once for whole arrays, before the kernel is done at any point.  So what remains
is an ordinary kernel, with one more field for each result.  A constant loop around calls is
unrolled; a name that is bound again stands for the newer array from there on.

What looks at no neighbour may be called on numbers as well, as in `f(x[0], x[1])`.  That is no
stage, but a helper function, and stays in the text.
"""

from __future__ import annotations

import ast
import copy
import functools
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from . import errors
from .definitions import Definition, copied
from .errors import Span, hint
from .parameters import indexed_parameters, passed
from .positions import Spacing, index
from .source import ArrayFunction, Function, Unusable, bound_names, live_names, stored_names

# The options that a call in a kernel may have.
OPTIONS = ("boundary", "cval", "dtype", "overflow", "every", "upsample")


@dataclass(frozen=True, slots=True)
class StageCall:
    """One call: of what, on which arrays and numbers, and what its results are called.

    `callee` is the definition of a stencil.  `fields` names an array for each field of it: a
    parameter of the kernel, or what an earlier call made.  `scalars` and `options` hold the
    arguments as they are written.
    """

    callee: Any
    span: Span
    fields: tuple[str, ...]
    scalars: Mapping[str, ast.expr]
    options: Mapping[str, ast.expr]
    made: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stages:
    """The calls in order, and the definition without them."""

    function: Function
    calls: tuple[StageCall, ...]
    definition: Definition

    @property
    def made(self) -> tuple[str, ...]:
        """What the calls make, as far as the kernel itself reads it."""
        read = set(_loads(self.definition))
        return tuple(name for call in self.calls for name in call.made if name in read)

    def remainder(self, kept: Collection[str] = ()) -> Function:
        """What remains of the kernel: a function of what it reads still, and of those `kept`."""
        wanted = {*_loads(self.definition), *kept}
        parameters = [name for name in self.function.parameters if name in wanted]
        definition = copy.copy(self.definition)
        named = [ast.arg(name) for name in (*parameters, *self.made)]
        definition.args = ast.arguments(
            posonlyargs=[], args=[], kwonlyargs=named, kw_defaults=[None for _ in named],
            defaults=[],
        )  # fmt: skip
        ast.fix_missing_locations(definition)
        constants = {n: v for n, v in self.function.constants.items() if n not in self.made}
        return replace(self.function, tree=definition, constants=constants)

    def values(
        self, arguments: Mapping[str, ast.expr], scalars: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What the arguments of a call come to, for values of the kernel's scalars."""
        found: dict[str, Any] = {}
        names: dict[str, Any] | None = None
        for name, node in arguments.items():
            if isinstance(node, ast.Name) and node.id in scalars:
                found[name] = scalars[node.id]
                continue
            if names is None:
                names = live_names(self.function) | dict(scalars)
            found[name] = _evaluated(node, names)
        return found


def _evaluated(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(_code(node), dict(names))


@functools.lru_cache(maxsize=1024)
def _code(node: ast.expr) -> types.CodeType:
    return compile(ast.Expression(node), "<argument>", "eval")


def split(function: Function) -> Stages | None:
    """Take the calls of stencils out of a function; None where there are none.

    Raises
    ------
    StencilError
        If a call is given what is no field, or depends on the point.
    """
    if not any(isinstance(value, ArrayFunction) for value in function.constants.values()):
        return None
    splitter = _Splitter(function)
    definition = splitter.remainder()
    if not splitter.calls:
        return None
    return Stages(function, tuple(splitter.calls), definition)


class _Splitter(ast.NodeTransformer):
    """Follows the text once; `arrays` and `scalars` say what the names stand for by then."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.calls: list[StageCall] = []
        self.arrays: dict[str, str] = {name: name for name in function.parameters}
        self.scalars: dict[str, ast.expr] = {}
        self.bound = bound_names(function.definition)
        self.stages: set[str] = set()
        self.indexed = indexed_parameters(function)
        self.computed = set(_computed(function.definition))
        self.read = set(_read_calls(function.definition))
        self.fields = self.indexed | set(self.given())

    def given(self) -> Iterator[str]:
        """The names that stand where a call takes a field."""
        for node in ast.walk(self.function.definition):
            callee = self.callee(node)
            if callee is not None and isinstance(node, ast.Call):
                for name, value in passed(callee.parameters, node):
                    if name in callee.fields and isinstance(value, ast.Name):
                        yield value.id

    def remainder(self) -> Definition:
        """The definition without the calls."""
        definition = copied(self.function.definition)
        if isinstance(definition, ast.Lambda):
            definition.body = self.visit(definition.body)
            return definition
        body = list(self.block(definition.body))
        definition.body = body
        return definition

    def block(self, statements: list[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in statements:
            yield from self.statement(statement)

    def statement(self, node: ast.stmt) -> Iterator[ast.stmt]:
        """What remains of a statement of the function itself."""
        match node:
            case ast.Assign(targets=targets, value=ast.Call() as call) if callee := self.callee(
                call
            ):
                names = [_targets(target) for target in targets]
                if all(name is not None for name in names):
                    self.bind(call, callee, cast(list[list[str]], names))
                    return
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=source)):
                if self.arrays.get(source) in self.stages:
                    array = self.arrays[source]
                    self.forget(name)
                    self.arrays[name] = array
                    return
            case ast.For(iter=iterable, target=ast.Name(id=name), body=body, orelse=orelse):
                if any(self.callee(part) for one in body for part in ast.walk(one)):
                    yield from self.loop(node, iterable, name, body)
                    yield from self.block(orelse)
                    return
            case _:
                pass
        kept = self.visit(node)
        self.learn(kept)
        yield kept

    def loop(
        self, node: ast.For, iterable: ast.expr, name: str, body: list[ast.stmt]
    ) -> Iterator[ast.stmt]:
        """A constant loop around calls, unrolled."""
        callee = next(
            found for one in body for part in ast.walk(one) if (found := self.callee(part))
        )
        unknown = [u for u in _loads(iterable) if u in self.arrays or self.unsettled(u)]
        leaves = [
            p for one in body for p in ast.walk(one) if isinstance(p, ast.Break | ast.Continue)
        ]
        if unknown or leaves:
            words = f"'{unknown[0]}'" if unknown else "how often a loop runs"
            raise errors.stage_place(self.function.span(node.iter), callee.name, words)
        for item in _evaluated(self.substituted(iterable), live_names(self.function)):
            known = ast.copy_location(ast.Constant(item), iterable)
            assign = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], known), node)
            ast.fix_missing_locations(assign)
            yield from self.statement(assign)
            yield from self.block([copied(one) for one in body])

    def learn(self, node: ast.stmt) -> None:
        """Remember what is the same at every point; forget what a name stood for before."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                settled = not (any(map(self.unsettled, _loads(value))) or self.asks(value))
                known = self.substituted(value) if settled else None
                self.forget(name)
                if known is not None:
                    self.scalars[name] = known
            case _:
                for name in stored_names([node]):
                    self.forget(name)

    def forget(self, name: str) -> None:
        self.arrays.pop(name, None)
        self.scalars.pop(name, None)

    def unsettled(self, name: str) -> bool:
        """Whether a name differs from point to point, as far as the text says."""
        if name in self.scalars:
            return False
        if name in self.arrays:
            return self.arrays[name] in self.stages or name in self.fields
        return name in self.bound

    def asks(self, node: ast.AST) -> bool:
        """Whether an expression asks for the position of the point."""
        calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
        return any(self.function.constants.get(ast.unparse(c.func)) is index for c in calls)

    def substituted(self, node: ast.expr) -> ast.expr:
        """The expression in terms of parameters and constants."""
        known = self.scalars

        class Names(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.AST:
                return copied(known[node.id]) if node.id in known else node

        return cast(ast.expr, Names().visit(copied(node)))

    # Calls.

    def callee(self, node: ast.AST) -> Any:
        """The definition of the stencil that a node calls, or None."""
        if not isinstance(node, ast.Call):
            return None
        found = self.function.constants.get(ast.unparse(node.func))
        if not isinstance(found, ArrayFunction):
            return None
        callee = found.definition
        return None if callee.pointwise and not self.on_arrays(node, callee) else callee

    def on_arrays(self, node: ast.Call, callee: Any) -> bool:
        """Whether what looks at no neighbour is called on arrays, as far as the text says.

        It is if one of the arguments is an array for certain, or all may be; or one may be, and
        what the call makes is indexed.
        """
        given = passed(callee.parameters, node)
        values = [value for name, value in given if name in callee.fields]
        if any(map(self.is_array, values)):
            return True
        arrays = [value for value in values if self.may_be_array(value)]
        read = (node.lineno, node.col_offset) in self.read
        return bool(arrays) and (read or len(arrays) == len(values))

    def is_array(self, node: ast.expr) -> bool:
        """Whether an argument is an array for certain."""
        if isinstance(node, ast.Name):
            array = self.arrays.get(node.id)
            return array is not None and (array in self.stages or array in self.indexed)
        return self.callee(node) is not None

    def may_be_array(self, node: ast.expr) -> bool:
        """Whether an argument names a parameter that nothing is computed with."""
        if not isinstance(node, ast.Name) or node.id not in self.arrays:
            return False
        default = self.function.defaults.get(node.id)
        return node.id not in self.computed and not isinstance(
            default, int | float | complex | Spacing
        )

    # In what remains there are names in the place of calls, and of arrays that were bound again.

    def visit_Call(self, node: ast.Call) -> ast.AST:
        callee = self.callee(node)
        if callee is None:
            return self.generic_visit(node)
        return ast.copy_location(ast.Name(self.inline(node, callee), ast.Load()), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        meant = self.arrays.get(node.id, node.id)
        if isinstance(node.ctx, ast.Load) and meant != node.id:
            return ast.copy_location(ast.Name(meant, ast.Load()), node)
        return node

    def inside(self, node: ast.AST) -> ast.AST:
        """A function or a comprehension, whose own names hide those outside."""
        outside = self.arrays
        hidden = bound_names(node) - {getattr(node, "name", "")}
        self.arrays = {n: a for n, a in outside.items() if n not in hidden}
        try:
            return self.generic_visit(node)
        finally:
            self.arrays = outside

    visit_Lambda = visit_FunctionDef = visit_ListComp = visit_GeneratorExp = inside

    def inline(self, node: ast.Call, callee: Any) -> str:
        """The name of what a call makes in the midst of an expression."""
        (made,) = self.made(node, callee, [callee.name], False)
        return made

    def bind(self, node: ast.Call, callee: Any, targets: list[list[str]]) -> None:
        """`a = f(x)` or `a, b = f(x)`: from here on the names stand for what is made."""
        made = self.made(node, callee, targets[0], True)
        for names in targets:
            if len(names) != len(made):
                raise errors.stage_outputs(
                    self.function.span(node), callee.name, len(made), len(names)
                )
            for name, label in zip(names, made, strict=True):
                self.forget(name)
                self.arrays[name] = label

    def fresh(self, name: str) -> str:
        """A name like this one that means nothing else."""
        base = name if name.isidentifier() else "stage"
        label, count = base, 2
        while label in self.stages or self.means(label):
            label = f"{base}_{count}"
            count += 1
        return label

    def means(self, name: str) -> bool:
        """Whether the text means something by a name, other than a stencil."""
        found = self.function.constants.get(name)
        return name in self.bound or not (found is None or isinstance(found, ArrayFunction))

    def made(
        self, node: ast.Call, callee: Any, names: Sequence[str], named: bool
    ) -> tuple[str, ...]:
        """Remember a call; what its results are called: like `names`.

        If it is `named`, these are those of the text, which a result has if it is the first.
        """
        span = self.function.span(node)
        arguments = self.arguments(node, callee)
        if callee.pointwise:
            arrays = {n for n, v in arguments.items() if self.is_array(v) or self.may_be_array(v)}
            callee = callee.with_numbers([n for n in callee.fields if n not in arrays])
        fields = tuple(self.field(arguments[name], callee, name) for name in callee.fields)
        scalars: dict[str, ast.expr] = {}
        options: dict[str, ast.expr] = {}
        for name, value in arguments.items():
            if name in callee.fields:
                continue
            for used in _loads(value):
                if self.unsettled(used):
                    place = self.function.span(value)
                    raise errors.stage_scalar(place, callee.name, name, used)
            if name in OPTIONS:
                self.check_option(value, callee, name)
            if self.asks(value):
                place = self.function.span(value)
                raise errors.stage_scalar(place, callee.name, name, "npt.index")
            known = ast.fix_missing_locations(self.substituted(value))
            (options if name in OPTIONS else scalars)[name] = known
        # Only now: the calls among the arguments have names before.
        own = self.bound - set(self.function.parameters) - self.stages
        labels = [n if named and n in own else self.fresh(n) for n in names]
        self.calls.append(StageCall(callee, span, fields, scalars, options, tuple(labels)))
        self.stages.update(labels)
        return tuple(labels)

    def check_option(self, value: ast.expr, callee: Any, name: str) -> None:
        """Raise where an option is no constant of a kernel, as conditions are none."""
        for node in ast.walk(value):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(
                self.function.constants.get(ast.unparse(node)), Unusable
            ):
                raise errors.stage_option(self.function.span(node), callee.name, name)

    def field(self, node: ast.expr, callee: Any, parameter: str) -> str:
        """The array that an argument names."""
        if isinstance(node, ast.Name) and node.id in self.arrays:
            return self.arrays[node.id]
        if isinstance(node, ast.Call) and (stage := self.callee(node)) is not None:
            return self.inline(node, stage)
        raise errors.stage_field(self.function.span(node), callee.name, parameter)

    def arguments(self, node: ast.Call, callee: Any) -> dict[str, ast.expr]:
        """The arguments and options, by the names of these and of the parameters."""

        def wrong(reason: str) -> errors.StencilError:
            return errors.stage_arguments(self.function.span(node), callee.name, reason)

        if any(isinstance(a, ast.Starred) for a in node.args) or any(
            k.arg is None for k in node.keywords
        ):
            raise wrong("'*' hides which argument is which")
        if len(node.args) > len(callee.parameters):
            raise wrong(f"{len(node.args)} arguments for {len(callee.parameters)} parameters")
        found = dict(zip(callee.parameters, node.args, strict=False))
        for keyword in node.keywords:
            assert keyword.arg is not None
            if keyword.arg not in (*callee.parameters, *OPTIONS):
                raise wrong(f"it has no parameter '{keyword.arg}'{hint(keyword.arg, OPTIONS)}")
            if keyword.arg in found:
                raise wrong(f"'{keyword.arg}' is given twice")
            found[keyword.arg] = keyword.value
        for name in callee.parameters:
            if name not in found and name not in callee.defaults:
                raise wrong(f"'{name}' is missing")
            if name not in found and isinstance(callee.defaults[name], Spacing):
                raise wrong(
                    f"'{name}' is {callee.defaults[name]!r}, which only calls outside of kernels "
                    f"know; give {name}=..., such as a parameter of this kernel"
                )
        return found


def _computed(definition: ast.AST) -> Iterator[str]:
    """The names that a text computes with: neither indexed nor given to a call as they are."""
    apart: set[ast.AST] = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.Subscript):
            apart.add(node.value)
        elif isinstance(node, ast.Call):
            apart.update((*node.args, *(keyword.value for keyword in node.keywords)))
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in apart:
            yield node.id


def _read_calls(definition: ast.AST) -> Iterator[tuple[int, int]]:
    """Where the calls stand whose results a text indexes."""
    bases = [n.value for n in ast.walk(definition) if isinstance(n, ast.Subscript)]
    names = {base.id for base in bases if isinstance(base, ast.Name)}
    for base in bases:
        if isinstance(base, ast.Call):
            yield base.lineno, base.col_offset
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            targets = [name for target in node.targets for name in _targets(target) or ()]
            if not names.isdisjoint(targets):
                yield node.value.lineno, node.value.col_offset


def _targets(node: ast.expr) -> list[str] | None:
    """The names that are bound; None where something else is."""
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            names = [element.id for element in elements if isinstance(element, ast.Name)]
            return names if len(names) == len(elements) else None
        case _:
            return None


def _loads(node: ast.AST) -> Iterator[str]:
    """The names that an expression looks up."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id
