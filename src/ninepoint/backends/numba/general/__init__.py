"""The general path: kernels that are not analysed, as text that Numba compiles.

    while k < 3: s += x[k]; k += 1      ->      def point(x, ...):  the user's body
                                                def band(x, out0, outside):  point at every place

The user's functions are kept as they stand, statement by statement; only their reads are
mapped, their constants written down, and a few operators given the rules of a kernel.  A function
of numbers is given the elements themselves.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ....language import errors
from ....language.box import Box, Neighborhood, joined
from ....language.errors import Span
from ....language.ir import Position
from ....language.lengths import Length
from ....language.parse import Argument
from ....language.positions import GREATEST, LEAST, index
from ....language.refusals import refuse
from ....language.source import Function, bound_names
from ....language.values import Coefficients, Field, Value
from ...backend import Module
from ..loops import heading
from ..window_loops import plus
from .reads import EACH, accesses
from .rewrite import Context, Globals, Rewriter
from .scopes import Anything, FieldOf, Known, Origin, Scope, Scopes, own
from .texts import text_of

# The names of `relative` that the text uses.
_NAMES = (
    "along_all along_any along_max along_mean along_median along_min along_prod along_ptp "
    "along_std along_var beside cast ceiled chosen clipped divided floored go_on greatest halved "
    "least look natural_power near njit np_greatest np_least op_add op_and op_eq "
    "op_floordiv op_ge op_gt op_le op_lshift op_lt op_mod op_mul op_ne op_or op_pow op_rshift "
    "op_integer op_neg op_sub op_word op_xor peek rounded rounded_to saturated span stored "
    "truncated unowned whole wide window wrapped"
)
_ROOMS = (
    "cleared held known_middle mask_eq mask_ge mask_gt mask_le mask_lt mask_ne masked middle "
    "order ordered taken unwritten"
)
MODULES = {"numba.relative": tuple(_NAMES.split()), "numba.rooms": tuple(_ROOMS.split())}
_OWN = tuple("np math point band outside turns FLAGS b j value inf nan".split())
_RESERVED = frozenset({*_NAMES.split(), *_ROOMS.split(), *_OWN, *keyword.kwlist, *dir(builtins)})
_CONSTANTS = "inf, nan = math.inf, math.nan"
_CONSTANT = re.compile(r"(?<![\w.])(inf|nan)\b")
_LOOP = re.compile(r"^ *(for|while) ", re.MULTILINE)
_MAKING = re.compile(
    r"\b(window|held|masked|taken|ordered?|middle|known_middle|"
    r"np\.(empty|zeros|ones|full|array|sort|nan\w+))\("
)
_STORES = {None: "stored", "saturate": "saturated", "wrap": "wrapped"}


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
    outputs: int
    returned: Span
    fields: tuple[str, ...]
    coefficients: tuple[str, ...]
    scalars: tuple[str, ...]
    lengths: tuple[Length, ...]
    positions: tuple[Position, ...]
    arguments: tuple[str, ...]
    pointwise: bool

    @property
    def factor(self) -> str:
        """How many times as long as an analysed kernel of the same reads it takes, about."""
        if _MAKING.search(self.functions):
            return "50 to 500"
        return "20 to 200" if _LOOP.search(self.functions) else "5 to 20"

    def module(self, outputs: int, overflow: str | None = None) -> Module:
        """The whole text, for a number of outputs and a rule for what does not fit."""
        body = self.functions + "\n".join(self._band(outputs, _STORES[overflow])) + "\n"
        title = f"{self.name}, on the general path: written by ninepoint."
        lines = heading(title, body, MODULES)
        if _CONSTANT.search(body):
            lines = [*heading(title, f"{body} math", MODULES), _CONSTANTS]
        text = "\n".join([*lines, body])
        return Module(text, checked=True, places=self.places, opaque=True)

    def spans(self, text: str) -> dict[int, Span]:
        """The user's lines for those of a module's text."""
        before = text[: text.index(self.functions)].count("\n")
        return {before + line: span for line, span in self.lines.items()}

    def _band(self, outputs: int, store: str) -> list[str]:
        outs = [f"out{n}" for n in range(outputs)]
        axes = ["b", *(f"i{a}" for a in range(self.box.ndim - 1)), "j"]
        # Arguments are numbered: no name of the user's can then clash.
        names = {n: f"field{k}" for k, n in enumerate(self.fields)}
        names |= {n: f"array{k}" for k, n in enumerate(self.coefficients)}
        names |= {n: f"scalar{k}" for k, n in enumerate(self.scalars)}
        place = f"({', '.join(axes)})"
        lengths = [f"length{length.axis}" for length in self.lengths]
        shape = f"({''.join(f'{n}, ' for n in lengths)})"
        index, among = (self._positions(one) for one in ("elements", "results"))
        given = [
            names[n]
            if n not in self.fields
            else f"wide(peek({names[n]}, {place}))"
            if self.pointwise
            else f"look({names[n]}, {place}, outside, {shape}, {index}, {among})"
            for n in self.arguments
        ]
        given += ["outside"] if self.pointwise else []
        order = [names[n] for n in (*self.coefficients, *self.scalars)] + lengths
        places = [f"place{k}" for k in range(len(self.positions))]
        fields = [*(names[n] for n in self.fields), *places]
        lines = ["", "", f"def band({', '.join([*fields, *outs, *order, 'outside'])}):"]
        lines += [f"    {n} = unowned({n})" for n in (*fields, "outside")]
        lines += [f"    {names[n]} = wide({names[n]})" for n in self.coefficients]
        depth = "    "
        for axis, index in enumerate(axes):
            if index == "j":
                lines.append(f"{depth}go_on(outside)")
            lines.append(f"{depth}for {index} in range(out0.shape[{axis}]):")
            depth += "    "
        lines.append(f"{depth}value = point({', '.join(given)})")
        for n, out in enumerate(outs):
            part = "value" if outputs == 1 and self.outputs == 1 else f"value[{n}]"
            lines.append(f"{depth}{out}[{', '.join(axes)}] = {store}({part}, {out})")
        return lines

    def _positions(self, among: str) -> str:
        """The positions of a point that are asked for, as a tuple."""
        low = self.box.lo
        steps = ["b", *(plus(f"i{a}", -low[a]) for a in range(len(low) - 1)), plus("j", -low[-1])]
        found = (
            f"place{k}[{', '.join(steps)}], "
            for k, one in enumerate(self.positions)
            if one.among == among
        )
        return f"({''.join(found)})"


def translate(
    function: Function,
    arguments: Mapping[str, Argument],
    neighborhood: Neighborhood | None = None,
    *,
    fastmath: bool = False,
) -> General:
    """Write a kernel that is not analysed as text.

    Raises
    ------
    StencilError
        If it holds what cannot be run.
    """
    refuse(function)
    kinds: dict[str, Origin] = {}
    numbers = frozenset(a.name for a in arguments.values() if isinstance(a, Field) and a.pointwise)
    for name in function.parameters:
        argument = arguments.get(name)
        if isinstance(argument, Field) and not argument.pointwise:
            kinds[name] = FieldOf(name)
        elif argument is None and name in function.defaults:
            kinds[name] = Known(function.defaults[name])
        else:
            kinds[name] = Anything()
    scopes = Scopes(function, kinds)
    for scope in scopes.all:
        refuse(scope.function)
    returned = _returns(scopes.root)
    found, box = accesses(scopes, neighborhood, bool(numbers))
    if any(value is index for s in scopes.all for value in s.function.constants.values()):
        # A position is read at the point itself.
        box = joined((box, Box((0,) * box.ndim, (0,) * box.ndim)))
    arrays = [a for a in arguments.values() if isinstance(a, Field | Coefficients)]
    taken = frozenset().union(*(bound_names(s.definition) for s in scopes.all))
    context = Context(
        scopes,
        {access.node: access for access in found},
        box,
        frozenset(a.name for a in arrays if a.storage == np.uint64),
        numbers,
        any(_narrow(value) for s in scopes.all for value in s.function.constants.values()),
        Globals(_RESERVED, taken),
        [],
        set(),
    )
    names = context.globals.functions
    for key, scope in scopes.helpers.items():
        root = scope is scopes.root
        names[key] = "point" if root else context.globals.fresh(scope.function.name)
    order = tuple(n for n in function.parameters if n in arguments)
    pieces = _pieces(context, order)
    flags = f"nogil=True, error_model='numpy', boundscheck=True, fastmath={fastmath}"
    text = "\n".join([f"FLAGS = dict({flags})", *context.globals.lines])
    lines: dict[int, Span] = {}
    for written, scope, statements in pieces:
        start = text.count("\n") + 4
        text += "\n\n\n" + written
        lines |= _lines(written, start, scope, statements)
    return General(
        function.name,
        text + "\n",
        lines,
        box,
        tuple(context.places),
        returned[0],
        returned[1],
        tuple(n for n in order if isinstance(arguments[n], Field)),
        tuple(n for n in order if isinstance(arguments[n], Coefficients)),
        tuple(n for n in order if isinstance(arguments[n], Value)),
        tuple(map(Length, range(box.ndim)))
        if not numbers and any(map(_measures, scopes.all))
        else (),
        tuple(
            Position(axis, among, LEAST, GREATEST)
            for among in ("elements", "results")
            if among in context.among
            for axis in range(box.ndim)
        ),
        order,
        bool(numbers),
    )


def _measures(scope: Scope) -> bool:
    """Whether a function may ask how large a field is."""
    return any(
        (isinstance(node, ast.Name) and node.id == "len")
        or (isinstance(node, ast.Attribute) and node.attr in ("shape", "ndim", "size"))
        for node in ast.walk(scope.definition)
    )


def _narrow(value: object) -> bool:
    """Whether a constant is an integer type of less than 64 bits."""
    return isinstance(value, type) and issubclass(value, np.integer) and value().itemsize < 8


def _pieces(context: Context, order: tuple[str, ...]) -> list[tuple[str, Scope, list[ast.stmt]]]:
    """The text of every function, the kernel's own last."""
    pieces = []
    for key, scope in reversed(context.scopes.helpers.items()):
        name = context.globals.functions[key]
        rewriter = Rewriter(context, scope)
        body = rewriter.body()
        root = scope is context.scopes.root
        local = {p: rewriter.visit_arg(ast.arg(p)) for p in scope.parameters}
        texts: list[str] = []
        fixed: list[str] = []
        for parameter, argument in local.items():
            assert isinstance(argument, ast.arg)
            default = _default(scope, parameter)
            if root and parameter not in order:
                fixed.append(f"    {argument.arg} = {default}")
            elif default is not None and not root:
                texts.append(f"{argument.arg}={default}")
            else:
                texts.append(argument.arg)
        module = ast.fix_missing_locations(ast.Module(body, []))
        inner = "\n".join("    " + line for line in ast.unparse(module).split("\n"))
        # Called, it would be given the whole of its fields for each point: what reads at an offset
        # from data took 16 ns so, and takes 1.3 ns as a part of the loop.
        flags = ", forceinline=True, cache=True" if root else ""
        lines = [f"@njit(**FLAGS{flags})"]
        if rewriter.looks:
            if rewriter.looks != "outside":
                fixed.append(f"    outside = {rewriter.looks}")
            fixed.append(f"    turns = {EACH}")
        if root and context.numbers:
            texts.append("outside")
        lines += [f"def {name}({', '.join(texts)}):", *fixed, inner]
        pieces.append(("\n".join(lines), scope, body))
    return pieces


