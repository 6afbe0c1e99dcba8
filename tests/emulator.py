"""Run CUDA C++ on the CPU: g++ with cuda_on_cpu.h, called as CUDA's driver is called.

    build([text, other])                          many texts in a few runs of g++
    one = functions(text)                         what was built, or is built now
    one["smooth"](grid, threads, arguments)       an array for a pointer, else a NumPy value

What is built stays in a folder, by hashes, so that nothing is built twice in a run of the tests;
with NINEPOINT_EMULATOR_DIR that folder is shared and stays.  The addresses, the casts, the shifts
and the bounds of arrays in registers are checked by UBSan: the process ends with a message where
one of them is wrong.
"""

import atexit
import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
GXX = shutil.which("g++")

# Texts that g++ compiles in one run: what each run costs is shared, and memory is not short.
TOGETHER = 24

_FLAGS = (
    "-std=c++17 -O0 -g0 -fPIC -ffp-contract=off -fno-strict-aliasing -w -U_FORTIFY_SOURCE "
    "-fno-exceptions -fno-asynchronous-unwind-tables -static-libubsan "
    "-fsanitize=alignment,shift,bounds,float-cast-overflow,integer-divide-by-zero,"
    "signed-integer-overflow,bool -fno-sanitize-recover=all"
).split()
_KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\('
)
_MACRO = re.compile(r"(?m)^\s*#\s*define\s+(\w+)")


class Refused(RuntimeError):
    """What g++ says of a text that it does not compile."""


