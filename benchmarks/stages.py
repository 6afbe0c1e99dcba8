"""Pipelines: stencils that read what others made.

Each is there twice: as one stencil that calls the others, from a function that gets the
decorator; and as the calls that a user would write one by one, in order: the stencil, the
names of what it reads, and of what it makes.  The first reads `x`, the last makes `out`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import kernels
from .kernels import Function

Call = tuple[Function, str, str]

# As OpenCV's cornerHarris scales them for windows of 3x3 everywhere.
ACROSS = (kernels.SOBEL / 12).astype(np.float32)
DOWN = np.ascontiguousarray(ACROSS.T)

# How much is added of what the blur takes away.
AMOUNT = 0.7


def gradients(x):
    return (x[-1:2, -1:2] * DOWN).sum(), (x[-1:2, -1:2] * ACROSS).sum()


def response(p, q):
    """How much the gradients in a window differ in direction: det - k trace**2."""
    a = (p[-1:2, -1:2] * p[-1:2, -1:2]).sum()
    b = (p[-1:2, -1:2] * q[-1:2, -1:2]).sum()
    c = (q[-1:2, -1:2] * q[-1:2, -1:2]).sum()
    return a * c - b * b - 0.04 * (a + c) * (a + c)


BELL = np.outer(kernels.bell(), kernels.bell()).astype(np.float32)

blur = kernels.gaussian(32)


def sharpen(x, soft):
    return x[0, 0] + AMOUNT * (x[0, 0] - soft[0, 0])


def harris(stencil: Any) -> Any:
    slopes = stencil(gradients)

    @stencil
    def harris(x):
        p, q = slopes(x)
        a = (p[-1:2, -1:2] * p[-1:2, -1:2]).sum()
        b = (p[-1:2, -1:2] * q[-1:2, -1:2]).sum()
        c = (q[-1:2, -1:2] * q[-1:2, -1:2]).sum()
        return a * c - b * b - 0.04 * (a + c) * (a + c)

    return harris


def unsharp(stencil: Any) -> Any:
    soften = stencil(blur)

    @stencil
    def unsharp(x):
        soft = soften(x)
        return x[0, 0] + AMOUNT * (x[0, 0] - soft[0, 0])

    return unsharp


def blurs(stencil: Any) -> Any:
    soften = stencil(blur)

    @stencil
    def blurs(x):
        once = soften(x)
        twice = soften(once)
        thrice = soften(twice)
        return (thrice[-2:3, -2:3] * BELL).sum()

    return blurs


HARRIS: tuple[Call, ...] = ((gradients, "x", "p q"), (response, "p q", "out"))
UNSHARP: tuple[Call, ...] = ((blur, "x", "soft"), (sharpen, "x soft", "out"))
BLURS: tuple[Call, ...] = (
    (blur, "x", "first"),
    (blur, "first", "second"),
    (blur, "second", "first"),
    (blur, "first", "out"),
)
