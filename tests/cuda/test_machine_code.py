"""What nvcc makes of what NVRTC is given: it compiles for three generations of GPUs, few functions
spill registers, nothing is contracted, and few instructions are done for each point.

`pytest -m '' tests/cuda/test_machine_code.py --update-golden` writes anew what spills.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import subprocess
from pathlib import Path

import pytest
import test_kernels as known

import agree
import drawing
import machine_code
import ninepoint as npt
import on_gpu

pytestmark = pytest.mark.skipif(machine_code.NVCC is None, reason="needs nvcc")

HERE = Path(__file__).parent
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
SEEDS = {"kernel": 8, "pipeline": 4, "steps": 4}

# Bytes that another nvcc may spill besides.
MORE = 64

# Instructions a point that are not to be exceeded by more than rounding, for sm_90.
MOST = HERE / "instructions.json"
COUNTED = {
    "sum3_float32": (known.sum3, "float32", {}),
    "sum3_float64": (known.sum3, "float64", {}),
    "mean3_uint8": (known.mean3, "uint8", known.BYTES),
    "mean3_int8": (known.mean3, "int8", {"dtype": "int8", "overflow": "saturate"}),
    "median3_uint8": (known.median3, "uint8", known.BYTES),
    "median3_float32": (known.median3, "float32", {"dtype": "float32"}),
    "heat3d_float32": (known.heat3d, "float32", {}),
    "mean3d_uint8": (lambda x: x[-1:2, -1:2, -1:2].sum() // 27, "uint8", known.BYTES),
}


@pytest.fixture
def given(cupy, tmp_path, monkeypatch):
    """What NVRTC is given by calls that are made: texts and their options."""
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))

    def texts(*calls):
        cupy.fake.texts.clear()
        with cupy.fake.together(build=False):
            for call in calls:
                with contextlib.suppress(*on_gpu.REFUSED):
                    call()
        return list(cupy.fake.texts)

    return texts


@pytest.mark.parametrize(
    "architectures",
    [("sm_90",), pytest.param(ARCHITECTURES, marks=pytest.mark.nightly)],
    ids=["one", "all"],
)
def test_texts_compile_and_few_functions_spill(given, request, architectures):
    """By the architecture, the kind and the seed of a program, and the function: bytes."""
    texts = {}
    all_of_them = architectures == ARCHITECTURES
    for kind, count in SEEDS.items():
        for seed in range(count if all_of_them else count // 4):
            asked = given(*agree.asking([drawing.draw(kind, seed)]))
            own = [text for text, options in asked if {*options[1:]} == {*machine_code.OPTIONS}]
            texts |= {f"{kind} {seed}, {k}": text for k, text in enumerate(own)}
    assert {name.split()[0] for name in texts} == set(SEEDS)
    found = machine_code.in_parts(texts, architectures, 15)
    functions = [(n, one) for n, text in texts.items() for one in machine_code.functions(text)]
    wanted = {(arch, *one) for arch, one in itertools.product(architectures, functions)}
    assert set(found) == wanted
    spilled = {" ".join(key): one.spilled for key, one in found.items() if one.spilled}
    path = HERE / "spilled.json"
    if request.config.getoption("--update-golden") and all_of_them:
        path.write_text(json.dumps(spilled, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    known_ones = json.loads(path.read_text(encoding="utf-8"))
    assert {k: n for k, n in spilled.items() if n > known_ones.get(k, 0) + MORE} == {}


@pytest.mark.skipif(machine_code.CUOBJDUMP is None, reason="instructions are read by cuobjdump")
def test_few_instructions_a_point(cupy, given, request):
    """Of the threads that are inside the array, as most are."""
    texts, threads, points = [], [], []
    for name, (function, dtype, options) in COUNTED.items():
        one = npt.stencil(boundary="nearest")(function)
        x = cupy.empty((16, 256, 256) if "3d" in name else (1024, 1024), dtype)
        cupy.fake.threads.clear()
        ((text, _),) = given(lambda one=one, x=x, options=options: one(x, **options))
        texts.append(machine_code.inside(text))
        threads.append(list(cupy.fake.threads))
        points.append(x.size)
    found = machine_code.reports(texts, "sm_90", code=True)
    assert {name: one.spilled for name, one in found.items() if one.spilled} == {}
    counted = {}
    for k, name in enumerate(COUNTED):
        total = 0.0
        for launched, count in threads[k]:
            report = found[f"{launched}.{k}"]
            total += len(report.instructions) * count / points[k]
            assert not report.count("FFMA", "DFMA", "LDL", "STL"), name
            assert report.count("LDG.E.128", "LDG.E.64"), name
            assert report.count("STG.E.128", "STG.E.64"), name
        counted[name] = round(total, 1)
    if request.config.getoption("--update-golden"):
        MOST.write_text(json.dumps(counted, indent=2) + "\n", encoding="utf-8")
    most = json.loads(MOST.read_text(encoding="utf-8"))
    assert {name: n for name, n in counted.items() if n > 1.02 * most[name]} == {}


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_ptxas_is_given_no_minimum_of_a_negation(cupy, given, dtype, tmp_path):
    """It forgets the sign where it makes one instruction of two minima: see `device.h`."""
    one = npt.stencil(boundary="nearest")(on_gpu.negated_extremes)
    ((text, _),) = given(lambda: one(cupy.empty((64, 64), dtype)))
    source, made = tmp_path / "text.cu", tmp_path / "text.ptx"
    source.write_text(text, encoding="utf-8")
    words = [machine_code.NVCC, "-arch=sm_90", *machine_code.OPTIONS, "-ptx", source, "-o", made]
    subprocess.run(words, check=True)
    ptx = made.read_text(encoding="utf-8")
    negative = set(re.findall(r"\bneg\.s(?:32|64)\s+(%\w+)", ptx))
    operands = re.findall(r"\b(?:min|max)\.s(?:32|64)\s+%\w+, (\S+), (\S+);", ptx)
    assert operands
    assert not negative & {one for pair in operands for one in pair}