@dataclass(frozen=True)
class Text:
    """A text with the macros that are defined before it: NAME=VALUE."""

    text: str
    define: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What it is known by."""
        whole = "\n".join([*self.define, self.text])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    @property
    def head(self) -> str:
        """What it may share with others: all up to its last condition of the preprocessor."""
        end = self.text.rfind("\n#endif\n")
        head = self.text[: end + len("\n#endif\n")] if end >= 0 else ""
        macros = [f"#define {one.replace('=', ' ', 1)}\n" for one in self.define]
        return "".join(macros) + head

    def rest(self) -> str:
        """All else as g++ takes it, with what launches each kernel, under names of its own."""
        key, body = self.key, self.text[len(self.head) - self._defined :]
        names = _KERNEL.findall(body)
        for name in names:
            body = re.sub(rf"\b{name}\b", f"{name}__{key}", body)
        lines = [f"namespace text_{key} {{", body, "}"]
        for name in names:
            symbol = f"{name}__{key}"
            kernel = f"Launched<&text_{key}::{symbol}>"
            lines += [
                f'extern "C" int sizes_{symbol}(int *found) {{ return {kernel}::sizes(found); }}',
                f'extern "C" void run_{symbol}(const unsigned *shape, void **given) '
                f"{{ {kernel}::run(shape, given); }}",
            ]
        lines += [f"#undef {one}" for one in _MACRO.findall(body)]
        return "\n".join([*lines, ""])

    @property
    def _defined(self) -> int:
        return sum(len(f"#define {one}\n") for one in self.define)


@dataclass(frozen=True)
class Function:
    """A kernel, to be launched."""

    name: str
    library: ctypes.CDLL
    symbol: str

    @property
    def sizes(self) -> list[int]:
        """How many bytes each of its parameters has."""
        found = (ctypes.c_int * 4096)()
        count = getattr(self.library, f"sizes_{self.symbol}")(found)
        return list(found[:count])

    def __call__(
        self, grid: int | Sequence[int], threads: int | Sequence[int], arguments: Sequence[Any]
    ) -> None:
        """Launch it: arrays and addresses (`int`) are pointers, NumPy values go by value.

        A struct is a NumPy value of a structured dtype, or bytes.
        """
        given = [_bytes(argument) for argument in arguments]
        sizes = self.sizes
        assert [len(one) for one in given] == sizes, (self.name, [*map(len, given)], sizes)
        held = [_aligned(one) for one in given]
        pointers = (ctypes.c_void_p * len(held))(*held and [h.ctypes.data for h in held])
        shape = (ctypes.c_uint * 6)(*_three(grid), *_three(threads))
        run = getattr(self.library, f"run_{self.symbol}")
        run.restype = None
        run(shape, pointers)


Functions = Mapping[str, Function]


def functions(text: str, define: Sequence[str] = ()) -> Functions:
    """The kernels of a text, by their names.

    Raises
    ------
    Refused
        If g++ does not compile it.
    """
    one = Text(text, tuple(define))
    build([one])
    library = _loaded((_folder() / one.key).read_text(encoding="utf-8"))
    names = _KERNEL.findall(text)
    return {name: Function(name, library, f"{name}__{one.key}") for name in names}


def build(texts: Sequence[Text | str]) -> None:
    """Compile those texts that were not compiled before, many in each run of g++."""
    given = [Text(one) if isinstance(one, str) else one for one in texts]
    missing = {one.key: one for one in given if not (_folder() / one.key).exists()}
    if not missing:
        return
    heads: dict[str, list[Text]] = {}
    for one in missing.values():
        heads.setdefault(one.head, []).append(one)
    parts = [
        (head, some[k : k + TOGETHER])
        for head, some in heads.items()
        for k in range(0, len(some), TOGETHER)
    ]
    if len(parts) == 1:
        _build(*parts[0])
        return
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_build, *zip(*parts, strict=True)))


def _build(head: str, texts: Sequence[Text]) -> None:
    whole = "\n".join(one.rest() for one in texts)
    name = hashlib.sha256("".join(one.key for one in texts).encode()).hexdigest()[:16] + ".so"
    header = _header(head)
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        source, made = Path(folder, "texts.cpp"), Path(folder, "texts.so")
        source.write_text(f'#include "{header.name}"\n{whole}', encoding="utf-8")
        _run([*_FLAGS, "-shared", f"-I{header.parent}", str(source), "-o", str(made)])
        os.replace(made, _folder() / name)
    for one in texts:
        _write(_folder() / one.key, name)


def _header(head: str) -> Path:
    """A header with what texts begin with, compiled before."""
    whole = f'#include "{HERE / "cuda_on_cpu.h"}"\n{head}'
    header = _folder() / f"head_{hashlib.sha256(whole.encode()).hexdigest()[:16]}.h"
    made = Path(f"{header}.gch")
    if not made.exists():
        _write(header, whole)
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
            target = Path(folder, made.name)
            _run([*_FLAGS, "-x", "c++-header", str(header), "-o", str(target)])
            os.replace(target, made)
    return header


@cache
def _loaded(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(_folder() / name))


def _run(options: Sequence[str]) -> None:
    assert GXX, "g++ is needed"
    done = subprocess.run([GXX, *options], capture_output=True, text=True)
    if done.returncode:
        raise Refused(done.stderr[:4000])


def _write(path: Path, text: str) -> None:
    """Write a file that others may write at the same time."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(name, path)


@cache
def _folder() -> Path:
    """Where things are built: for this compiler's own flags, and these sources."""
    base = os.environ.get("NINEPOINT_EMULATOR_DIR")
    if base is None:
        base = tempfile.mkdtemp(prefix="ninepoint-emulator-")
        atexit.register(shutil.rmtree, base, True)
    parts = [*_FLAGS, str(GXX), (HERE / "cuda_on_cpu.h").read_text(encoding="utf-8")]
    parts.append(Path(__file__).read_text(encoding="utf-8"))
    folder = Path(base, hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _three(shape: int | Sequence[int]) -> tuple[int, int, int]:
    given = (int(shape),) if isinstance(shape, int | np.integer) else tuple(map(int, shape))
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def _bytes(argument: Any) -> bytes:
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, np.ndarray):
        return np.uint64(argument.ctypes.data).tobytes()
    if isinstance(argument, int) and not isinstance(argument, bool):
        return np.uint64(argument).tobytes()
    assert isinstance(argument, np.generic), argument
    return argument.tobytes()


def _aligned(data: bytes) -> np.ndarray:
    """The bytes where any type may stand."""
    room = np.empty(len(data) + 16, np.uint8)
    first = -room.ctypes.data % 16
    made = room[first : first + len(data)]
    made[:] = np.frombuffer(data, np.uint8)
    return made
