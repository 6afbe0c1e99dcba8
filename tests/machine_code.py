"""What a compiler for GPUs makes of texts: how many bytes each function spills, without a GPU.

Texts are what NVRTC is given, with the options of OPTIONS; nvcc makes machine code, for which no
driver is needed.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import emulator

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
