"""nvcc compiles what NVRTC is given for three generations of GPUs, and no function spills much."""

import contextlib
import itertools
import re
import subprocess

import pytest

import agree
import drawing
import machine_code
import ninepoint as npt
import on_gpu

pytestmark = pytest.mark.skipif(machine_code.NVCC is None, reason="needs nvcc")

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
KINDS = {"kernel": 2, "pipeline": 1, "steps": 1}

# Bytes that another nvcc may spill.
MOST = 64


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
def test_texts_compile_and_no_function_spills(given, architectures):
    """By the architecture, the kind and the seed of a program, and the function: bytes."""
    texts, least = {}, 1 if architectures == ("sm_90",) else 4
    for kind, count in KINDS.items():
        seeds = itertools.count()
        while sum(name.startswith(f"{kind} ") for name in texts) < least * count:
            seed = next(seeds)
            asked = given(*agree.asking([drawing.draw(kind, seed)]))
            own = [text for text, options in asked if {*options[1:]} == {*machine_code.OPTIONS}]
            texts |= {f"{kind} {seed}, {k}": text for k, text in enumerate(own)}
    found = machine_code.in_parts(texts, architectures, 15)
    functions = [(n, one) for n, text in texts.items() for one in machine_code.functions(text)]
    wanted = {(arch, *one) for arch, one in itertools.product(architectures, functions)}
    assert set(found) == wanted
    assert {key: one.spilled for key, one in found.items() if one.spilled > MOST} == {}


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