def _default(scope: Scope, parameter: str) -> str | None:
    if parameter not in scope.function.defaults:
        return None
    return text_of(scope.function.defaults[parameter])


def _lines(written: str, start: int, scope: Scope, statements: list[ast.stmt]) -> dict[int, Span]:
    """For each line of a function's text the place in the user's file it was made from."""
    tree = ast.parse(written).body[0]
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


def _returns(root: Scope) -> tuple[int, Span]:
    """How many values the kernel returns, where that can be seen, and where it returns."""
    definition, function = root.definition, root.function
    if isinstance(definition, ast.Lambda):
        values = [definition.body]
    else:
        values = []
        for node in own(root, ast.Return):
            if node.value is None:
                raise errors.no_return(function.span(node), function.name)
            values.append(node.value)
        if not values or not _ends(definition.body):
            raise errors.no_return(function.place, function.name)
    counts = [len(v.elts) if isinstance(v, ast.Tuple) else 0 for v in values]
    for value, count in zip(values, counts, strict=True):
        if count and counts[0] and count != counts[0]:
            raise errors.return_mismatch(function.span(value), counts[0], count)
    return max(counts) or 1, function.span(values[-1])


def _ends(statements: list[ast.stmt]) -> bool:
    """Whether the end of a block is never reached."""
    for node in statements:
        match node:
            case ast.Return():
                return True
            case ast.If(body=body, orelse=orelse) if _ends(body) and _ends(orelse):
                return True
            case ast.While(test=ast.Constant(value=value)) if value and not _breaks(node):
                return True
            case ast.For(orelse=orelse) | ast.While(orelse=orelse) if (
                orelse and _ends(orelse) and not _breaks(node)
            ):
                return True
            case _:
                pass
    return False


def _breaks(loop: ast.stmt) -> bool:
    """Whether a loop has a 'break' of its own."""
    pending: list[ast.AST] = list(getattr(loop, "body", []))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Break):
            return True
        if not isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)
    return False
