"""What a gufunc means: a function of core arrays, its signature and its options.

@gufunc("(n),(n)->()")                     inputs x, w;  numbers power
def mean(x, w, *, power=2): ...            gives its results: returns them

@gufunc("(n)->(n)")                        inputs x;  its results are written into `out`,
def double(x, out): out[:] = 2 * x         as functions for numba.guvectorize do

A signature says which axes the function takes, and which it gives:

"(n,k),(k,m)->(n,m)"    ->    inputs (n, k), (k, m); outputs (n, m)
"(3),(3)->(3)"                sizes that are fixed
"(n)->(n,bins)"               bins is new: no array has it, so it is told otherwise
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numba
import numpy as np
from numba import cloudpickle
from numba.stencils.stencil import StencilFunc

from ..base.frozen import frozen
from ..base.remembered import Registry, cached_property, digest
from ..language.definitions import (
    Function,
    SelfReference,
    Unusable,
    meaning,
    returned_values,
    with_helpers,
)
from ..language.errors import mistake
from ..program.options import Parameters, check_parameters

# The sizes of the core axes of one array: names, or numbers as text.
Core: TypeAlias = tuple[str, ...]

# Names that NumPy and Dask read as well.
_SIZE = r"0*[1-9][0-9]*|[A-Za-z_][A-Za-z0-9_]*"
_CORE = rf"\(\s*(?:(?:{_SIZE})\s*(?:,\s*(?:{_SIZE})\s*)*)?\)"
_SIDE = rf"\s*{_CORE}\s*(?:,\s*{_CORE}\s*)*"
_SIGNATURE = re.compile(f"{_SIDE}->{_SIDE}")


@dataclass(frozen=True)
class Signature:
    """What `parsed` read: the core axes of each input and of each output."""

    inputs: tuple[Core, ...]
    outputs: tuple[Core, ...]

    def __str__(self) -> str:
        return "->".join(
            ",".join(f"({','.join(core)})" for core in side)
            for side in (self.inputs, self.outputs)
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The sizes, each once, in the order of the text; fixed ones among them."""
        cores = (*self.inputs, *self.outputs)
        return tuple(dict.fromkeys(name for core in cores for name in core))

    @cached_property
    def new(self) -> Core:
        """The names that only outputs have, which are told."""
        known = {name for core in self.inputs for name in core}
        return tuple(name for name in self.names if name not in known and not name.isdecimal())


def parsed(text: object) -> Signature:
    """Read a signature.

    Raises
    ------
    TypeError
        If it is no text.
    ValueError
        If it cannot be read.
    """
    if not isinstance(text, str):
        raise TypeError(
            "gufunc() takes the signature of the core axes alone, as text, and no types: write "
            '@gufunc("(n)->()") and the like.'
        )
    if not _SIGNATURE.fullmatch(text):
        raise ValueError(
            f"the signature {text!r} cannot be read; write the core axes of each array in "
            'parentheses, by names or lengths, as in "(n,k),(k,3)->(n,3)".'
        )
    inputs, outputs = (
        tuple(
            tuple(word.lstrip("0") for word in re.findall(_SIZE, core))
            for core in re.findall(_CORE, side)
        )
        for side in text.split("->")
    )
    return Signature(inputs, outputs)


# What a call takes besides the function's own parameters.
CALL_OPTIONS = ("out", "axes", "axis", "keepdims", "dtype", "sizes", "dims", "threads")

# The dtypes of the inputs and of the numbers, in this order, or those of the results.
Types: TypeAlias = tuple[np.dtype, ...]


@frozen
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
    function : Function
        The user's function.
    signature : Signature
        Its core axes.
    options : Options
        What it was decorated with.
    foreign : bool
        Whether it names values that cannot be frozen, such as functions of other compilers; they
        are used as they are.
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

    kind = "gufunc"

    def __init__(self, function: Function, signature: Signature, options: Options) -> None:
        self.function = function
        self.signature = signature
        self.options = options
        self.foreign = any(
            isinstance(value, Unusable) and value.value is not None
            for one in with_helpers(function)
            for value in one.constants.values()
        )
        self.name = function.name
        self.parameters = parameters = function.parameters
        positional = len(parameters) - len(function.definition.args.kwonlyargs)
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
            raise mistake("no-result", function.place, function.name)
        self.scalars = tuple(p for p in parameters[nin:] if p not in self.outs)
        self.given = self.inputs + self.scalars
        self.cores = signature.inputs + ((),) * len(self.scalars)
        # An array for a result may be left out.
        self.defaults = {**function.defaults, **dict.fromkeys(self.outs)}
        self.arguments = Parameters(function, self.defaults)
        self._check()
        self.token = digest(("gufunc", meaning(function), str(signature), options))
        _definitions.add(self.token, self)

    def __reduce__(self) -> Any:
        return _restored, (self.token, _packed(self.function), self.signature, self.options)

    def _check(self) -> None:
        check_parameters(self.function, self.kind, {*CALL_OPTIONS} - ({"out"} & {*self.outs}))
        for name, _ in self.options.sizes:
            self.check_size(name)
        for value in self.function.constants.values():
            if isinstance(value, SelfReference) and value.name == self.name:
                raise mistake("recursion", self.function.place, self.name)

    def check_size(self, name: str) -> None:
        """Raise unless a size is one that has to be told."""
        if name not in self.signature.new:
            told = ", ".join(f"'{new}'" for new in self.signature.new) or "none"
            raise ValueError(
                f"sizes= tells '{name}', but only sizes that no input of {self.signature} has "
                f"are told: {told}."
            )


_definitions: Registry[GufuncDefinition] = Registry()


def _restored(
    token: str, function: bytes, signature: Signature, options: Options
) -> GufuncDefinition:
    return _definitions.restored(
        token, lambda: GufuncDefinition(pickle.loads(function), signature, options)
    )


def _packed(function: Function) -> bytes:
    """The function as it is pickled, with the values that cannot be frozen.

    Raises
    ------
    TypeError
        If one cannot be sent to another process.
    """
    # Partly typed: Any, or mypy finds the gaps.
    theirs: Any = cloudpickle
    content = io.BytesIO()
    pickler = theirs.Pickler(content)
    pickler.dispatch_table = pickler.dispatch_table.new_child(
        {
            Unusable: lambda one: (Unusable, (one.words, one.value)),
            # As what `numba.stencil` was given.
            StencilFunc: lambda one: (
                _stencil,
                (one.kernel_ir.func_id.func, one.mode, one.options),
            ),
        }
    )
    try:
        pickler.dump(function)
    except (TypeError, AttributeError, theirs.pickle.PicklingError) as error:
        raise TypeError(
            f"'{function.name}' uses a value which cannot be sent to another process ({error}); "
            "use a function of Python instead."
        ) from error
    return content.getvalue()


def _stencil(function: Any, mode: str, options: Mapping[str, Any]) -> Any:
    return numba.stencil(mode, **options)(function)
