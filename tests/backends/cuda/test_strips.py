"""Strips: what they compute, by the emulator, and what the assembler makes of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import emulator
import ninepoint as npt
from ninepoint import onepass
from ninepoint.backends.cuda.writing import support, written
from ninepoint.calls import Call
from ninepoint.graph import graph_of
from ninepoint.lowering.schedule import Schedule

TESTS = Path(__file__).parents[2]
NVCC = shutil.which("nvcc")
GAUSS = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(np.float32) / 256


@npt.stencil
def heat(u, r):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


@npt.stencil
def harris(x):
    dx = x[-1, 1] + 2 * x[0, 1] + x[1, 1] - x[-1, -1] - 2 * x[0, -1] - x[1, -1]
    dy = x[1, -1] + 2 * x[1, 0] + x[1, 1] - x[-1, -1] - 2 * x[-1, 0] - x[-1, 1]
    xx, xy, yy = dx * dx, dx * dy, dy * dy
    a, b, c = xx[-1:2, -1:2].sum(), xy[-1:2, -1:2].sum(), yy[-1:2, -1:2].sum()
    return a * c - b * b - 0.04 * (a + c) ** 2


@npt.stencil
def gauss5(x):
    return (x[-2:3, -2:3] * GAUSS).sum()


@npt.stencil
def median(x):
    return np.median(x[-1:2, -1:2])


@pytest.mark.skipif(emulator.GXX is None, reason="needs g++")
def test_random_calls_in_strips():
    least = {"kernels": (100, 110, 3), "pipelines": (100, 122, 1), "steps": (100, 106, 1)}
    least["widths"] = 0, 4, 3
    asked = [str(one) for kind, (*seeds, _) in least.items() for one in (kind, *seeds)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "random_strips.py", *asked],
        cwd=TESTS,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert all(int(counts[kind]) >= count for kind, (*_, count) in least.items()), counts


def steps_text(stencil: npt.Stencil, steps: int, boundary: str, **scalars: float) -> str:
    call = Call.of(stencil.definition, scalars, boundary)
    graph, wanted = graph_of(call, [np.dtype("float32")], looked=True)
    one = onepass.steps_together(graph, wanted, steps, Schedule())
    assert one is not None
    return one.source.text


def text(stencil: npt.Stencil, dtype: str, rule: str) -> str:
    _, forms, _ = stencil.definition.compiled([np.dtype(dtype)], {}, False)
    assert forms is not None
    return written(forms, ((rule, rule),) * 2).text


@pytest.mark.skipif(NVCC is None, reason="needs nvcc")
def test_no_register_is_spilled(tmp_path):
    texts = {
        "heat": steps_text(heat, 8, "nearest", r=0.2),
        "harris": text(harris, "float32", "reflect"),
        "gauss5": text(gauss5, "float32", "nearest"),
        "median": text(median, "float32", "mirror"),
    }
    parts = [support(), *(f"namespace {name} {{\n{one}\n}}" for name, one in texts.items())]
    path = tmp_path / "strips.cu"
    path.write_text("\n".join(parts))
    done = subprocess.run(
        [str(NVCC), "-arch=sm_90", "-std=c++17", "-fmad=false", "-Xptxas", "-v", "-cubin",
         "-o", str(tmp_path / "strips.cubin"), str(path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:3000]
    found = re.findall(
        r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers",
        done.stderr,
        re.S,
    )
    assert {"kernel_heat_8", "kernel_harris", "kernel_gauss5"} <= {name for name, *_ in found}
    for name, spilled, registers in found:
        assert int(spilled) == 0, (name, spilled, registers)
        assert int(registers) <= 168, (name, registers)
