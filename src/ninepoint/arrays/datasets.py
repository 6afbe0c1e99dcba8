"""Datasets of xarray, variable by variable: those of numbers that have the dimensions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from .axes import listed
from .recognise import is_dataset

# Kinds of variables that are labels, not numbers: they stay as they are.
_WORDS = "OSU"


def over_variables(
    call: Callable[[dict[str, Any]], Any],
    fields: Mapping[str, Any],
    dims: Any,
    ndim: Callable[[Any], int],
) -> Any:
    """Call with each variable in the place of the datasets among `fields`.

    Parameters
    ----------
    call : callable
        Gives a DataArray, or a tuple of them, for the fields by name.
    fields : mapping
        Datasets, at least one; what is none is the same for all variables.
    dims : sequence of dimension names, or None
        Those of the call; None for the last dimensions, which must be the same in all variables.
    ndim : callable
        How many dimensions the call works on, for a variable.

    Returns
    -------
    Dataset or tuple of Dataset
        With the coordinates and attributes of the first one.

    Raises
    ------
    ValueError
        If no variable has the dimensions, a variable lacks its partner in another dataset, or
        the results are smaller than the variables that stay.
    """
    datasets = {name: field for name, field in fields.items() if is_dataset(field)}
    first = next(iter(datasets.values()))
    core = _core(first, dims, ndim)
    chosen = [
        name
        for name, one in first.data_vars.items()
        if set(core) <= set(one.dims) and one.dtype.kind not in _WORDS
    ]
    if not chosen:
        raise ValueError(f"no variable of the dataset has the dimensions {listed(core)}.")
    made: dict[Hashable, tuple[Any, ...]] = {}
    several = False
    for variable in chosen:
        for name, dataset in datasets.items():
            if variable not in dataset.data_vars:
                raise ValueError(f"the dataset given for '{name}' has no variable {variable!r}.")
        result = call({name: dataset[variable] for name, dataset in datasets.items()})
        several = isinstance(result, tuple)
        made[variable] = result if isinstance(result, tuple) else (result,)
    count = len(made[chosen[0]])
    results = tuple(_whole(first, {v: one[k] for v, one in made.items()}) for k in range(count))
    return results if several else results[0]


def _core(dataset: Any, dims: Any, ndim: Callable[[Any], int]) -> tuple[Hashable, ...]:
    if dims is not None:
        return (dims,) if isinstance(dims, str) else tuple(dims)
    variables = [one for one in dataset.data_vars.values() if one.dtype.kind not in _WORDS]
    if not variables:
        raise ValueError("the dataset has no variables of numbers.")
    count = ndim(max(variables, key=lambda one: one.ndim))
    ends = {one.dims[-count:] for one in variables if one.ndim >= count}
    if len(ends) > 1:
        named = " and ".join(f"({listed(one)})" for one in sorted(ends, key=str))
        raise ValueError(
            f"the variables of the dataset end in different dimensions, {named}; "
            "say with dims= which ones are meant."
        )
    return ends.pop() if ends else tuple(dataset.sizes)[-count:]


def _whole(dataset: Any, made: Mapping[Hashable, Any]) -> Any:
    """The dataset with these variables in the place of its own."""
    sizes = {dim: n for one in made.values() for dim, n in one.sizes.items()}
    cut = [dim for dim, n in sizes.items() if dim in dataset.sizes and dataset.sizes[dim] != n]
    if not cut:
        return dataset.assign(made)
    stay = [
        n for n, one in dataset.data_vars.items() if n not in made and set(cut) & set(one.dims)
    ]
    if stay:
        raise ValueError(
            f'{listed(cut)} would have other lengths (by boundary="valid" or upsample=), but '
            f"{listed(stay)} of the dataset would stay as long as they are; take them out, with "
            "dataset.drop_vars, or use other options."
        )
    return dataset.drop_dims(cut).assign(made)[list(dataset.data_vars)]
