"""A gufunc for given types, ready to be called with arrays of NumPy."""

from __future__ import annotations

import _thread
import array
import ctypes
import functools
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backends.outside import Outside
from ..backends.threads import crew_address, thread_count
from ..backends.universal import Universal
from ..language.errors import Diagnostic
from ..remembered import Remembered
from .code import loop_address, result_dtypes
from .definition import FROM_LAMBDA, GufuncDefinition, Types, all_functions, whole_line
from .in_place import proved_dtypes

# What the loop tells of (see `loop`), here without importing Numba.
_NO_MEMORY = -100

# A call with more elements in its first array may be shared among threads, whatever it took the
# last time.
MANY = 4096


class Raised(Exception):
    """What the loop raises: numbers that say what went wrong."""


def _asked(threads: int) -> int:
    """The crew, for the loop, which can be told of no interrupt: who waits is told afterwards."""
    try:
        return crew_address(threads)
    except KeyboardInterrupt:
        _thread.interrupt_main()
        return 0


_ASKED = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(_asked)

# The loop may be at work when the interpreter takes this module apart.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_ASKED))


@functools.cache
def _asked_at() -> int:
    """Where the machine code of `_asked` begins."""
    address = ctypes.cast(_ASKED, ctypes.c_void_p).value
    assert address is not None
    return address


class _Error(ctypes.Structure):
    """Numba's `excinfo_t`."""

    _fields_ = (
        ("pickle", ctypes.c_void_p),
        ("length", ctypes.c_int32),
        ("arguments", ctypes.c_void_p),
        ("unpack", ctypes.c_void_p),
        ("count", ctypes.c_int32),
    )


class Ready:
    """The loop for given types, as functions of NumPy: one for each number of threads.

    Attributes
    ----------
    dtypes : tuple of dtype
        Those of the results.
    slow : array
        Its one element is 0 where the last call was too short to be shared.
    quick : numpy.ufunc or None
        Computes on this thread; None where sizes have to be told.
    """

    __slots__ = ("_definition", "_held", "_loop", "_made", "_types", "dtypes", "quick", "slow")

    def __init__(
        self, definition: GufuncDefinition, types: Types, dtypes: Sequence[np.dtype[Any]] | None
    ) -> None:
        natural = proved_dtypes(definition, types) or result_dtypes(definition, types)
        self.dtypes = natural if dtypes is None else checked_dtypes(definition, natural, dtypes)
        self._definition, self._types = definition, types
        self._loop = loop_address(definition, types, natural, self.dtypes)
        self._made: Remembered[Any, tuple[Universal, Any]] = Remembered(64)
        # Nothing is known of the first call.
        self.slow = array.array("q", [1])
        self.quick: Any = None
        if not definition.signature.new:
            self._held = self._universal(0, {})
            self.quick = self._held[0].call

    def call(
        self,
        arrays: Sequence[Any],
        threads: int | None,
        sizes: Mapping[str, int],
        options: Mapping[str, Any],
    ) -> Any:
        """Call NumPy's function, on several threads where that is worth it."""
        # To ask how many threads there are takes as long as a small call.
        short = threads is None and not self.slow[0] and arrays[0].size <= MANY
        made, _ = self._universal(0 if short else thread_count(threads), sizes)
        try:
            return made.call(*arrays, **options)
        except Raised as raised:
            raise self.error(raised) from None

    def _universal(self, threads: int, sizes: Mapping[str, int]) -> tuple[Universal, Any]:
        key = threads, tuple(sizes.values())
        found = self._made.get(key)
        if found is None:
            definition, types = self._definition, self._types
            text, places = definition.signature.for_numpy(len(types.scalars), sizes)
            slow = self.slow.buffer_info()[0]
            words = array.array("q", [id(Raised), _asked_at(), threads, slow, *places])
            made = Universal(
                self._loop,
                words.buffer_info()[0],
                (*types.inputs, *types.scalars),
                self.dtypes,
                definition.name,
                text,
            )
            found = made, words
            self._made[key] = found
        return found

    def error(self, raised: Raised) -> BaseException:
        """What went wrong, from what the loop told."""
        code, info, number, *shape = map(int, str(raised).split())
        definition = self._definition
        if code == _NO_MEMORY:
            return MemoryError(f"'{definition.name}' found no memory.")
        if number:
            core = definition.signature.outputs[number - 1]
            found = tuple(shape[: len(core)])
            several = len(definition.signature.outputs) > 1
            which = f"result {number}" if several else "the result"
            return ValueError(
                f"{which} of '{definition.name}' has the shape {found}, which is not "
                f"({', '.join(core)}) of {definition.signature} for these arrays."
            )
        if code < 1:
            return RuntimeError(f"'{definition.name}' failed.")
        made = _numbas(info)
        return _placed(definition, made) if isinstance(made, Outside) else made


def _numbas(address: int) -> BaseException:
    """The exception that a compiled function raised."""
    # Imported here, not above: only a mistake needs Numba.
    from numba.core import serialize

    # Partly typed: Any, or mypy finds the gaps.
    theirs: Any = serialize
    fields = _Error.from_address(address)
    text = ctypes.string_at(fields.pickle, fields.length)
    if fields.count > 0:
        unpack = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(fields.unpack)
        kind, arguments, _ = theirs.runtime_build_excinfo_struct(text, unpack(fields.arguments))
    else:
        kind, arguments, _ = pickle.loads(text)
    if kind is None:
        return RuntimeError("an exception was raised again, but there was none.")
    made: BaseException = kind(*(arguments or ()))
    return made


def _placed(definition: GufuncDefinition, outside: Outside) -> IndexError:
    """The error that says at which of the user's lines an array was left."""
    name, row, array = outside.args
    for one in all_functions(definition.function):
        if one.name == name or (one.is_lambda and name == FROM_LAMBDA):
            span = whole_line(one, one.definition.lineno + row)
            break
    else:
        span = definition.function.place
    where = repr(array) if array else "an array"
    return IndexError(
        Diagnostic(
            "outside-array",
            f"'{definition.name}' reads or writes outside {where}.",
            span,
            "an index here is outside its array",
            f"{definition.name}.debug(...) computes in Python, and says which index it is.",
        )
    )


def checked_dtypes(
    definition: GufuncDefinition,
    natural: Sequence[np.dtype[Any]],
    dtypes: Sequence[np.dtype[Any]],
) -> tuple[np.dtype[Any], ...]:
    """The dtypes that were asked for, if the results may be stored in them."""
    if len(dtypes) != len(natural):
        raise ValueError(
            f"dtype= names {len(dtypes)} dtypes, but '{definition.name}' has "
            f"{len(natural)} results."
        )
    for given, wanted in zip(natural, dtypes, strict=True):
        if not np.can_cast(given, wanted, "same_kind"):
            raise TypeError(
                f"dtype={wanted} does not hold the {given} that '{definition.name}' gives; "
                "convert the result with .astype()."
            )
    return tuple(dtypes)
