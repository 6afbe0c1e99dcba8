"""What a GPU's text computes, by the emulator, is what the reference says."""

from __future__ import annotations

import numpy as np
import pytest

import agreement
import emulator
import launching

pytestmark = pytest.mark.skipif(emulator.GXX is None, reason="needs g++")

SEEDS = range(700_000, 700_080)


def test_random_kernels_agree_with_the_reference():
    drawn = [agreement.draw(seed) for seed in SEEDS]
    programs = launching.emulated(drawn)
    assert sum(one is not None for one in programs) > 0.9 * len(SEEDS)
    for one, program in zip(drawn, programs, strict=True):
        if program is None:
            continue  # the general path
        with np.errstate(all="ignore"):
            agreement.compare(one, program(launching.fields_of(one)), agreement.expected(one))
