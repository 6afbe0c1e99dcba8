"""The meaning of a gufunc, in Python: the function itself, called for each item of the stack.

And gufuncs that several tests call, so that they are compiled once.
"""

from __future__ import annotations

import numpy as np

import ninepoint as npt


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


def matmul(a, b):
    n, k = a.shape
    m = b.shape[1]
    out = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            total = 0.0
            for one in range(k):
                total += a[i, one] * b[one, j]
            out[i, j] = total
    return out


def total(x):
    result = 0.0
    for value in x:
        result += value
    return result


def counted(x, bins):
    found = np.zeros(bins, np.int32)
    for value in x:
        found[int(value) % bins] += 1
    return found


PRODUCT = npt.gufunc("(n,k),(k,m)->(n,m)")(matmul)
TOTAL = npt.gufunc("(n)->()")(total)
COUNTED = npt.gufunc("(n)->(bins)")(counted)
