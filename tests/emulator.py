"""Run CUDA C++ on the CPU: g++ with cuda_on_cpu.h, called as CUDA's driver is called.

    one, two = compiled([text, other])               many texts in one run of g++
    one["kernel_smooth"](grid, threads, arguments)      an array for a pointer, else a NumPy value

The addresses, the casts, the shifts and the bounds of arrays in registers are checked by UBSan:
the process ends with a message where one of them is wrong.  `guarded` copies an array to memory
with pages at its ends that nobody may touch.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ninepoint.backends.cuda.writing import support

HERE = Path(__file__).parent
GXX = shutil.which("g++")

_FLAGS = (
    "-std=c++17 -O1 -g1 -shared -fPIC -ffp-contract=off -fno-strict-aliasing -w "
    "-U_FORTIFY_SOURCE -x c++"
).split()
_CHECKS = [
    "-fsanitize=alignment,shift,bounds,float-cast-overflow,integer-divide-by-zero,"
    "signed-integer-overflow,bool",
    "-fno-sanitize-recover=all",
    "-static-libubsan",
]
_KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\('
)
_BARRIER = re.compile(r"__syncthreads|__syncwarp|_sync\s*\(|npt_(fetch|columns|rows)\b")


@dataclass(frozen=True)
class Function:
    """A kernel, to be launched."""

    name: str
    library: ctypes.CDLL
    symbol: str
    barriers: bool

    @property
    def sizes(self) -> list[int]:
        """How many bytes each of its parameters has."""
        found = (ctypes.c_int * 4096)()
        count = getattr(self.library, f"sizes_{self.symbol}")(found)
        return list(found[:count])

    def __call__(
        self,
        grid: int | Sequence[int],
        threads: int | Sequence[int],
        arguments: Sequence[Any],
        shared: int = 0,
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
        run(shape, ctypes.c_size_t(shared), ctypes.c_bool(self.barriers), pointers)


Functions = Mapping[str, Function]


def compiled(
    texts: Sequence[str], define: Sequence[str] = (), optimized: str = ""
) -> list[Functions]:
    """The kernels of each text, by their names, from one run of g++."""
    whole = ['#include "cuda_on_cpu.h"', support()]
    found: list[list[tuple[str, str, bool]]] = []
    for position, text in enumerate(texts):
        names = _KERNEL.findall(text)
        barriers = bool(_BARRIER.search(text))
        mine = []
        for name in names:
            symbol = f"{name}__{position}"
            text = re.sub(rf"\b{name}\b", symbol, text)
            mine.append((name, symbol, barriers))
        whole += [f"namespace text{position} {{", text, "}"]
        for _, symbol, _ in mine:
            kernel = f"Launched<&text{position}::{symbol}>"
            whole += [
                f'extern "C" int sizes_{symbol}(int *found) {{ return {kernel}::sizes(found); }}',
                f'extern "C" void run_{symbol}(const unsigned *shape, size_t shared, '
                "bool barriers, void **arguments) {",
                f"  {kernel}::run(shape, shared, barriers, arguments);",
                "}",
            ]
        found.append(mine)
    library = _library("\n".join(whole), define, optimized)
    return [
        {name: Function(name, library, symbol, barriers) for name, symbol, barriers in mine}
        for mine in found
    ]


def order(functions: Functions, number: int) -> None:
    """Run the threads of a block forward (0), backward (1), or shuffled by a larger number."""
    for function in functions.values():
        ctypes.c_uint.in_dll(function.library, "npt_order").value = number


def _library(text: str, define: Sequence[str], optimized: str) -> ctypes.CDLL:
    assert GXX, "g++ is needed"
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "texts.cpp"), Path(folder, "texts.so")
        source.write_text(text, encoding="utf-8")
        flags = [*_FLAGS, *_CHECKS, f"-I{HERE}", *(f"-D{one}" for one in define)]
        flags += [optimized] if optimized else []
        done = subprocess.run(
            [GXX, *flags, str(source), "-o", str(made)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[:4000]
        return ctypes.CDLL(str(made))


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


_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory for one array, with pages before and behind it that nobody may touch."""

    def __init__(self, nbytes: int, at_end: bool = True) -> None:
        page = mmap.PAGESIZE
        size = -(-max(nbytes, 1) // page) * page
        self.memory = mmap.mmap(-1, size + 2 * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for at in (base, base + page + size):
            assert _libc.mprotect(ctypes.c_void_p(at), page, 0) == 0
        self.first = page + (size - nbytes if at_end else 0)

    def array(self, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
        """The array, which keeps the memory."""
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self.memory, dtype, count, self.first).reshape(shape)


def guarded(array: np.ndarray, at_end: bool = True) -> np.ndarray:
    """A copy that ends (or begins) at such a page: reads beyond it are a crash."""
    made = Guarded(array.nbytes, at_end).array(array.dtype, array.shape)
    made[...] = array
    return made
