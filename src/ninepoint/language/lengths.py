"""Lengths: numbers that a kernel asks for and no call gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Length:
    """What a scalar is that no call gives: how long the whole array is, along a core axis."""

    axis: int
