"""The general path: kernels that are not analysed, which Numba compiles.

    s = np.sort(x[-1:2])                ->      def point(x, ...):  the user's body
    return s[0] + s[1]                          def band(x, out0, outside):  point at every place

The user's functions are kept as they stand, statement by statement, with Numba's rules for
numbers; only their reads are mapped.  A function of numbers is given the elements themselves.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ....language import errors
from ....language.box import Box, joined
from ....language.errors import Span
from ....language.frame import refuse
from ....language.ir import Position
from ....language.kinds import Argument, Coefficients, Field, Scalar
from ....language.positions import GREATEST, LEAST, Length, index
from ....language.source import Function, bound_names
from ....lowering.schedule import Request
from ....remembered import digest
from ... import cache
from ...generated import Module
from .. import relative
from ..kept import Kept
from ..live import jitted
from ..window_loops import plus
from .reads import accesses
from .rewrite import Context, Rewriter
from .scopes import ANYTHING, Maybe, Scope, Scopes, of, own

_LOOP = re.compile(r"^ *(for|while) ", re.MULTILINE)
_MAKING = re.compile(
    r"\b(np\.(empty|zeros|ones|full|array|sort|median|nan\w+)|in_order)\(|\.array\[.*:"
)
_STORES = {"saturate": "saturated", "wrap": "wrapped"}


@dataclass(frozen=True)
class General:
    """A kernel as functions, before the types of its outputs are known.

    `functions` are the kernel's own and its helpers', with what their names mean.  `places` says
    for each read that is checked at run time where it stands.  `pointwise` tells that its fields
    are numbers to it.
    """

    name: str
    function: Function
    functions: tuple[Function, ...]
    fastmath: bool
    box: Box
    places: tuple[str, ...]
    returned: Span
    arguments: Mapping[str, Argument]
    lengths: tuple[Length, ...]
    positions: tuple[Position, ...]
    pointwise: bool

    @cached_property
    def text(self) -> str:
        """The text of the functions."""
        return "\n\n\n".join(ast.unparse(one.definition) for one in self.functions)

    @cached_property
    def token(self) -> str:
        """A name for what the functions do, wherever they stand."""
        kinds = (Function, type(relative))
        values = [
            {n: v for n, v in sorted(one.constants.items()) if not isinstance(v, kinds)}
            for one in self.functions
        ]
        calls = [
            [(n, self.functions.index(v)) for n, v in sorted(one.constants.items())
             if isinstance(v, Function)]
            for one in self.functions
        ]  # fmt: skip
        defaults = [one.defaults for one in self.functions]
        return digest((self.text, values, calls, defaults, self.fastmath))

    @cached_property
    def point(self) -> Any:
        """Numba's function of a point."""
        path = cache.written(
            self.text, f"{cache.identifier(self.name)}_{cache.key(self.token, '')}"
        )
        options = {
            "nogil": True, "error_model": "numpy", "boundscheck": True, "fastmath": self.fastmath,
        }  # fmt: skip
        # Called, it would be given the whole of its fields for each point: what reads at an offset
        # from data took 16 ns so, and takes 1.3 ns as a part of the loop.
        made = jitted(self.function, path.stem, options, {"forceinline": True})
        made._cache = Kept(path.with_suffix(".point"))
        return made

    @property
    def factor(self) -> str:
        """How many times as long as an analysed kernel of the same reads it takes, about."""
        if _MAKING.search(self.text):
            return "50 to 500"
        return "20 to 200" if _LOOP.search(self.text) else "5 to 20"

    def module(self, outputs: int, several: bool, overflow: str | None = None) -> Module:
        """The whole text, for a number of outputs and a rule for what does not fit."""
        band = "\n".join(self._band(outputs, several, overflow)) + "\n"
        title = f'"""{self.name}, on the general path: written by ninepoint."""'
        text = "\n".join([title, "", "", self.text, "", "", band])
        return Module(text, checked=True, places=self.places, general=self)

    def band(self, module: Module) -> Any:
        """The function of a block in the text of a module, as plain Python."""
        names = {**vars(relative), "point": self.point}
        tree = ast.parse(module.text)
        tree.body = tree.body[-1:]
        exec(compile(tree, "<band>", "exec"), names)
        return names["band"]

    def _band(self, outputs: int, several: bool, overflow: str | None) -> Iterator[str]:
        outs = [f"out{n}" for n in range(outputs)]
        axes = ["b", *(f"i{a}" for a in range(self.box.ndim - 1)), "j"]
        place = ", ".join(axes)
        # Arguments are numbered: no name of the user's can then clash.
        named: dict[type, list[str]] = {Field: [], Coefficients: [], Scalar: []}
        lengths = [f"length{length.axis}" for length in self.lengths]
        told = [_tuple(lengths), self._positions("elements"), self._positions("results")]
        given = []
        for argument in self.arguments.values():
            kind = next(kind for kind in named if isinstance(argument, kind))
            name = f"{kind.__name__.lower()}{len(named[kind])}"
            named[kind].append(name)
            if isinstance(argument, Field) and self.pointwise:
                name = f"wide({name}[{place}])"
            elif isinstance(argument, Field):
                name = f"Neighbours({name}, ({place}), outside, {', '.join(told)})"
            given.append(name)
        given += ["outside"] if self.pointwise else []
        fields, arrays, scalars = named.values()
        fields += [f"place{k}" for k in range(len(self.positions))]
        order = [*fields, *outs, *arrays, *scalars, *lengths, "outside"]
        yield f"def band({', '.join(order)}):"
        yield from (f"    {n} = unowned({n})" for n in (*fields, "outside"))
        yield from (f"    {n} = wide({n})" for n in arrays)
        for depth, axis in enumerate(axes, 1):
            yield f"{'    ' * depth}for {axis} in range(out0.shape[{depth - 1}]):"
        inner = "    " * (len(axes) + 1)
        yield f"{inner}go_on(outside)"
        yield f"{inner}value = point({', '.join(given)})"
        for n, out in enumerate(outs):
            one = f"value[{n}]" if several else "value"
            one = one if overflow is None else f"{_STORES[overflow]}({one}, {out})"
            yield f"{inner}{out}[{place}] = {one}"

    def _positions(self, among: str) -> str:
        """The positions of a point that are asked for, as a tuple."""
        steps = [plus(f"i{a}", -low) for a, low in enumerate(self.box.lo[:-1])]
        index = ", ".join(["b", *steps, plus("j", -self.box.lo[-1])])
        asked = enumerate(self.positions)
        return _tuple(f"place{k}[{index}]" for k, one in asked if one.among == among)


