"""Machine code of texts: made by LLVM, loaded and called without Numba.

What LLVM made of a text is kept as object code, with the names of what it calls, and loaded from
there in the next process: Numba, which takes half a second to be imported, is not needed.  Its
entry is a function as those of C extensions are, and a call of it takes half the time of a call
through Numba's dispatcher.

The entry takes NumPy's arrays as they are in memory (see `entries`), and reads where their
elements lie.
"""

from __future__ import annotations

import ctypes
import inspect
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count, islice
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from ...base.frozen import frozen
from ...base.undisturbed import imported, undisturbed
from ...loops.nodes import SHORT
from .. import cache as disk
from .entries import DATA, SHAPE, STRIDES

# Object code, and the names of what it calls and does not hold.
Code: TypeAlias = tuple[bytes, tuple[str, ...]]

# What functions are called, and how they take arguments.
_NAME, _FASTCALL = ctypes.create_string_buffer(b"band"), 0x80

# Machine code is never freed, not when the interpreter ends either: a thread may be running it.
_kept: list[Any] = [_NAME]
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


@frozen
class Kind:
    """What an argument is: a number, or an array of so many axes, which may be written."""

    dtype: np.dtype
    ndim: int = 0
    mutable: bool = False

    @property
    def words(self) -> int:
        """How many words it takes among those of a call."""
        return 1 + 2 * self.ndim if self.ndim else 1 + (self.dtype.kind == "c")


def arrays_of(kinds: Sequence[Kind]) -> int:
    """How many arguments are fields and results: these come last, and nothing else is written."""
    return len(kinds) - [kind.mutable for kind in kinds][::-1].index(True)


def possible() -> bool:
    """Whether arrays lie in this process's memory as the entry reads them."""
    if struct.calcsize("P") != 8 or sys.byteorder != "little" or object.__basicsize__ != 16:
        return False
    if sys.platform == "win32":
        return False
    array = np.empty((3, 5), dtype="int16")[:, ::2]
    words = _words(id(array), STRIDES + 1)
    return (
        words[DATA] == array.ctypes.data
        and tuple(_words(words[SHAPE], 2)) == array.shape
        and tuple(_words(words[STRIDES], 2)) == array.strides
    )


def _words(address: int, count: int) -> Any:
    """So many words at an address."""
    return (ctypes.c_int64 * count).from_address(address)


@cache
def _keep_freed_memory() -> None:
    """Let malloc keep what is freed, up to 32 MB, as it does once it has freed a large block.

    Strips along the borders and rows that are kept are made anew in each call.  Where malloc
    gives their pages back every time, as it is told to in workers of Dask, Harris corners take 9 %
    longer (2560x3072 float32, Zen 4), and a mean of 512x512 bytes 212 us in place of 42.
    """
    # Only on Linux, and there not in all libraries of C.
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:
        # The size from which on a block is the system's, and of what is kept.
        set_option(-3, 1 << 24)
        set_option(-1, 1 << 25)


def entry(code: Code, kinds: Sequence[Kind]) -> Callable[..., None] | None:
    """What runs a block, bound to the kernel's record; nothing if something it calls is not found.

    Where there is the `shared` code, it runs it among a crew too.
    """
    held = engine(code)
    if held is None:
        return None
    _keep_freed_memory()
    place = held.get_function_address("ninepoint_block")
    if shared() is None:
        return _block(place, kinds)
    return _function(address("entry"), _record(kinds, place))


@cache
def padding() -> Callable[..., None] | None:
    """What fills a block (see `entries.pad`); nothing where arrays lie otherwise."""
    if shared() is None:
        return None
    return _function(address("pad"), np.array([id(None)], np.int64))


def _record(kinds: Sequence[Kind], code: int) -> np.ndarray:
    """What the entries of a kernel are told of it."""
    sizes = [kind.words for kind in kinds]
    words = [code, id(None), len(kinds), arrays_of(kinds), kinds[0].ndim, sum(sizes)]
    for k, kind in enumerate(kinds):
        words += [kind.ndim, ord(kind.dtype.kind), kind.dtype.itemsize, 8 * sum(sizes[:k])]
    return np.array(words, np.int64)


