"""NVRTC of the stand-in: g++ with the emulator."""

import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from cupy import fake

HERE = Path(__file__).parents[5]
GXX = shutil.which("g++")
FLAGS = (
    "-std=c++17 -O0 -g1 -fPIC -ffp-contract=off -fno-strict-aliasing -w -U_FORTIFY_SOURCE"
).split()
KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\('
)


class NVRTCError(RuntimeError):
    pass


_programs = {}


def getVersion():
    return 13, 0


def createProgram(text, name, headers, include_names):
    assert name.endswith(".cu")
    _programs[len(_programs) + 1] = [text, b"", ""]
    return len(_programs)


def compileProgram(program, options):
    fake.compiled += 1
    text = _programs[program][0]
    architecture = next(o for o in options if o.startswith("-arch=sm_")).removeprefix("-arch=sm_")
    if architecture == "37":
        _programs[program][2] = "nvrtc: error: invalid value for --gpu-architecture (-arch)"
        raise NVRTCError("NVRTC_ERROR_INVALID_OPTION (5)")
    wrapped = [
        f'extern "C" int sizes_{name}(int *found) {{ return Launched<&{name}>::sizes(found); }}\n'
        f'extern "C" void run_{name}(const unsigned *shape, size_t shared, bool barriers, '
        f"void **arguments) {{ Launched<&{name}>::run(shape, shared, barriers, arguments); }}\n"
        for name in KERNEL.findall(text)
    ]
    defined = [f"-D{o.removeprefix('--define-macro=')}" for o in options if "define-macro" in o]
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "text.cpp"), Path(folder, "text.so")
        source.write_text("\n".join(['#include "cuda_on_cpu.h"', text, *wrapped]))
        done = subprocess.run(
            [GXX, *FLAGS, *defined, "-shared", f"-I{_header() if not defined else HERE}",
             str(source), "-o", str(made)],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            _programs[program][2] = done.stderr[:4000]
            raise NVRTCError("NVRTC_ERROR_COMPILATION (6)")
        code = architecture.encode() + b"\n" + made.read_bytes()
    _programs[program][1] = code


@cache
def _header():
    """A folder with the emulator's header, compiled before."""
    folder = Path(os.environ["NINEPOINT_CACHE_DIR"]).parent / f"standin-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    header = folder / "cuda_on_cpu.h"
    header.write_text((HERE / "cuda_on_cpu.h").read_text())
    subprocess.run(
        [GXX, *FLAGS, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True
    )
    return folder


def getCUBIN(program):
    # CuPy leaves out the last byte, which is 0.
    return _programs[program][1]


def getProgramLog(program):
    return _programs[program][2]


def destroyProgram(program):
    pass
