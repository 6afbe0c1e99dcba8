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
from .definitions import (
    ArrayFunction,
    Definition,
    Function,
    Unusable,
    bound_names,
    copied,
    expression,
    stored_names,
)
from .errors import Span, hint
from .parameters import indexed_parameters, passed
from .positions import Spacing, index
from .source import live_names

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
        # All of them by name: any may have a default.
        named = ", ".join(["*", *parameters, *self.made]).removesuffix("*")
        definition.args = cast(ast.Lambda, expression(f"lambda {named}: 0")).args
        constants = {n: v for n, v in self.function.constants.items() if n not in self.made}
        return replace(self.function, tree=definition, constants=constants)

    def values(
        self, arguments: Mapping[str, ast.expr], scalars: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What the arguments of a call come to, for values of the kernel's scalars."""
        codes = {name: _code(node) for name, node in arguments.items()}
        known = all(scalars.keys() >= {*code.co_names} for code in codes.values())
        names = {} if known else live_names(self.function)
        names |= scalars
        return {name: eval(code, names) for name, code in codes.items()}


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
    """Follows the text once; `meaning` says what its names stand for by then.

    That is an array, by its name, or an expression of parameters and constants.  A name that the
    text gives another value has none: it differs from point to point.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.calls: list[StageCall] = []
        self.meaning: dict[str, str | ast.expr] = {name: name for name in function.parameters}
        self.bound = bound_names(function.definition)
        # What the calls make is called.
        self.stages: set[str] = set()
        self.indexed = indexed_parameters(function)
        self.computed, self.read = _uses(function.definition)
        calls = [node for node in ast.walk(function.definition) if isinstance(node, ast.Call)]
        # Names that mean something besides a stencil, such as one that stays in the text as a
        # function of numbers.
        self.taken = self.bound | {ast.unparse(c.func) for c in calls if self.callee(c) is None}
        self.taken |= {
            name
            for name, value in function.constants.items()
            if not isinstance(value, ArrayFunction)
        }
        self.fields = self.indexed | {
            value.id
            for call in calls
            if (callee := self.callee(call)) is not None
            for name, value in passed(callee.parameters, call)
            if name in callee.fields and isinstance(value, ast.Name)
        }

    def remainder(self) -> Definition:
        """The definition without the calls."""
        definition = copied(self.function.definition)
        if isinstance(definition, ast.Lambda):
            definition.body = self.visit(definition.body)
        else:
            definition.body = self.block(definition.body)
        return definition

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [left for one in statements for left in self.statement(one)]

    def statement(self, node: ast.stmt) -> Iterator[ast.stmt]:
        """What remains of a statement of the function itself."""
        match node:
            case ast.Assign(targets=targets, value=ast.Call() as call) if callee := self.callee(
                call
            ):
                # From here on the names stand for what is made.
                names = [_targets(target) for target in targets]
                made = self.made(call, callee, names[0]) if all(names) else ()
                for some in names if made else ():
                    if len(some) != len(made):
                        place, count = self.function.span(call), len(made)
                        raise errors.stage_outputs(place, callee.name, count, len(some))
                    self.meaning |= zip(some, made, strict=True)
                if made:
                    return
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=source)):
                if self.meaning.get(source) in self.stages:
                    self.meaning[name] = self.meaning[source]
                    return
            case ast.For(target=ast.Name(), body=body, orelse=orelse):
                inside = (self.callee(part) for one in body for part in ast.walk(one))
                if callee := next(filter(None, inside), None):
                    yield from self.loop(node, callee)
                    yield from self.block(orelse)
                    return
            case _:
                pass
        kept = self.visit(node)
        self.learn(kept)
        yield kept

    def loop(self, node: ast.For, callee: Any) -> Iterator[ast.stmt]:
        """A constant loop around calls, unrolled."""
        items = self.substituted(node.iter)
        unknown = [name for name in _loads(items) if name in self.bound]
        parts = (part for one in node.body for part in ast.walk(one))
        if unknown or any(isinstance(part, ast.Break | ast.Continue) for part in parts):
            words = f"'{unknown[0]}'" if unknown else "how often a loop runs"
            raise errors.stage_place(self.function.span(node.iter), callee.name, words)
        for item in eval(_code(items), live_names(self.function)):
            known = ast.copy_location(ast.Constant(item), node.iter)
            assign = ast.copy_location(ast.Assign([copied(node.target)], known), node)
            yield from self.block([assign, *map(copied, node.body)])

    def learn(self, node: ast.stmt) -> None:
        """Remember what is the same at every point; forget what a name stood for before."""
        known: dict[str, str | ast.expr] = {}
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not self.varying(value):
                known[name] = self.substituted(value)
            case _:
                pass
        for name in stored_names([node]):
            self.meaning.pop(name, None)
        self.meaning |= known

    def array(self, name: str) -> str | None:
        """The array that a name stands for; a parameter is taken for one."""
        meant = self.meaning.get(name)
        return meant if isinstance(meant, str) else None

    def varying(self, node: ast.AST) -> list[str]:
        """What of an expression differs from point to point, as far as the text says."""
        found = []
        for name in _loads(node):
            array = self.array(name)
            known = name in self.meaning or name not in self.bound
            if not known or array in self.stages or (array and name in self.fields):
                found.append(name)
        calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
        asks = any(self.function.constants.get(ast.unparse(c.func)) is index for c in calls)
        return [*found, "npt.index"] if asks else found

    def substituted(self, node: ast.expr) -> ast.expr:
        """The expression in terms of parameters and constants."""
        meaning = self.meaning

        class Names(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.AST:
                known = meaning.get(node.id)
                return copied(known) if isinstance(known, ast.expr) else node

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
        sure = [self.sureness(value) for name, value in given if name in callee.fields]
        indexed = (node.lineno, node.col_offset) in self.read
        return 2 in sure or (1 in sure and (indexed or 0 not in sure))

    def sureness(self, node: ast.expr | None) -> int:
        """Whether an argument is an array: 2 if it is, 1 if nothing speaks against it."""
        if not isinstance(node, ast.Name):
            return 2 if node and self.callee(node) else 0
        array = self.array(node.id)
        if array is None or array in self.stages or array in self.indexed:
            return 2 if array else 0
        default = self.function.defaults.get(node.id)
        number = isinstance(default, int | float | complex | Spacing)
        return 0 if number or node.id in self.computed else 1

    # In what remains there are names in the place of calls, and of arrays that were bound again.

    def visit_Call(self, node: ast.Call) -> ast.AST:
        callee = self.callee(node)
        if callee is None:
            return self.generic_visit(node)
        (made,) = self.made(node, callee)
        return ast.copy_location(ast.Name(made, ast.Load()), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        meant = self.array(node.id)
        if meant and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Name(meant, ast.Load()), node)
        return node

    def inside(self, node: ast.AST) -> ast.AST:
        """A function or a comprehension, whose own names hide those outside."""
        outside = self.meaning
        hidden = bound_names(node) - {getattr(node, "name", "")}
        self.meaning = {name: meant for name, meant in outside.items() if name not in hidden}
        try:
            return self.generic_visit(node)
        finally:
            self.meaning = outside

    visit_Lambda = visit_FunctionDef = visit_ListComp = visit_GeneratorExp = inside

    def fresh(self, name: str) -> str:
        """A name like this one that means nothing else."""
        base = label = name if name.isidentifier() else "stage"
        count = 1
        while label in self.taken:
            count += 1
            label = f"{base}_{count}"
        self.taken.add(label)
        return label

    def made(self, node: ast.Call, callee: Any, names: Sequence[str] = ()) -> tuple[str, ...]:
        """Remember a call; what its results are called: like the callee, or like `names`.

        These are those of the text, which a result has if it is the first.
        """
        span = self.function.span(node)
        arguments = self.arguments(node, callee)
        if callee.pointwise:
            numbers = [n for n in callee.fields if not self.sureness(arguments.get(n))]
            callee = callee.with_numbers(numbers)
        fields = tuple(self.field(arguments[name], callee, name) for name in callee.fields)
        scalars: dict[str, ast.expr] = {}
        options: dict[str, ast.expr] = {}
        for name, value in arguments.items():
            if name in callee.fields:
                continue
            if varying := self.varying(value):
                place = self.function.span(value)
                raise errors.stage_scalar(place, name, callee.name, varying[0])
            if name in OPTIONS:
                self.check_option(value, callee, name)
            known = ast.fix_missing_locations(self.substituted(value))
            (options if name in OPTIONS else scalars)[name] = known
        # Only now: the calls among the arguments have names before.
        own = self.bound - set(self.function.parameters) - self.stages
        labels = tuple([n if n in own else self.fresh(n) for n in names])
        labels = labels or (self.fresh(callee.name),)
        self.calls.append(StageCall(callee, span, fields, scalars, options, labels))
        self.stages.update(labels)
        return labels

    def check_option(self, value: ast.expr, callee: Any, name: str) -> None:
        """Raise where an option is no constant of a kernel, as conditions are none."""
        for node in ast.walk(value):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(
                self.function.constants.get(ast.unparse(node)), Unusable
            ):
                raise errors.stage_option(self.function.span(node), name, callee.name)

    def field(self, node: ast.expr, callee: Any, parameter: str) -> str:
        """The array that an argument names, or that a call among the arguments makes."""
        named = isinstance(node, ast.Name) and self.array(node.id)
        if not named and self.callee(node) is None:
            raise errors.stage_field(self.function.span(node), callee.name, parameter)
        return cast(ast.Name, self.visit(node)).id

    def arguments(self, node: ast.Call, callee: Any) -> dict[str, ast.expr]:
        """The arguments and options, by the names of these and of the parameters."""

        def wrong(reason: str) -> errors.StencilError:
            return errors.stage_arguments(self.function.span(node), callee.name, reason)

        stars = [*node.args, *(keyword.arg for keyword in node.keywords)]
        if any(one is None or isinstance(one, ast.Starred) for one in stars):
            raise wrong("'*' hides which argument is which")
        parameters, defaults = callee.parameters, callee.defaults
        if len(node.args) > len(parameters):
            raise wrong(f"{len(node.args)} arguments for {len(parameters)} parameters")
        found = dict(zip(parameters, node.args, strict=False))
        for keyword in node.keywords:
            name = keyword.arg or ""
            if name not in (*parameters, *OPTIONS):
                raise wrong(f"it has no parameter '{name}'{hint(name, OPTIONS)}")
            if name in found:
                raise wrong(f"'{name}' is given twice")
            found[name] = keyword.value
        for name in parameters:
            if name in found:
                continue
            if name not in defaults:
                raise wrong(f"'{name}' is missing")
            if isinstance(defaults[name], Spacing):
                raise wrong(
                    f"'{name}' is {defaults[name]!r}, which only calls outside of kernels know; "
                    f"give {name}=..., such as a parameter of this kernel"
                )
        return found


def _uses(definition: ast.AST) -> tuple[set[str], set[tuple[int, int]]]:
    """The names that a text computes with, and where the calls stand whose results it indexes.

    Neither what is indexed nor what is given to a call as it is, is computed with.
    """
    nodes = list(ast.walk(definition))
    bases = [node.value for node in nodes if isinstance(node, ast.Subscript)]
    apart = set(bases)
    for node in nodes:
        if isinstance(node, ast.Call):
            apart.update((*node.args, *(keyword.value for keyword in node.keywords)))
    names = {base.id for base in bases if isinstance(base, ast.Name)}
    named = [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        and any(not names.isdisjoint(_targets(target)) for target in node.targets)
    ]
    calls = {(c.lineno, c.col_offset) for c in (*bases, *named) if isinstance(c, ast.Call)}
    loaded = (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    return {one.id for one in loaded if one not in apart}, calls


def _targets(node: ast.expr) -> list[str]:
    """The names that are bound; none where something else is."""
    nodes = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    names = [one.id for one in nodes if isinstance(one, ast.Name)]
    return names if len(names) == len(nodes) else []


def _loads(node: ast.AST) -> Iterator[str]:
    """The names that an expression looks up."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id
