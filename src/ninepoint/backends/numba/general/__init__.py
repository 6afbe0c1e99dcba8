"""The general path: kernels that are not analysed, as text that Numba compiles.

    s = np.sort(x[-1:2])                ->      def point(x, ...):  the user's body
    return s[0] + s[1]                          def band(x, out0, outside):  point at every place

The user's functions are kept as they stand, statement by statement, with Numba's rules for
numbers; only their reads are mapped, and their constants written down.  A function of numbers is
given the elements themselves.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....language import errors
from ....language.box import Box, joined
from ....language.definitions import parsed
from ....language.errors import Span
from ....language.frame import refuse
from ....language.ir import Position
from ....language.kinds import Argument, Coefficients, Field, Scalar
from ....language.positions import GREATEST, LEAST, Length, index
from ....language.source import Function, bound_names
from ....lowering.schedule import Request
from ...generated import Module
from ..bands import heading
from ..window_loops import plus
from .reads import accesses
from .rewrite import Context, Globals, Rewriter, text_of
from .scopes import ANYTHING, Maybe, Scope, Scopes, of, own

# The names of `relative` that the text uses.
_NAMES = (
    "Neighbours along chosen clipped go_on in_order middle near njit ordered saturated unowned "
    "wide wrapped"
).split()
_OWN = "np math point band outside FLAGS b j value inf nan".split()
_RESERVED = frozenset({*_NAMES, *_OWN, *keyword.kwlist, *dir(builtins)})
_CONSTANT = re.compile(r"(?<![\w.])(inf|nan)\b")
_LOOP = re.compile(r"^ *(for|while) ", re.MULTILINE)
_MAKING = re.compile(
    r"\b(np\.(empty|zeros|ones|full|array|nan\w+)|ordered|in_order|middle)\(|\.array\[.*:"
)
_STORES = {"saturate": "saturated", "wrap": "wrapped"}


@dataclass(frozen=True, slots=True)
class General:
    """A kernel as text, before the types of its outputs are known.

    `places` says for each read that is checked at run time where it stands; `lines` maps
    lines of `functions` to the user's.  `pointwise` tells that its fields are numbers to it.
    """

    name: str
    functions: str
    lines: Mapping[int, Span]
    box: Box
    places: tuple[str, ...]
    returned: Span
    arguments: Mapping[str, Argument]
    lengths: tuple[Length, ...]
    positions: tuple[Position, ...]
    pointwise: bool

    @property
    def factor(self) -> str:
        """How many times as long as an analysed kernel of the same reads it takes, about."""
        if _MAKING.search(self.functions):
            return "50 to 500"
        return "20 to 200" if _LOOP.search(self.functions) else "5 to 20"

    def module(self, outputs: int, several: bool, overflow: str | None = None) -> Module:
        """The whole text, for a number of outputs and a rule for what does not fit."""
        body = self.functions + "\n".join(self._band(outputs, several, overflow)) + "\n"
        special = bool(_CONSTANT.search(body))
        title = f"{self.name}, on the general path: written by ninepoint."
        names = {"numba.relative": _NAMES}
        lines = heading(title, body + " math" * special, names)
        text = "\n".join([*lines, *["inf, nan = math.inf, math.nan"] * special, body])
        return Module(text, checked=True, places=self.places, opaque=True)

    def spans(self, text: str) -> dict[int, Span]:
        """The user's lines for those of a module's text."""
        before = text[: text.index(self.functions)].count("\n")
        return {before + line: span for line, span in self.lines.items()}

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
        yield from ["", "", f"def band({', '.join(order)}):"]
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
    """Write a kernel that is not analysed as text.

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
    taken = frozenset().union(*(bound_names(s.definition) for s in scopes.all))
    context = Context(
        scopes,
        found,
        box,
        pointwise,
        Globals(_RESERVED, taken),
        [],
        set(),
    )
    for scope in scopes.helpers.values():
        name = "point" if scope is scopes.root else context.globals.fresh(scope.function.name)
        context.globals.names[id(scope.function)] = name
    pieces = [
        (scope, *_piece(context, scope, arguments)) for scope in reversed(scopes.helpers.values())
    ]
    flags = f"nogil=True, error_model='numpy', boundscheck=True, fastmath={request.fastmath}"
    text = "\n".join([f"FLAGS = dict({flags})", *context.globals.lines])
    lines: dict[int, Span] = {}
    for scope, written, statements in pieces:
        start = text.count("\n") + 4
        text += "\n\n\n" + written
        lines |= _lines(written, start, scope, statements)
    return General(
        function.name,
        text + "\n",
        lines,
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


def _piece(
    context: Context, scope: Scope, arguments: Mapping[str, Argument]
) -> tuple[str, list[ast.stmt]]:
    """The text of a function, and its statements."""
    rewriter = Rewriter(context, scope)
    body = rewriter.body()
    root = scope is context.scopes.root
    parameters, fixed = [], []
    for parameter in scope.parameters:
        local, defaults = rewriter.local(parameter), scope.function.defaults
        default = f" = {text_of(defaults[parameter])}" if parameter in defaults else ""
        if root and parameter not in arguments:
            fixed.append(f"    {local}{default}")
        else:
            parameters.append(local if root else local + default)
    parameters += ["outside"] if root and context.pointwise else []
    module = ast.fix_missing_locations(ast.Module(body, []))
    inner = "\n".join("    " + line for line in ast.unparse(module).split("\n"))
    # Called, it would be given the whole of its fields for each point: what reads at an offset
    # from data took 16 ns so, and takes 1.3 ns as a part of the loop.
    flags = ", forceinline=True, cache=True" if root else ""
    name = context.globals.names[id(scope.function)]
    head = [f"@njit(**FLAGS{flags})", f"def {name}({', '.join(parameters)}):"]
    return "\n".join([*head, *fixed, inner]), body


def _lines(written: str, start: int, scope: Scope, statements: list[ast.stmt]) -> dict[int, Span]:
    """For each line of a function's text the place in the user's file it was made from."""
    tree = parsed(written).body[0]
    assert isinstance(tree, ast.FunctionDef)
    made = tree.body[len(tree.body) - len(statements) :]
    found: dict[int, Span] = {}
    pending = list(zip(made, statements, strict=True))
    while pending:
        new, old = pending.pop()
        found[start + new.lineno - 1] = scope.function.span(old)
        for field in ("body", "orelse", "finalbody"):
            pairs = zip(getattr(new, field, []), getattr(old, field, []), strict=False)
            pending += [(a, b) for a, b in pairs if isinstance(a, ast.stmt)]
    return found


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
