"""What a gufunc means: a function of core arrays, its signature and its options.

@gufunc("(n),(n)->()")                     inputs x, w;  numbers power
def mean(x, w, *, power=2): ...            gives its results: returns them

@gufunc("(n)->(n)")                        inputs x;  its results are written into `out`,
def double(x, out): out[:] = 2 * x         as functions for numba.guvectorize do

A signature says which axes the function takes, and which it gives:

"(n,k),(k,m)->(n,m)"    ->    inputs (n, k), (k, m); outputs (n, m)
"(3),(3)->(3)"                sizes that are fixed
"(n)->(n,bins)"               bins is new: no array has it, so it is told otherwise

Arguments of a call are bound and checked.  Arrays of NumPy and of Dask are stacks of items: where
core axes are, how long they are, and what results have.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numba
import numpy as np
from numba import cloudpickle
from numba.stencils.stencil import StencilFunc
from numpy.lib.array_utils import normalize_axis_tuple

from ..arrays.accepted import as_field, bare, check_dtype, is_dask, native, storage_types
from ..arrays.layout import Shape
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
from ..language.dtypes import computed
from ..language.errors import mistake
from ..program.options import Parameters, check_parameters
from ..shapes import whole

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
        check_parameters(function, self.kind, {*CALL_OPTIONS} - ({"out"} & {*self.outs}))
        for name, _ in options.sizes:
            self.check_size(name)
        for value in function.constants.values():
            if isinstance(value, SelfReference) and value.name == self.name:
                raise mistake("recursion", function.place, self.name)
        self.token = digest(("gufunc", meaning(function), str(signature), options))
        _definitions.add(self.token, self)

    def __reduce__(self) -> Any:
        return _restored, (self.token, _packed(self.function), self.signature, self.options)

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
                partial(numba.stencil, **one.options),
                (one.kernel_ir.func_id.func,),
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


# Calls.


@frozen
class Arguments:
    """The arguments of a call: inputs, numbers in the order of the parameters, options.

    And the dtypes that it asks for, or the gufunc was decorated with.
    """

    inputs: tuple[Any, ...]
    scalars: dict[str, Any]
    options: dict[str, Any]
    dtypes: Types | None

    def refuse(self, names: Sequence[str], words: str) -> None:
        """Raise where an option is given that this kind of arrays does not have."""
        for name in names:
            if name in self.options:
                raise TypeError(f"{name}= {words}")


def arguments(
    definition: GufuncDefinition, args: tuple[Any, ...], named: Mapping[str, Any]
) -> Arguments:
    """Bind the arguments of a call as Python would.

    Raises
    ------
    TypeError
        If one is missing or unknown, or is no number where one is wanted.
    """
    own = {name: value for name, value in named.items() if name not in CALL_OPTIONS}
    options = {
        name: value
        for name, value in named.items()
        if name not in own and value is not None and (name != "keepdims" or value)
    }
    if "device" in own and "device" not in definition.parameters:
        raise TypeError(
            f"{definition.name}() is computed on the CPU, as all gufuncs are: their bodies "
            "are loops of any kind. Leave device= out, or write it as a stencil."
        )
    bound = definition.arguments.bound(args, own, CALL_OPTIONS)
    values = dict(zip(definition.parameters, bound, strict=True))
    outs = tuple(values[name] for name in definition.outs)
    if any(out is not None for out in outs):
        if "out" in options or any(out is None for out in outs):
            raise TypeError(
                f"{definition.name}() needs every array for its results, each once, or none."
            )
        options["out"] = outs
    scalars = dict[str, Any]()
    for name in definition.scalars:
        if np.ndim(values[name]):
            raise TypeError(
                f"'{name}' is a number: the signature has no array for it. Name its axes in the "
                "signature, '()' if there are none, to give arrays."
            )
        found = as_field(values[name], name)
        # One of NumPy, of the type that Numba gives it.
        scalars[name] = found.astype(computed(native(found.dtype)))[()]
    dtypes = storage_types(options.get("dtype")) or definition.options.dtypes
    return Arguments(tuple(values[n] for n in definition.inputs), scalars, options, dtypes)


def told(sizes: Any) -> dict[str, int]:
    """Sizes that a call or a decorator says."""
    if not isinstance(sizes, Mapping):
        raise TypeError(f'sizes= is a dict such as {{"k": 4}}, not {sizes!r}.')
    return {name: whole(name, value, 1) for name, value in sizes.items()}


def types_of(inputs: Sequence[np.dtype], scalars: Mapping[str, Any]) -> Types:
    """The types that a call computes with."""
    found = (computed(native(dtype)) for dtype in inputs)
    return (*found, *(one.dtype for one in scalars.values()))


# Stacks of items.


@frozen
class Items:
    """What is applied to items, and where the results belong.

    Attributes
    ----------
    inputs : list of arrays
        With their core axes last.
    types : tuple of dtype
        The types that are computed with.
    sizes : dict
        How long the axes of the signature are.
    stack : tuple of int
        The lengths of the axes before the core axes, which broadcast.
    cores : list of tuples of int
        The lengths of the core axes of each result.
    """

    inputs: list[Any]
    types: Types
    sizes: dict[str, int]
    stack: Shape
    cores: list[Shape]
    _axes: Sequence[Shape]
    _kept: int

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the results with their core axes last."""
        return [self.stack + core for core in self.cores]

    def placed(self, result: Any, number: int) -> Any:
        """A result, whose core axes are the last, as the call wants it; without axes a number."""
        axes = self._axes[number]
        return _moved(result[(..., *(None,) * self._kept)], last(len(axes)), axes)[()]

    def given(self, results: Sequence[Any]) -> Any:
        """Results as the call gives them."""
        return bare([self.placed(one, k) for k, one in enumerate(results)])