def _tuple(items: Iterator[str] | list[str]) -> str:
    return f"({''.join(f'{one}, ' for one in items)})"


def translate(
    function: Function,
    arguments: Mapping[str, Argument],
    request: Request,
) -> General:
    """Map the reads of a kernel that is not analysed.

    Raises
    ------
    StencilError
        If it holds what cannot be run.
    """
    refuse(function)
    given = {name: of(function.defaults.get(name)) for name in function.parameters}
    given |= {
        name: Maybe(frozenset([name])) if isinstance(a, Field) and not a.pointwise else ANYTHING
        for name, a in arguments.items()
    }
    scopes = Scopes(function, given)
    for scope in scopes.all:
        refuse(scope.function)
    pointwise = any(isinstance(a, Field) and a.pointwise for a in arguments.values())
    found, box = accesses(scopes, request.neighborhood, pointwise)
    if any(value is index for s in scopes.all for value in s.function.constants.values()):
        # A position is read at the point itself.
        box = joined((box, Box((0,) * box.ndim, (0,) * box.ndim)))
    context = Context(scopes, found, box, pointwise, _free(scopes), [], set())
    made = {
        id(scope.function): _rewritten(context, scope, arguments)
        for scope in reversed(scopes.helpers.values())
    }
    for one in made.values():
        constants: Any = one.constants
        constants |= {n: made[id(v)] for n, v in constants.items() if isinstance(v, Function)}
    root = made[id(scopes.root.function)]
    return General(
        function.name,
        root,
        tuple(made.values()),
        request.fastmath,
        box,
        tuple(context.places),
        _returned(scopes.root),
        arguments,
        tuple(map(Length, range(box.ndim) if "lengths" in context.asked else ())),
        tuple(
            Position(axis, among, LEAST, GREATEST)
            for among in ("elements", "results")
            if among in context.asked
            for axis in range(box.ndim)
        ),
        pointwise,
    )


def _free(scopes: Scopes) -> str:
    """A word with which no name of the functions begins."""
    taken = frozenset().union(*(bound_names(one.definition) for one in scopes.all))
    taken |= {name for one in scopes.all for name in one.function.constants}
    word = "relative"
    while any(name.startswith(word) for name in taken):
        word += "_"
    return word


def _rewritten(context: Context, scope: Scope, arguments: Mapping[str, Argument]) -> Function:
    """A function with its reads mapped, which is given all by its place.

    What the kernel itself is not given has its default.
    """
    rewriter = Rewriter(context, scope)
    root = scope is context.scopes.root
    function = rewriter.function(arguments if root else ())
    if not root:
        return function
    tree = function.definition
    assert isinstance(tree, ast.FunctionDef)
    names = [name for name in scope.parameters if name in arguments]
    names += [f"{context.relative}_notes"] * context.pointwise
    lines = [
        ast.Assign([ast.Name(name, ast.Store())], rewriter.held(function.defaults[name]))
        for name in scope.parameters
        if name not in arguments
    ]
    tree.name = "point"
    tree.args = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    tree.body = [*lines, *tree.body]
    ast.fix_missing_locations(tree)
    return replace(function, defaults={})


def _returned(root: Scope) -> Span:
    """Where the kernel returns at last; its values must be as many wherever it does."""
    definition, function = root.definition, root.function
    values: list[ast.expr] = [node.value for node in own(root, ast.Return) if node.value]
    if isinstance(definition, ast.Lambda):
        values = [definition.body]
    if not values:
        raise errors.no_return(function.place, function.name)
    counts = [len(v.elts) if isinstance(v, ast.Tuple) else 0 for v in values]
    for value, count in zip(values, counts, strict=True):
        if count and counts[0] and count != counts[0]:
            raise errors.return_mismatch(function.span(value), count, counts[0])
    return function.span(values[-1])
