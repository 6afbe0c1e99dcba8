"""What a gufunc means: a function of core arrays, its signature and its options.

@gufunc("(n),(n)->()")                     inputs x, w;  numbers power
def mean(x, w, *, power=2): ...            gives its results: returns them

@gufunc("(n)->(n)")                        inputs x;  its results are written into `out`,
def double(x, out): out[:] = 2 * x         as functions for numba.guvectorize do
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays.keys import Parameters
from ..language import errors
from ..language.errors import Span
from ..language.positions import Spacing
from ..language.source import Function, SelfReference, Unusable, closure, own_nodes
from ..language.trees import copied, encoded
from ..options import no_number, renamed
from ..tokens import Registry, digest
from .foreign import packed, unpacked
from .signature import Signature

# What a call takes besides the function's own parameters.
CALL_OPTIONS = ("out", "axes", "axis", "keepdims", "dtype", "sizes", "dims", "threads")

# What a lambda is called where it is compiled.
FROM_LAMBDA = "from_lambda"


@dataclass(frozen=True, slots=True)
class Options:
    """What a gufunc was decorated with besides its signature."""

    dtypes: tuple[np.dtype[Any], ...] | None = None
    sizes: tuple[tuple[str, int], ...] = ()
    fastmath: bool = False
    boundscheck: bool = True


@dataclass(frozen=True, slots=True)
class Types:
    """The dtypes of the inputs and of the numbers, in the order of the parameters."""

    inputs: tuple[np.dtype[Any], ...]
    scalars: tuple[np.dtype[Any], ...]

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.inputs, *self.scalars)))


class GufuncDefinition:
    """A function of core arrays, checked against its signature.

    Attributes
    ----------
    function : Function
        The user's function.
    signature : Signature
        Its core axes.
    options : Options
        What it was decorated with.
    parameters : tuple of str
        The names of the parameters, in the order of the function.
    defaults : dict
        The values of those that have one.
    new : tuple of str
        The sizes that only results have.
    inputs, scalars, outs : tuple of str
        The parameters that are core arrays, those that are numbers, and those that results are
        written into; the last are empty where the function returns them.
    foreign : dict
        Values that have no place in a pickle of ours, such as functions of other compilers, by
        the function that names them and the name.
    arguments : Parameters
        Puts the arguments of a call in their order.
    token : str
        Names the meaning, in any process.
    """

    def __init__(
        self,
        function: Function,
        signature: Signature,
        options: Options,
        foreign: Mapping[tuple[str, str], Any] | None = None,
    ) -> None:
        self.function = function
        self.signature = signature
        self.options = options
        self.foreign = dict(_foreign(function)) if foreign is None else dict(foreign)
        arguments = function.definition.args
        self.positional = len(arguments.posonlyargs) + len(arguments.args)
        self.unnamed = frozenset(a.arg for a in arguments.posonlyargs)
        self.parameters = parameters = function.parameters
        self.new = signature.new
        nin, nout = len(signature.inputs), len(signature.outputs)
        if self.positional < nin:
            raise ValueError(
                f"the signature {signature} has {nin} inputs, but '{function.name}' has "
                f"{self.positional} parameters for them: {', '.join(parameters) or 'none'}."
            )
        self.inputs = parameters[:nin]
        rest = [p for p in parameters[nin : self.positional] if p not in function.defaults]
        writes = not returned_values(function.definition)
        self.outs = tuple(rest) if writes and len(rest) == nout else ()
        if writes and not self.outs:
            raise errors.no_result(function.place, function.name)
        self.scalars = tuple(p for p in parameters[nin:] if p not in self.outs)
        # An array for a result may be left out.
        self.defaults: Mapping[str, Any] = {**function.defaults, **dict.fromkeys(self.outs)}
        self.arguments = Parameters(parameters, self.defaults, self.positional, self.unnamed)
        self._check()
        self.token = digest(("gufunc", meaning(function), str(signature), options))

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.name

    @property
    def kept(self) -> bool:
        """Whether other processes may use what this one compiles."""
        return not self.foreign

    def _check(self) -> None:
        for name, default in self.function.defaults.items():
            if default is None:
                raise ValueError(no_number(name, self.name))
            if isinstance(default, Spacing):
                raise ValueError(
                    f"'{name}' of the gufunc '{self.name}' is {default!r}, and a gufunc has no "
                    "axes that are counted so; leave the default out."
                )
        for name in self.function.parameters:
            if name in set(CALL_OPTIONS) - {"out"} or (name == "out" and name not in self.outs):
                raise ValueError(
                    f"'{name}' is an option of every call, so no parameter of '{self.name}' "
                    f"can have that name; {renamed(name)}."
                )
        for name, _ in self.options.sizes:
            self.check_size(name)
        for value in self.function.constants.values():
            if isinstance(value, SelfReference) and value.name == self.name:
                raise errors.recursion(self.function.place, self.name)

    def check_size(self, name: str) -> None:
        """Raise unless a size is one that has to be told."""
        if name not in self.signature.new:
            told = ", ".join(f"'{new}'" for new in self.signature.new) or "none"
            raise ValueError(
                f"sizes= tells '{name}', but only sizes that no input of {self.signature} has "
                f"are told: {told}."
            )

    def __reduce__(self) -> Any:
        foreign = packed(self.foreign) if self.foreign else None
        return _restored, (self.token, self.function, self.signature, self.options, foreign)


_definitions: Registry[GufuncDefinition] = Registry()


def _restored(
    token: str, function: Function, signature: Signature, options: Options, foreign: bytes | None
) -> GufuncDefinition:
    def made() -> GufuncDefinition:
        values = {} if foreign is None else unpacked(foreign)
        return GufuncDefinition(function, signature, options, values)

    return _definitions.restored(token, made)


def returned_values(definition: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    """What a function returns, wherever it does so."""
    if isinstance(definition, ast.Lambda):
        return [definition.body]
    found = [node for node in own_nodes(definition) if isinstance(node, ast.Return)]
    return [node.value for node in found if node.value is not None]


def all_functions(function: Function) -> Iterator[Function]:
    """A function and all that it calls."""
    yield function
    for value in function.constants.values():
        if isinstance(value, Function):
            yield from all_functions(value)


def whole_line(function: Function, line: int) -> Span:
    """A line of a function's text, by its number in the file."""
    code = function.text.split("\n")[line - function.first_line]
    return Span(function.file, line, len(code) - len(code.lstrip()), len(code), code)