def items(definition: GufuncDefinition, given: Arguments) -> Items:
    """How a call applies the function to arrays.

    Raises
    ------
    ValueError
        If inputs do not fit the signature, or their other axes do not broadcast; if a size is
        not known.
    """
    signature = definition.signature
    along, axes, kept = core_axes(signature, given.options)
    # Fixed sizes, and those that no input has: by a call, as a number of it, or by default.
    sizes = {name: int(name) for name in signature.names if name.isdecimal()}
    wanted = told(given.options.get("sizes", {}))
    for name in wanted:
        definition.check_size(name)
    known = {**dict(definition.options.sizes), **given.scalars, **wanted}
    for name in signature.new:
        if name not in known:
            raise ValueError(
                f"the size '{name}' of {signature} is that of no input; say it with "
                f"sizes={{\"{name}\": ...}}, or let '{definition.name}' have a parameter {name}."
            )
        sizes[name] = whole(name, known[name], 1)
    arrays, stacks = [], []
    for name, one, core, own in zip(
        definition.inputs, given.inputs, signature.inputs, along, strict=True
    ):
        if is_dask(one):
            check_dtype(one.dtype, name)
            if np.isnan(one.shape).any():
                raise ValueError(
                    f"'{name}' has chunks of unknown size; call .compute_chunk_sizes() on it "
                    "first."
                )
        else:
            one = as_field(one, name)
        if one.ndim < len(core):
            raise too_few_axes(signature, name, core, one.shape)
        if own != last(len(core)):
            one = _moved(one, normalize_axis_tuple(own, one.ndim, "axes"), last(len(core)))
        stack = one.ndim - len(core)
        for size, length in zip(core, one.shape[stack:], strict=True):
            if sizes.setdefault(size, length) != length:
                raise ValueError(
                    f"the core axis '{size}' of {signature} has the length {sizes[size]}, but "
                    f"{length} in '{name}'; core axes of one name have one length."
                )
        arrays.append(one)
        stacks.append(one.shape[:stack])
    cores = [tuple(sizes[size] for size in core) for core in signature.outputs]
    types = types_of([one.dtype for one in arrays], given.scalars)
    return Items(arrays, types, sizes, np.broadcast_shapes(*stacks), cores, axes, kept)


def _moved(array: Any, before: Shape, after: Shape) -> Any:
    return array if before == after else np.moveaxis(array, before, after)


def last(count: int) -> Shape:
    """The last axes, so many."""
    return tuple(range(-count, 0))


def core_axes(
    signature: Signature, options: Mapping[str, Any]
) -> tuple[list[Shape], list[Shape], int]:
    """The core axes of inputs and of results, and how many results keep that have none.

    Raises
    ------
    ValueError
        If `axes` do not fit the signature.
    TypeError
        If there is no telling which axes `keepdims` keeps.
    """
    inputs, outputs = signature.inputs, signature.outputs
    count, keeps = len(inputs), options.get("keepdims", False)
    if keeps and (any(outputs) or len({len(core) for core in inputs}) > 1):
        raise TypeError(
            "keepdims= is for results without core axes, of inputs with equally many: not "
            f"for {signature}."
        )
    kept = len(inputs[0]) if keeps else 0
    wanted = [len(core) for core in inputs] + [kept or len(core) for core in outputs]
    if "axis" in options:
        found = [(options["axis"],) * count for count in wanted]
    elif "axes" not in options:
        found = [last(count) for count in wanted]
    else:
        found = [
            (entry,) if isinstance(entry, int | np.integer) else tuple(entry)
            for entry in options["axes"]
        ]
        if len(found) == count:
            # Those of results may be left out where there is nothing to say.
            found += [found[0] if kept else ()] * len(outputs)
        if [len(axes) for axes in found] != wanted:
            raise ValueError(
                f"axes={options['axes']} is no list of the core axes of each array of {signature}."
            )
    return found[:count], found[count:], kept


def too_few_axes(
    signature: Signature, name: str, core: Sequence[str], shape: Sequence[int]
) -> ValueError:
    """The error for an array that has not all its core axes."""
    axes = "1 axis" if len(core) == 1 else f"{len(core)} axes"
    return ValueError(
        f"'{name}' needs {axes} at least, ({','.join(core)}) of {signature}, but has the shape "
        f"{tuple(shape)}."
    )
