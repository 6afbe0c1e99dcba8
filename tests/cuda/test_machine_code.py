"""nvcc compiles what NVRTC is given for three generations of GPUs, and no function spills much."""

import contextlib
import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import agree
import drawing
import emulator
import ninepoint as npt
import on_gpu

# What NVRTC is told besides the architecture, but for macros.
OPTIONS = ("--std=c++17", "--fmad=false")

NVCC = shutil.which("nvcc")

_FUNCTION = re.compile(r'extern "C" __global__ void __launch_bounds__\([^)]*\) (\w+)\(')


@dataclass(frozen=True)
class Report:
    """How many registers a function takes, and bytes that it spills."""

    registers: int
    spilled: int


def functions(text: str) -> list[str]:
    """The names of the functions of a text."""
    return _FUNCTION.findall(text)


def in_parts(
    texts: Mapping[str, str], archs: Sequence[str], each: int = 25
) -> dict[tuple[str, str, str], Report]:
    """What each function takes, by the architecture, the name of its text and its own name.

    So many texts are compiled in a run, once for all architectures, and two runs go on at a time.
    """
    names = list(texts)
    parts = [names[k : k + each] for k in range(0, len(names), each)]

    def of(part: Sequence[str]) -> dict[tuple[str, str, str], Report]:
        # Only the assembler is told of the architecture: texts are the same for all.
        least = min(archs, key=lambda arch: int(arch.removeprefix("sm_")))
        code = f"arch={least.replace('sm', 'compute')},code=[{','.join(archs)}]"
        with tempfile.TemporaryDirectory() as folder:
            told = _told([texts[name] for name in part], folder, ["-gencode", code, "-fatbin"])
        found = {}
        for (arch, symbol), report in told.items():
            function, number = symbol.rsplit("__", 1)
            found[arch, part[int(number)], function] = report
        return found

    with ThreadPoolExecutor(2) as pool:
        return {key: one for found in pool.map(of, parts) for key, one in found.items()}


def _told(
    texts: Sequence[str], folder: str, options: Sequence[str]
) -> dict[tuple[str, str], Report]:
    """What the assembler says of each function, by the architecture and its name and number."""
    # What they begin with is for all: later ones find it there.
    heads = [emulator.Text(text).head for text in texts]
    parts = list(dict.fromkeys(heads))
    for number, text in enumerate(texts):
        for name in functions(text):
            text = re.sub(rf"\b{name}\b", f"{name}__{number}", text)
        parts += [f"namespace text{number} {{", text[len(heads[number]) :], "}"]
    source, made = Path(folder, "texts.cu"), Path(folder, "made")
    source.write_text("\n".join(parts), encoding="utf-8")
    command = [str(NVCC), *OPTIONS, *options, "-Xptxas", "-v", "-w", "-o", str(made), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    found: dict[tuple[str, str], Report] = {}
    for part in done.stderr.split("Compiling entry function ")[1:]:
        symbol, arch = re.match(r"'(\w+)' for '(\w+)'", part).groups()  # type: ignore[union-attr]
        registers = int(re.search(r"Used (\d+) registers", part)[1])  # type: ignore[index]
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill", part)))
        found[arch, symbol] = Report(registers, spilled)
    return found


pytestmark = pytest.mark.skipif(NVCC is None, reason="needs nvcc")

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
            own = [text for text, options in asked if {*options[1:]} == {*OPTIONS}]
            texts |= {f"{kind} {seed}, {k}": text for k, text in enumerate(own)}
    found = in_parts(texts, architectures, 15)
    names = [(n, one) for n, text in texts.items() for one in functions(text)]
    wanted = {(arch, *one) for arch, one in itertools.product(architectures, names)}
    assert set(found) == wanted
    assert {key: one.spilled for key, one in found.items() if one.spilled > MOST} == {}


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_ptxas_is_given_no_minimum_of_a_negation(cupy, given, dtype, tmp_path):
    """It forgets the sign where it makes one instruction of two minima: see `device.h`."""
    one = npt.stencil(boundary="nearest")(on_gpu.negated_extremes)
    ((text, _),) = given(lambda: one(cupy.empty((64, 64), dtype)))
    source, made = tmp_path / "text.cu", tmp_path / "text.ptx"
    source.write_text(text, encoding="utf-8")
    words = [NVCC, "-arch=sm_90", *OPTIONS, "-ptx", source, "-o", made]
    subprocess.run(words, check=True)
    ptx = made.read_text(encoding="utf-8")
    negative = set(re.findall(r"\bneg\.s(?:32|64)\s+(%\w+)", ptx))
    operands = re.findall(r"\b(?:min|max)\.s(?:32|64)\s+%\w+, (\S+), (\S+);", ptx)
    assert operands
    assert not negative & {one for pair in operands for one in pair}
