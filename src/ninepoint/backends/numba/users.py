"""Functions of users as Numba's, and what Numba finds wrong with them.

    def mean(x): return np.sum(x) / SCALE     ->     the same text, in which SCALE is 100 for ever

Their names mean what they did also in a process that has neither the user's file nor modules.
Functions that they call are compiled with them.  Lines stay those of the user's file: Numba's
errors lead there.

What was compiled is kept on disk beside its text, and loaded only if it is whole.  Numba's own
cache unpickles whatever its files hold, and runs the machine code in them.  Here each function and
signature has a file of its own that begins with a hash of the rest: what was damaged is compiled
anew.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any

from numba import njit
from numba.core import cgutils, config, ir, serialize, types
from numba.core.caching import NullCache
from numba.core.callconv import CPUCallConv
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.errors import NumbaError, NumbaWarning
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import signature
from numba.extending import overload

from ...language.definitions import (
    ArrayFunction,
    Function,
    SelfReference,
    Unusable,
    dotted,
    with_helpers,
)
from ...language.errors import Span, mistake
from ...language.source import live_names, rebuild
from ...language.values import words
from .. import cache

# Functions that are called from machine code alone need no door to Python.
INSIDE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# What Numba says of which nobody learns anything, and how it says the rest.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FUNCTION = re.compile(r"Function\(<(?:[a-z-]+ )*'?((?!0x)[\w.]+)'?(?: at 0x[0-9a-f]+)?>\)")
_SILENT = ("Failed in", "There are", "Rejected", "Overload", "File", "During:", "Enable logging",
           "Not Enough Information", ">>>")  # fmt: skip
_OWN = re.compile("ninepoint: (.*)")
_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def by_type(prefer_literal: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Make a function, called by machine code alone, of what chooses its text by types."""

    def made(choose: Callable[..., Any]) -> Any:
        @wraps(choose)
        def known(*arguments: Any) -> Any:
            raise NotImplementedError(choose.__name__)

        overload(known, prefer_literal=prefer_literal)(choose)
        return known

    return made


def live(value: Any) -> Any:
    """A value from outside as it is.

    Raises
    ------
    LookupError
        If there is none in this process, or it is a stencil.
    """
    if isinstance(value, Unusable) and value.value is not None:
        return value.value
    if isinstance(value, Unusable | ArrayFunction):
        raise LookupError
    return value


def jitted(
    function: Function,
    token: str,
    options: Mapping[str, Any],
    held: Callable[[Any], Any] = live,
) -> Any:
    """Numba's function of a user's, whose meaning has this token; it is given all by place.

    `held` gives what a value from outside is there, or raises LookupError.

    Raises
    ------
    StencilError
        If it names what cannot be used.
    RuntimeError
        If Numba is told to compile nothing.
    """
    if vars(config)["DISABLE_JIT"]:
        raise RuntimeError(
            f"'{function.name}' is compiled by Numba as it is written, so it does not run with "
            f"NUMBA_DISABLE_JIT=1; unset that variable, or call {function.name}.debug(...)."
        )

    # What functions that are being made are called by their own texts.
    active = dict[str, Any]()

    def made(function: Function, **first: Any) -> Any:
        # Numba imports the module of what it kept on disk.
        names: dict[str, Any] = {"__name__": __name__}
        plain = rebuild(function, names, by_place=True)
        # All that Numba has compiled is in one engine, where names of code from disk differ too.
        plain.__qualname__ = f"{token}.{function.name}"
        found = njit(error_model="numpy", **INSIDE, **options, **first)(plain)
        before = active.get(function.name)
        active[function.name] = found
        known = {name: meant(function, name, one) for name, one in function.constants.items()}
        active[function.name] = before
        names |= live_names(replace(function, constants=known))
        return found

    def meant(function: Function, name: str, value: Any) -> Any:
        match value:
            case Function():
                return made(value)
            case SelfReference(name=own):
                return active[own]
            case tuple():
                return tuple(meant(function, name, one) for one in value)
        try:
            return held(value)
        except LookupError:
            place = first_use(function, name)
            if callable(value) and not isinstance(value, ArrayFunction):
                raise mistake("unknown-function", place, name) from None
            raise mistake("bad-constant", place, name, words(value)) from None

    # Called, a point of a stencil would be given the whole of its fields: what reads at an offset
    # from data took 16 ns so, and takes 1.3 ns as a part of the loop.
    return made(replace(function, defaults={}), forceinline=True)


# What Numba compiled, on disk.


