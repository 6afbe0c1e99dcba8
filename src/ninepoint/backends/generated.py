"""Generated text, and what machine code needs to know of it besides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Module:
    """Generated text with one function, `band`, that computes a block.

    `warm` is how many rows (or planes) of stages are made before the first of the result; where
    it is 0, a row costs the same whether it is the first or the hundredth.  `kept` is how many
    bytes of stages are kept for each column.  Text that is `checked` tells in a last argument
    that it read outside its neighborhood; `places` says where each of its reads stands.  It
    takes `shorts`, floats of 16 bits, as they are, or else as float32.  What is `opaque` is left
    to Numba.
    """

    text: str
    warm: int = 0
    kept: int = 0
    checked: bool = False
    places: tuple[str, ...] = ()
    shorts: bool = False
    opaque: bool = False
