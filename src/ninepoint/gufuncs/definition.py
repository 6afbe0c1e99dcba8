"""What a gufunc means: a function of core arrays, its signature and its options.

@gufunc("(n),(n)->()")                     inputs x, w;  numbers power
def mean(x, w, *, power=2): ...            gives its results: returns them

@gufunc("(n)->(n)")                        inputs x;  its results are written into `out`,
def double(x, out): out[:] = 2 * x         as functions for numba.guvectorize do
"""

from __future__ import annotations

import ast
import copyreg
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..language import errors
from ..language.positions import Spacing
from ..language.source import Function, SelfReference, Unusable, own_nodes
from ..options import Parameters, no_number, renamed
from ..remembered import digest
from ..undisturbed import Later
from .signature import Signature

if TYPE_CHECKING:
    from . import compiled
    from .compiled import Compiled
else:
    # Numba takes half a second to be imported.
    compiled = Later(".compiled", __package__)

# What a call takes besides the function's own parameters.
CALL_OPTIONS = ("out", "axes", "axis", "keepdims", "dtype", "sizes", "dims", "threads")

# The dtypes of the inputs and of the numbers, in this order, or those of the results.
Types: TypeAlias = tuple[np.dtype[Any], ...]


@dataclass(frozen=True, slots=True)
class Options:
    """What a gufunc was decorated with besides its signature."""

    dtypes: Types | None = None
    sizes: tuple[tuple[str, int], ...] = ()
    fastmath: bool = False
    boundscheck: bool = True


class GufuncDefinition:
    """A function of core arrays, checked against its signature.

    Attributes
    ----------
    captured, function : Function
        The user's function, as it is pickled, and with what is foreign in its place.
    signature : Signature
        Its core axes.
    options : Options
        What it was decorated with.
    foreign : dict
        Values that have no place in a pickle of ours, such as functions of other compilers, by
        the function that names them and the name.
    parameters : tuple of str
        The names of the parameters, in the order of the function.
    defaults : dict
        The values of those that have one.
    inputs, scalars, outs : tuple of str
        The parameters that are core arrays, those that are numbers, and those that results are
        written into; the last are empty where the function returns them.
    given, cores : tuple
        The names of inputs and numbers, and the core axes of each.
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
        foreign: Mapping[tuple[str, str], Any],
    ) -> None:
        self.captured = function
        self.function = function = _with(function, foreign) if foreign else function
        self.signature = signature
        self.options = options
        self.foreign = foreign
        self.name = function.name
        self.parameters = parameters = function.parameters
        # An array for a result may be left out.
        self.defaults = dict(function.defaults)
        self.arguments = Parameters(function, self.defaults)
        positional = self.arguments.positional
        nin, nout = len(signature.inputs), len(signature.outputs)
        if positional < nin:
            raise ValueError(
                f"the signature {signature} has {nin} inputs, but '{function.name}' has "
                f"{positional} parameters for them: {', '.join(parameters) or 'none'}."
            )
        self.inputs = parameters[:nin]
        rest = [p for p in parameters[nin:positional] if p not in function.defaults]
        writes = not returned_values(function.definition)
        self.outs = tuple(rest) if writes and len(rest) == nout else ()
        if writes and not self.outs:
            raise errors.no_result(function.place, function.name)
        self.scalars = tuple(p for p in parameters[nin:] if p not in self.outs)
        self.given = self.inputs + self.scalars
        self.cores = signature.inputs + ((),) * len(self.scalars)
        self.defaults |= dict.fromkeys(self.outs)
        self._check()
        self.token = digest(("gufunc", _meaning(self.captured), str(signature), options))
        self._compiled: dict[Any, Compiled] = {}

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
            if name in CALL_OPTIONS and not (name == "out" and name in self.outs):
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

    def result_types(self, types: Types) -> Types:
        """The dtypes of what the function gives, by Numba's inference or from disk."""
        return compiled.result_types(self, types)

    def compiled(self, types: Types, wanted: Types | None) -> Compiled:
        """What is compiled for given types and for results of these dtypes, once."""
        key = types, wanted
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled.setdefault(key, compiled.compiled(self, types, wanted))
        return found


def returned_values(definition: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    """What a function returns, wherever it does so."""
    if isinstance(definition, ast.Lambda):
        return [definition.body]
    found = [node for node in own_nodes(definition) if isinstance(node, ast.Return)]
    return [node.value for node in found if node.value is not None]


def _meaning(function: Function) -> tuple[Any, ...]:
    """What a function does, wherever it stands: its text, and what its names mean."""
    values = (*sorted(function.constants.items()), ("", None), *sorted(function.defaults.items()))
    return (
        function.name,
        function.text,
        function.columns,
        tuple((name, _meant(value)) for name, value in values),
    )


def _meant(value: Any) -> Any:
    if isinstance(value, Function):
        return _meaning(value)
    return tuple(map(_meant, value)) if isinstance(value, tuple) else value


def foreign_values(function: Function) -> Iterator[tuple[tuple[str, str], Any]]:
    """The values that a function names and that cannot be frozen, as they are now."""
    for name, value in function.constants.items():
        if isinstance(value, Function):
            yield from foreign_values(value)
        if isinstance(value, Unusable) and value.value is not None:
            yield (function.name, name), value.value


def _with(function: Function, foreign: Mapping[tuple[str, str], Any]) -> Function:
    """The function with these values in the place of what cannot be frozen."""
    known = {
        name: _with(value, foreign)
        if isinstance(value, Function)
        else foreign.get((function.name, name), value)
        for name, value in function.constants.items()
    }
    return replace(function, constants=known)


def packed(values: Mapping[tuple[str, str], Any]) -> dict[tuple[str, str], bytes]:
    """Values by the names that functions have for them, each as a pickle.

    Raises
    ------
    TypeError
        If one cannot be sent to another process.
    """
    found: dict[tuple[str, str], bytes] = {}
    if not values:
        return found
    # Imported here, not above: `import ninepoint` must not import Numba.
    from numba import cloudpickle
    from numba.stencils.stencil import StencilFunc

    copyreg.pickle(StencilFunc, _parts)
    # Partly typed: Any, or mypy finds the gaps.
    theirs: Any = cloudpickle
    for (function, name), value in values.items():
        try:
            found[function, name] = theirs.dumps(value)
        except (TypeError, AttributeError, theirs.pickle.PicklingError) as error:
            raise TypeError(
                f"'{function}' uses '{name}', a value of type '{type(value).__name__}', which "
                "cannot be sent to another process; use a function of Python instead."
            ) from error
    return found


def _parts(value: Any) -> Any:
    """What `numba.stencil` was given, for its pickle."""
    return _stencil, (value.kernel_ir.func_id.func, value.mode, value.options)


def _stencil(function: Any, mode: str, options: Mapping[str, Any]) -> Any:
    from numba import stencil

    return stencil(mode, **options)(function)
