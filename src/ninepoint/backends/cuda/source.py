"""What the text of a GPU's kernel is, and how it is called.

On a GPU a border costs next to nothing where it is met, in the kernel: each function of a text
takes whole arrays and does every point of them, with the rule of the border where a neighbour
lies outside.  So a text is written for one border, and a call is a few launches:

    text  ->  Launch, Launch, ...      each reads fields and scratch, and writes scratch or outputs

All functions of a text are called alike:

    (array*, ..., coefficient*, ..., scalar, ..., constant, ..., Geometry)

first the arrays that the launch names, fields and coefficients as pointers to constants; then
every coefficient array of the kernel, contiguous; then every scalar, as the type of its values;
then the text's constants, each of its dtype; last `Geometry`, a struct by value, of 64-bit
integers in this order:

    length[N]               the lengths of the fields along the core axes
    stack[STACK]            the lengths of the stack's axes, the last of which changes fastest
    core[arrays][N]         for each array of the launch, what is added to its pointer for a step
                            along each core axis, in elements; 0 where it is broadcast
    frame[arrays][STACK]    the same along the stack's axes

Its pointer is that of the element that stands at the point 0 of each core axis, in frame 0: for
scratch, which is larger than the fields, and for outputs under "valid", which are smaller, that
element may lie inside the memory, or before it.

The grid has one axis: a block does `tile` points along the core axes of one frame, and the blocks
are counted along the last core axis first, then the others, then the frames.  Along each core
axis a launch does the points from `low` to the length of the fields plus `high`: all of the
fields, or of a scratch; under "valid" it leaves out itself what the outputs do not have.

A half float is two bytes to a function, a bool one, and a complex number its two parts.

Positions along an axis, and distances inside a frame, are of 32 bits; where an axis or a frame of
any of a launch's arrays has 2**30 elements or more, or a frame stretches over as many, the text is
to be compiled with `FAR`, for 64 bits.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TypeAlias

import numpy as np

from ...base.frozen import frozen
from ...language.functions import FLOAT_FUNCTIONS
from ...language.ir import Offset
from .printing import Array

# A value that a border's rule writes, as the type and the rule: "constant" puts it beyond the ends
# of an array, "fill" in the place of points that are left out.
Constant: TypeAlias = tuple[np.dtype, str]

# How every text is compiled, so that its bits are those of the CPU.
OPTIONS = ("--std=c++17", "--fmad=false")

# And besides, for arrays that are too large for distances of 32 bits.
FAR = ("--define-macro=NPT_INDEX=long long",)

# Axes of the stack that a text goes through; stacks of more axes are merged, or done in parts.
STACK = 3


@frozen
class Launch:
    """One function of a text: its name there, and how it is started.

    `arrays` are the names of fields ("field0", ...), scratch and outputs ("out0", ...), by their
    numbers, in the order of its arguments.  In this order `wide` says of how many bytes the
    vectors are in which they are read or written, 0 for none; it needs pointers and steps (but the
    last axis') that are multiples of it, and unit steps along the last axis; where they are not,
    `plain` is the function to start.
    """

    function: str
    arrays: tuple[str, ...]
    threads: tuple[int, int, int]
    tile: Offset
    low: Offset
    high: Offset
    wide: Offset = ()
    plain: str = ""


@frozen
class Source:
    """The functions of a whole text, and the launches that compute every output, in order.

    An array of `scratch` stands between two launches, contiguous: along each core axis it has the
    points of its region.  The values of the border's rules "constant" and "fill" are its
    `constants`: in which types.
    """

    functions: str
    launches: tuple[Launch, ...]
    scratch: tuple[Array, ...] = ()
    constants: tuple[Constant, ...] = ()

    @property
    def text(self) -> str:
        """All of it: ninepoint's arithmetic, then the functions."""
        return _support() + self.functions


@cache
def _support() -> str:
    folder = resources.files(__package__)
    files = [folder.joinpath(name) for name in ("device.h", "vectors.h")]
    text = "".join(file.read_text(encoding="utf-8") + "\n" for file in files)
    # C's functions of floats, by the names that texts have for them.
    lines = []
    for name, row in FLOAT_FUNCTIONS.items():
        if name == "exp":
            continue  # It has bits of its own.
        for kind, end in (("float", "f"), ("double", "")):
            names = ("x", "y")[: row.arguments]
            taken = ", ".join(f"{kind} {one}" for one in names)
            call = f"{row.c}{end}({', '.join(names)})"
            lines.append(f"NPT {kind} npt_{name}({taken}) {{ return {call}; }}\n")
    return text.replace('#include "functions.h"\n', "".join(lines))
