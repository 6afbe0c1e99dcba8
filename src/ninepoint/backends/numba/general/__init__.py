"""The general path: kernels that are not analysed, as functions that Numba compiles.

    s = np.sort(x[-1:2])                ->      def point(x, ...):  the user's body
    return s[0] + s[1]                          def band(x, out0, outside):  point at every place

The user's functions are kept as they stand, statement by statement, with Numba's rules for
numbers; only their reads are mapped, and what their names mean is kept.  A function of numbers is
given the elements themselves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....language import errors
from ....language.box import Box, Length, joined
from ....language.dtypes import Argument, Coefficients, Field, Scalar
from ....language.errors import Span
from ....language.frame import refuse
from ....language.ir import Position
from ....language.positions import GREATEST, LEAST, index
from ....language.source import Function, meaning
from ....lowering.schedule import Request
from ....remembered import digest
from ..points import plus
from .reads import accesses
from .rewrite import Context, Rewriter
from .scopes import ANYTHING, Maybe, Scope, Scopes, of, own

_STORES = {"saturate": "saturated", "wrap": "wrapped"}


@dataclass(frozen=True, slots=True)
class General:
    """A kernel whose reads are mapped, before the types of its outputs are known.

    `functions` are that of a point, and those of the user's that it calls; `token` names what they
    mean, and words of ours in them end in the `suffix`.  `places` says for each read that is
    checked at run time where it stands.  It takes about `factor` times as long as an analysed
    kernel of the same reads.  `pointwise` tells that its fields are numbers to it.
    """

    functions: tuple[Function, ...]
    token: str
    suffix: str
    box: Box
    places: tuple[str, ...]
    factor: str
    returned: Span
    arguments: Mapping[str, Argument]
    lengths: tuple[Length, ...]
    positions: tuple[Position, ...]
    pointwise: bool

    def text(self, band: str) -> str:
        """The whole text, whose last function computes a block."""
        point, *_ = self.functions
        title = f"{point.name}, on the general path: written by ninepoint for {self.token[:24]}."
        trees = [ast.unparse(one.definition) for one in reversed(self.functions)]
        return "\n\n\n".join([f'"""{title}"""', *trees, band])

    def band(self, outputs: int, several: bool, overflow: str | None) -> str:
        """What computes a block, for a number of outputs and a rule for what does not fit."""
        return "\n".join(self._band(outputs, several, overflow)) + "\n"

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
    context = Context(scopes, found, box, pointwise, _suffix(scopes), [], set(), {})
    point = Rewriter(context, scopes.root, {}).function(arguments)
    asked = context.asked
    factor = "50 to 500" if "making" in asked else "20 to 200" if "loops" in asked else "5 to 20"
    kinds = tuple(arguments.items())
    return General(
        (point, *context.helpers.values()),
        digest((meaning(function), kinds, request.neighborhood, request.fastmath)),
        context.suffix,
        box,
        tuple(context.places),
        factor,
        _returned(scopes.root),
        arguments,
        tuple(map(Length, range(box.ndim) if "lengths" in asked else ())),
        tuple(
            Position(axis, among, LEAST, GREATEST)
            for among in ("elements", "results")
            if among in asked
            for axis in range(box.ndim)
        ),
        pointwise,
    )


def _suffix(scopes: Scopes) -> str:
    """How no name of the user's ends."""
    nodes = [node for scope in scopes.all for node in ast.walk(scope.definition)]
    names = [getattr(node, key, "") for node in nodes for key in ("id", "arg", "name")]
    longest = max(len(name) - len(name.rstrip("_")) for name in names if isinstance(name, str))
    return "_" * (longest + 1)


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
