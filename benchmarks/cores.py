"""The table of functions of core arrays: a product of matrices, closest points, sums of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .peers import cores
from .problem import Problem, Shape

GROUP = "cores"


def product(a, b):
    out = np.empty((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total
    return out


def product_into(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total


def closest(points):
    least = np.inf
    first, second = 0, 1
    for i in range(len(points)):
        for j in range(i + 1, len(points)):
            x, y = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1]
            if x * x + y * y < least:
                least = x * x + y * y
                first, second = i, j
    return points[first], points[second], math.sqrt(least)


def closest_into(points, one, other, distance):
    least = np.inf
    first, second = 0, 1
    for i in range(len(points)):
        for j in range(i + 1, len(points)):
            x, y = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1]
            if x * x + y * y < least:
                least = x * x + y * y
                first, second = i, j
    one[:] = points[first]
    other[:] = points[second]
    distance[0] = math.sqrt(least)


def total(x):
    found = 0.0
    for value in x:
        found += value
    return found


def total_into(x, out):
    found = 0.0
    for value in x:
        found += value
    out[0] = found


def _closest_numpy(points: np.ndarray) -> Any:
    def of_one(points: np.ndarray) -> Any:
        far = ((points[:, None] - points) ** 2).sum(axis=-1)
        far[np.tril_indices(len(points))] = np.inf
        i, j = np.unravel_index(np.argmin(far), far.shape)
        return points[i], points[j], math.sqrt(far[i, j])

    found = [of_one(one) for one in points.reshape(-1, *points.shape[-2:])]
    return tuple(np.array(one) for one in zip(*found, strict=True))


def _problem(
    name: str,
    signature: str,
    functions: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]],
    shapes: tuple[Shape, ...],
    tiny: Shape,
    inputs: cores.Inputs,
    outs: cores.Inputs,
) -> Problem:
    returns, writes, numpy = functions
    return Problem(
        name,
        cores.ours(returns, signature, inputs),
        (
            cores.numbas(writes, signature, inputs, outs, eager=True),
            cores.numbas(writes, signature, inputs, outs, eager=False),
            cores.numpys(numpy, inputs),
        ),
        near=(),
        group=GROUP,
        dtypes=("float64",),
        shapes=shapes,
        tiny=tiny,
        everybody=True,
    )


def _twice(x: np.ndarray) -> tuple[np.ndarray, ...]:
    return x, np.ascontiguousarray(np.swapaxes(x, -1, -2))


def _alone(x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (x,)


CORES: tuple[Problem, ...] = (
    _problem(
        "product of matrices",
        "(n,k),(k,m)->(n,m)",
        (product, product_into, np.matmul),
        ((200, 200), (16, 200, 200)),
        (3, 5, 4),
        _twice,
        lambda x: (np.empty((*x.shape[:-1], x.shape[-2])),),
    ),
    _problem(
        "closest points",
        "(p,d)->(d),(d),()",
        (closest, closest_into, _closest_numpy),
        ((16, 1000, 2),),
        (3, 9, 2),
        _alone,
        lambda x: (
            np.empty((*x.shape[:-2], 2)),
            np.empty((*x.shape[:-2], 2)),
            np.empty(x.shape[:-2]),
        ),
    ),
    _problem(
        "sums of rows",
        "(n)->()",
        (total, total_into, lambda x: np.sum(x, axis=-1)),
        ((10000, 64), (10000, 1000)),
        (7, 5),
        _alone,
        lambda x: (np.empty(x.shape[:-1]),),
    ),
    _problem(
        "one call of a product, 3x3",
        "(n,k),(k,m)->(n,m)",
        (product, product_into, np.matmul),
        ((3, 3),),
        (3, 3),
        _twice,
        lambda x: (np.empty(x.shape),),
    ),
)
