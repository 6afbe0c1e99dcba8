"""Gufuncs that several tests call, so that they are compiled once."""

import numpy as np

import ninepoint as npt


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