def lines(function: Function) -> tuple[Any, ...]:
    """The lines of all that is written, counted from that of the function's name."""
    found = []
    for one in all_functions(function):
        tree = one.definition
        rows = (getattr(node, "lineno", None) for node in ast.walk(tree))
        found.append(tuple(row - tree.lineno for row in rows if row is not None))
    return tuple(found)


def meaning(function: Function) -> tuple[Any, ...]:
    """What a function does, wherever it stands: its tree without places, and its constants."""
    bare = copied(function.definition)
    if isinstance(bare, ast.FunctionDef):
        bare.decorator_list = []
    rows = tuple((kind, parts) for kind, parts, _ in encoded(bare))
    values = (*sorted(function.constants.items()), ("", None), *sorted(function.defaults.items()))
    return function.name, rows, tuple((name, _meant(value)) for name, value in values)


def _meant(value: Any) -> Any:
    if isinstance(value, Function):
        return meaning(value)
    return tuple(map(_meant, value)) if isinstance(value, tuple) else value


def _foreign(function: Function) -> Iterator[tuple[tuple[str, str], Any]]:
    """The values that a function names and that cannot be frozen, as they are now."""
    for name, value in function.constants.items():
        if isinstance(value, Function):
            yield from _foreign(value)
        if not isinstance(value, Unusable) or function.live is None:
            continue
        found, *attributes = name.split(".")
        names = dict(function.live.__globals__)
        names |= closure(function.live)
        if found in names:
            one = names[found]
            for attribute in attributes:
                one = getattr(one, attribute)
            yield (function.name, name), one
