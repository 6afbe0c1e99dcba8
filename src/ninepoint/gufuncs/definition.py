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

import copyreg
import functools
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numba
import numpy as np
from numba import cloudpickle
from numba.stencils.stencil import StencilFunc

from ..base.remembered import digest
from ..language import errors
from ..language.definitions import (
    Function,
    SelfReference,
    Unusable,
    meaning,
    returned_values,
    with_helpers,
)
from ..language.positions import Spacing
from ..program.options import Parameters, no_number, renamed

# The sizes of the core axes of one array: names, or numbers as text.
Core: TypeAlias = tuple[str, ...]

_WORD = re.compile(r"\s*(->|\w+|\S|$)")
_SIZE = re.compile(r"0*[1-9][0-9]*|[^\W\d]\w*")

# What may stand at a place of a signature, in the words of what is said if something else does.
_WANTED = {
    "array": "the axes of an array begin with '('",
    "first": "a name or a number is missing",
    "axis": "a name or a number is missing",
    "within": "the axes of an array are divided by ',' and end with ')'",
    "inputs": "the inputs end with '->'",
    "outputs": "nothing follows the outputs",
}
_UNKNOWN = {
    "?": "axes that may be missing are not known here",
    "|": "a core axis never broadcasts",
}


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

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The sizes, each once, in the order of the text; fixed ones among them."""
        cores = (*self.inputs, *self.outputs)
        return tuple(dict.fromkeys(name for core in cores for name in core))

    @functools.cached_property
    def apart(self) -> Core:
        """The sizes that only outputs have, fixed ones among them."""
        known = {name for core in self.inputs for name in core}
        return tuple(name for name in self.names if name not in known)

    @functools.cached_property
    def new(self) -> Core:
        """The names that only outputs have, which are told."""
        return tuple(name for name in self.apart if not name.isdecimal())

    @functools.cached_property
    def plain(self) -> Signature:
        """The same with names that NumPy, Numba and Dask read, and that are none of the user's."""
        words = {name: name if name.isdecimal() else f"d{k}" for k, name in enumerate(self.names)}
        inputs, outputs = (
            tuple(tuple(words[name] for name in core) for core in side)
            for side in (self.inputs, self.outputs)
        )
        return Signature(inputs, outputs)


def parsed(text: object) -> Signature:
    """Read a signature.

    Raises
    ------
    TypeError
        If it is no text.
    ValueError
        If it cannot be read; the message shows the place.
    """
    if callable(text):
        raise TypeError('a gufunc needs a signature; write @gufunc("(n)->()") and the like.')
    if not isinstance(text, str):
        raise TypeError(f'a signature is text such as "(n,k),(k,m)->(n,m)", not {text!r}.')
    sides: list[list[Core]] = [[]]
    core: list[str] = []
    place = "array"
    for found in _WORD.finditer(text):
        word = found[1]
        match place, word:
            case "array", "(":
                core, place = [], "first"
            case (("first" | "axis"), _) if _SIZE.fullmatch(word):
                core.append(str(int(word)) if word.isdecimal() else word)
                place = "within"
            case "within", ",":
                place = "axis"
            case (("first" | "within"), ")"):
                sides[-1].append(tuple(core))
                place = "inputs" if len(sides) == 1 else "outputs"
            case (("inputs" | "outputs"), ","):
                place = "array"
            case "inputs", "->":
                sides.append([])
                place = "array"
            case "outputs", "":
                break
            case _:
                raise _unreadable(text, found, place)
    inputs, outputs = map(tuple, sides)
    return Signature(inputs, outputs)


def _unreadable(text: str, found: re.Match[str], place: str) -> ValueError:
    word, reason = found[1], _WANTED[place]
    if place == "within":
        reason = _UNKNOWN.get(word, reason)
    if place in ("first", "axis") and word[:1].isdecimal():
        reason = "a fixed size is a positive number"
    return ValueError(
        f"the signature cannot be read: {reason}.\n"
        f"    {text}\n"
        f"    {' ' * found.start(1)}^\n"
        '  Write the core axes of each array in parentheses, as in "(n,k),(k,m)->(n,m)".'
    )


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
    made : dict
        What is compiled of it, for types of arguments and of results.
    """

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
        # An array for a result may be left out.
        self.defaults = dict(function.defaults)
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
            raise errors.no_result(function.place, function.name)
        self.scalars = tuple(p for p in parameters[nin:] if p not in self.outs)
        self.given = self.inputs + self.scalars
        self.cores = signature.inputs + ((),) * len(self.scalars)
        self.defaults |= dict.fromkeys(self.outs)
        self.arguments = Parameters(function, self.defaults)
        self._check()
        self.token = digest(("gufunc", meaning(function), str(signature), options))
        self.made: dict[Any, Any] = {}

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


@dataclass(frozen=True, slots=True)
class _Packed:
    """What is pickled in the place of a value that cannot be frozen."""

    words: str
    content: bytes

    def __reduce__(self) -> Any:
        return _unpacked, (self.words, self.content)


def _unpacked(words: str, content: bytes) -> Unusable:
    return Unusable(words, pickle.loads(content))


def packed(function: Function) -> Function:
    """The function as it is pickled, with the values that cannot be frozen.

    Raises
    ------
    TypeError
        If one cannot be sent to another process.
    """

    def pack(name: str, one: Any) -> Any:
        if isinstance(one, Function):
            return packed(one)
        if not isinstance(one, Unusable) or one.value is None:
            return one
        # Partly typed: Any, or mypy finds the gaps.
        theirs: Any = cloudpickle
        try:
            return _Packed(one.words, theirs.dumps(one.value))
        except (TypeError, AttributeError, theirs.pickle.PicklingError) as error:
            raise TypeError(
                f"'{function.name}' uses '{name}', a value of type '{type(one.value).__name__}', "
                "which cannot be sent to another process; use a function of Python instead."
            ) from error

    known = {name: pack(name, one) for name, one in function.constants.items()}
    return replace(function, constants=known)


def _parts(value: Any) -> Any:
    """What `numba.stencil` was given, for its pickle."""
    return _stencil, (value.kernel_ir.func_id.func, value.mode, value.options)


def _stencil(function: Any, mode: str, options: Mapping[str, Any]) -> Any:
    return numba.stencil(mode, **options)(function)


copyreg.pickle(StencilFunc, _parts)
