"""What a compiler for GPUs makes of a text: registers, spills and instructions, without a GPU.

    reports([text, other], "sm_90")["kernel_smooth.0"]      ->     Report(registers=40, ...)

Texts are what NVRTC is given, with the options of OPTIONS.

nvcc makes machine code, for which no driver is needed; its instructions are read by NVIDIA's
cuobjdump and nvdisasm, which have wheels of their own names, "nvidia-cuda-cuobjdump" and so on.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import emulator

# What NVRTC is told besides the architecture, but for macros.
OPTIONS = ("--std=c++17", "--fmad=false")

NVCC = shutil.which("nvcc")

_FUNCTION = re.compile(r'extern "C" __global__ void __launch_bounds__\([^)]*\) (\w+)\(')
_INSIDE = re.compile(r"const bool (inside|within|\w+_whole) =[^;]*;")
_FRAMES = re.compile(r"if \(block >= m0\) frame = .*;")
_OPCODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)[^;]*;")
_NOTHING = ("NOP", "BRA")


def _tool(name: str) -> str | None:
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(one) for one in (spec.submodule_search_locations or ())] if spec else []
    found = [path for folder in folders for path in folder.glob(f"*/bin/{name}")]
    return str(found[0]) if found else shutil.which(name)


CUOBJDUMP = _tool("cuobjdump")


@dataclass(frozen=True)
class Report:
    """What a function takes: registers, bytes spilled, and its instructions, in order."""

    registers: int
    spilled: int
    instructions: tuple[str, ...] = ()

    def count(self, *starts: str) -> int:
        """How many instructions begin with one of these words."""
        return sum(one.startswith(starts) for one in self.instructions)


def inside(text: str) -> str:
    """The text for a thread of the only frame whose points are all inside, as most threads are."""
    return _FRAMES.sub("", _INSIDE.sub(r"const bool \1 = true;", text))


def functions(text: str) -> list[str]:
    """The names of the functions of a text."""
    return _FUNCTION.findall(text)


def reports(texts: Sequence[str], arch: str, *, code: bool = False) -> Mapping[str, Report]:
    """What each function of all texts takes, by its name and its text's number: "kernel_f.0"."""
    with tempfile.TemporaryDirectory() as folder:
        told = _told(texts, folder, [f"-arch={arch}", "-cubin"])
        listing = _listing(Path(folder, "made")) if code else {}
    found = {}
    for (_, symbol), report in told.items():
        name = ".".join(symbol.rsplit("__", 1))
        found[name] = replace(report, instructions=listing.get(symbol, ()))
    return found


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
    """What the assembler says of each function, by the architecture and its name and number.

    The machine code is "made" in the folder.
    """
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


def _listing(made: Path) -> dict[str, tuple[str, ...]]:
    """The instructions of each function, in order."""
    assert CUOBJDUMP
    paths = os.pathsep.join([str(Path(CUOBJDUMP).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [CUOBJDUMP, "-sass", str(made)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PATH": paths},
    )
    found: dict[str, tuple[str, ...]] = {}
    for part in done.stdout.split("Function : ")[1:]:
        symbol, body = part.split("\n", 1)
        codes = _OPCODE.findall(body)
        found[symbol.strip()] = tuple(code for code in codes if not code.startswith(_NOTHING))
    return found