def _block(place: int, kinds: Sequence[Kind]) -> Callable[..., None]:
    """What runs a block, for a Python whose objects are not known here: called by `ctypes`."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p)
    code, count = kind(place), arrays_of(kinds)

    def band(*arguments: Any) -> None:
        words = [_packed(*pair) for pair in zip(kinds, arguments, strict=True)]
        if code(b"".join(words[:count]), b"".join(words[count:])):
            raise MemoryError

    return band


def _packed(kind: Kind, value: Any) -> bytes:
    """The words of an argument, as `entries` writes them."""
    if kind.ndim:
        return struct.pack(f"{kind.words}q", value.ctypes.data, *value.shape, *value.strides)
    wide = {"f": "f8", "c": "c16"}.get(kind.dtype.kind, kind.dtype)
    return np.array(value, wide).tobytes().ljust(8, b"\0")


def _function(address: int, record: np.ndarray) -> Callable[..., None]:
    """Machine code as a function of Python, which is bound to the record of a kernel."""
    # `PyMethodDef` of Python's binary interface, in words, without a docstring.
    method = (ctypes.c_int64 * 4)(ctypes.addressof(_NAME), address, _FASTCALL, 0)
    _kept.append((method, record))
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., None] = new(ctypes.addressof(method), record, None)
    return function


def engine(made: Code) -> Any:
    """What holds object code; nothing if something it calls is not found."""
    code, needs = made
    llvm = _llvm()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    # One for each: names that two hold never meet.
    held = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    # Only with an engine are the process's own functions found.
    if not all(map(llvm.address_of_symbol, needs)):
        # Numba brings functions of its own.
        from numba.core.registry import cpu_target

        _ = cpu_target.target_context
        if not all(map(llvm.address_of_symbol, needs)):
            return None
    held.add_object_file(llvm.ObjectFileRef.from_data(code))
    held.finalize_object()
    _kept.append(held)
    return held


@cache
def shared() -> Any:
    """What holds the code that all kernels share, compiled once for a machine, and kept on disk.

    Nothing where arrays lie otherwise, or something that it calls is not found.
    """
    if not possible():
        return None
    file = disk.code_named("shared", "", "o")
    return undisturbed(lambda: disk.remembered(file, engine, shared_code)[0])


def address(name: str) -> int:
    """Where a function of that code begins."""
    return int(shared().get_function_address(f"ninepoint_{name}"))


@cache
def function(name: str) -> Callable[[int], int]:
    """A function of that code, which takes a word; other threads run meanwhile."""
    found: Callable[[int], int] = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 2)(address(name))
    return found


@cache
def _llvm() -> Any:
    """LLVM, ready for code of this machine."""
    # Imported here, not above: who only asks whether it is possible needs none.
    llvm = imported("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def kernel_code(text: str, kinds: Sequence[Kind], *, fastmath: bool) -> Code:
    """The code of a generated text, whose function computes a block."""
    # Imported here, not above: what is on disk needs no compiler.
    from ...loops.reading import functions_of, read
    from . import library
    from .printing import printed

    functions, names = functions_of(inspect.getsource(library)), ["block"]
    whole = text + _block_text(kinds)
    loops = read(whole, functions, _constants(library), names=names, fastmath=fastmath)
    return _object_code(printed(loops, names))


def _block_text(kinds: Sequence[Kind]) -> str:
    """What calls `band` with views and values that are words at two addresses (see `entries`)."""
    given, arrays = list[str](), arrays_of(kinds)
    views, values = map("views[{}]".format, count()), map("values[{}]".format, count())
    for k, kind in enumerate(kinds):
        words, name = [*islice(views if k < arrays else values, kind.words)], kind.dtype.name
        if kind.ndim:
            given.append(f"machine.view(np.{name}, {', '.join(words)})")
            continue
        if kind.dtype.kind in "fc":
            words = [f"float64_of_bits({one})" for one in words]
        number = f"complex({', '.join(words)})" if kind.dtype.kind == "c" else words[0]
        given.append(f"{SHORT[name]}({number})")
    return f"\n\ndef block(views, values):\n    return band({', '.join(given)})\n"


def shared_code() -> Code:
    """The code of what all kernels share: functions whose names begin with `ninepoint_`."""
    from ...loops.reading import read
    from . import entries
    from .printing import printed

    names = "entry part pad begin member".split()
    loops = read(inspect.getsource(entries), {}, _constants(entries), names=names)
    return _object_code(printed(loops, names), plain=True)


def _constants(source: ModuleType) -> Mapping[str, float]:
    """The numbers that a text has names for."""
    return {name: one for name, one in vars(source).items() if isinstance(one, int | float)}


@cache
def _machine() -> Any:
    """LLVM's description of this machine."""
    llvm = _llvm()
    _, cpu, features = disk.machine().split(" ")
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, codemodel="jitdefault", jit=True
    )


@cache
def _context() -> Any:
    """What texts are read in: one in which pointers have no types, which LLVM 15 must be told."""
    llvm = _llvm()
    llvm.context.opaque_pointers_enabled = True
    made = llvm.create_context()
    llvm.context.opaque_pointers_enabled = False
    return made


def _object_code(text: str, plain: bool = False) -> Code:
    """The object code of a module of LLVM's.

    Of a `plain` one, whose loops are short, variables in registers are nearly all that it needs:
    four passes take a hundredth of the time of all.
    """
    llvm = _llvm()
    target = _machine()
    parsed = llvm.parse_assembly(text, _context())
    parsed.triple, parsed.data_layout = target.triple, str(target.target_data)
    # Levels above the first keep x[j + 1] in a register until it is x[j], and shuffle vectors for
    # it: 27 points of 64 x 64 x 64 float32 took 530 us instead of 270, and no kernel gained.
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization, options.slp_vectorization = not plain, False
    builder = llvm.create_pass_builder(target, options)
    passes = llvm.create_new_module_pass_manager()
    if plain and hasattr(passes, "add_sroa_pass"):
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    else:
        passes = builder.getModulePassManager()
    passes.run(parsed, builder)
    declared = [
        one.name for one in (*parsed.functions, *parsed.global_variables) if one.is_declaration
    ]
    names = tuple(sorted(name for name in declared if not name.startswith("llvm.")))
    return target.emit_object(parsed), names
