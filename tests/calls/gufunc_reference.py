"""The meaning of a gufunc, in Python: the function itself, called for each item of the stack."""

from __future__ import annotations

import numpy as np


def sizes_of(signature, arrays):
    """The inputs' and results' core sizes as lists of names, and what each is."""
    sides = []
    for side in signature.replace(" ", "").split("->"):
        cores = side[1:-1].split("),(")
        sides.append([core.split(",") if core else [] for core in cores])
    known = {}
    for core, array in zip(sides[0], arrays, strict=True):
        for name, length in zip(core, array.shape[array.ndim - len(core) :], strict=True):
            assert known.setdefault(name, length) == length
    return *sides, known


def reference(function, signature, *arrays, **numbers):
    """What a gufunc gives for arrays whose core axes are the last: a list of results."""
    arrays = [np.asarray(array) for array in arrays]
    inputs, outputs, _ = sizes_of(signature, arrays)
    loop = np.broadcast_shapes(
        *(a.shape[: a.ndim - len(core)] for a, core in zip(arrays, inputs, strict=True))
    )
    stretched = [
        np.broadcast_to(a, (*loop, *a.shape[a.ndim - len(core) :]))
        for a, core in zip(arrays, inputs, strict=True)
    ]
    found = [[] for _ in outputs]
    for place in np.ndindex(*loop):
        made = function(*(a[place] for a in stretched), **numbers)
        for items, one in zip(found, made if len(outputs) > 1 else [made], strict=True):
            items.append(np.asarray(one))
    return [np.array(items).reshape((*loop, *items[0].shape)) for items in found]