class Kept(NullCache):
    """The overloads of one function on disk, in place of Numba's cache of a dispatcher."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _file(self, signature: Any, codegen: Any) -> str:
        # The name itself is made of the text, the versions and the machine.
        key = f"{signature}\n{codegen.magic_tuple()}"
        return f"{self._name}.{hashlib.sha256(key.encode()).hexdigest()[:16]}.nb"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for a signature, if it is there and whole."""
        target_context.refresh()
        rebuild: Any = CompileResult._rebuild
        return cache.recalled(
            self._file(sig, target_context.codegen()),
            lambda kept: rebuild(target_context, *pickle.loads(kept)),
        )

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, unless it holds addresses of this process."""
        if data.library.has_dynamic_globals or any(not one.can_cache for one in data.lifted):
            return
        # Partly typed: Any, or mypy finds the gaps.
        numba: Any = serialize
        cache.keep(self._file(sig, data.codegen), numba.dumps(data._reduce()))


# Numba's own compiler, whose checks of bounds say where.


class _Telling(CPUCallConv):
    """Numba's way to leave a function, which says where it was if an index is wrong."""

    def return_user_exc(self, builder, exc, exc_args=None, loc=None, func_name=None):
        lower = self.context.lower
        # What Numba itself raises has no place, and in functions of its own there is none.
        if exc is IndexError and loc is None and builder.function is lower.builder.function:
            exc, exc_args = cache.Outside, lower.place
        super().return_user_exc(builder, exc, exc_args, loc, func_name)


class _TellingContext(CPUContext):
    call_conv = property(_Telling)


class _BoundedLower(Lower):
    """Numba's own lowering, whose checks of bounds say at which line and in which array."""

    def init(self):
        super().init()
        self.context = copy.copy(self.context)
        self.context.__class__ = _TellingContext
        self.context.lower = self

    def lower_inst(self, inst):
        array: Any = None
        indexed: Any = getattr(inst, "value", None)
        if isinstance(inst, ir.SetItem | ir.StaticSetItem):
            array, indexed = inst.target, inst
        elif isinstance(indexed, ir.Expr) and "getitem" in indexed.op:
            array = indexed.value
        name = "" if array is None else array.name.partition(".")[0]
        row = inst.loc.line - self.func_ir.loc.line
        # The function, the row below its `def`, and the name of the array that is indexed.
        self.place = self.func_ir.func_id.func_name, row, "" if name.startswith("$") else name
        kind = array and self.typeof(array.name)
        if isinstance(kind, types.NumpyFlatType):
            # Numba does not check `x.flat[i]`.
            length = self.context.get_function(len, signature(types.intp, kind))
            size = length(self.builder, (self.loadvar(array.name),))
            index = indexed.index if isinstance(indexed.index, ir.Var) else indexed.index_var
            step = self._cast_var(index, types.intp)
            cgutils.do_boundscheck(self.context, self.builder, step, size)
        super().lower_inst(inst)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """The pass that lowers so."""

    _name = "lowering_with_places"
    lowering_class = property(lambda self: _BoundedLower)


class BoundedCompiler(CompilerBase):
    """How functions of core arrays are compiled, unless they ask for no checks of bounds."""

    def define_pipelines(self):
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_Lowering if one is NativeLowering else one, words) for one, words in passes.passes
        ]
        passes.finalize()
        return [passes]


# What Numba says.


def first_use(function: Function, name: str) -> Span:
    """Where a function first says a name."""
    for node in ast.walk(function.definition):
        if dotted(node) == name:
            return function.span(node)
    return function.place


@contextmanager
def explained(
    function: Function, told: Callable[[str, Span, Exception], Exception]
) -> Iterator[None]:
    """Raise what Numba finds in a function as a mistake at the user's line.

    That is what is `told` of Numba's words, the place and the error itself.
    """
    try:
        with warnings.catch_warnings():
            # What may be slow is told by a measurement.
            warnings.simplefilter("ignore", NumbaWarning)
            yield
    except (NumbaError, AssertionError, NotImplementedError, AttributeError) as error:
        # The others where Numba has begun something and finds that it lacks a part; the last one
        # of `x += 1` for an array that may not be written to.
        text = _COLOURS.sub("", str(error))
        raise told(text, _place(function, text, error), error) from None


def reason(text: str) -> str:
    """The first line of Numba's words that says something, or what we said ourselves."""
    if own := _OWN.search(text):
        return own[1]
    lines = (line.strip(" -") for line in text.splitlines())
    useful = (line for line in lines if line and not line.startswith(_SILENT))
    found = _FUNCTION.sub(r"'\1'", next(useful, "Numba gives no reason"))
    found = found.replace("found for signature", "for these arguments")
    return re.sub(r",? (defined )?at /\S*( \(\d+\))?", "", found).rstrip(".:")


def _place(function: Function, text: str, error: Exception) -> Span:
    """The first of the user's lines that Numba names, which is where the mistake is."""
    lines = [(file, int(line)) for file, line in _LINE.findall(text)]
    loc = getattr(error, "loc", None)
    lines += [] if loc is None else [(loc.filename, loc.line)]
    known = list(with_helpers(function))
    for file, line in lines:
        for one in known:
            row = line - one.first_line
            # Numba shortens paths.
            if one.file.endswith(file.lstrip(".")) and 0 <= row <= one.text.count("\n"):
                return whole_line(one, line)
    return function.place


def whole_line(function: Function, line: int) -> Span:
    """A line of a function's text, by its number in the file."""
    code = function.text.split("\n")[line - function.first_line]
    return Span(function.file, line, len(code) - len(code.lstrip()), len(code), code)
