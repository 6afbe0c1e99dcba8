"""The same random call through every path gives the same, or is refused in the same words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import emulator
import ninepoint as npt
from thorough import only

HERE = Path(__file__).parent
X, Y = np.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4) * 7


@pytest.mark.parametrize("first", only(2, [0, 500, 1000, 1500, 2000]))
def test_the_same_random_call_through_every_path(first):
    # Some of them go through a GPU too, which is a stand-in here.
    step = 10 if first == 0 and emulator.GXX is not None else 0
    path = os.pathsep.join([str(HERE / "cuda" / "standin"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "every_path.py", str(first), str(first + 25), str(step)],
        cwd=HERE,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"} | ({"PYTHONPATH": path} if step else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("wrong: []\n"), done.stdout
    # Of use is what gives arrays, and what is refused.
    arrays, refused = (
        re.search(rf"'{word}': (\d+)", done.stdout) for word in ("arrays", "refused")
    )
    assert int(arrays[1]) >= 9
    assert int(refused[1]) >= 3


# What random calls have found.


@npt.stencil
def alike(x):
    return x[0, 0]


@npt.stencil
def differing(x, y, unused=1):
    return x[0, 1] - 10 * y[0, 0]


@npt.stencil
def staged(x, y, unused=1):
    s = alike(x)
    return s[0, 1] - 10 * y[0, 0]


def test_lazy_fields_keep_their_places():
    wanted = differing(X, Y)
    for one in (differing, staged):
        for x, y in ((npt.lazy(X), Y), (X, npt.lazy(Y)), (npt.lazy(X), npt.lazy(Y))):
            np.testing.assert_array_equal(one(x, y).compute(), wanted)
            np.testing.assert_array_equal(one(y=y, x=x).compute(), wanted)


@pytest.mark.parametrize("value", [None, "a", 2**70])
def test_a_scalar_that_nothing_uses_is_checked_all_the_same(value):
    told = []
    for one in (differing, staged):
        with pytest.raises((TypeError, ValueError)) as caught:
            one(X, Y, unused=value)
        told.append((caught.type, str(caught.value)))
    assert told[0] == told[1]


def test_keep_keeps_no_stage():
    @npt.stencil(boundary="keep")
    def kernel(x):
        s = alike(x)
        return s[0, 1], s[1, 0]

    with pytest.raises(ValueError, match="'kernel' has 2 outputs and 1 fields"):
        kernel(X)
