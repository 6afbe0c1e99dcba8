"""For this project's own tests, not public: interpret generated code, change limits, see plans.

Nothing here is kept stable for users.  Tests need this beyond the public face, and no more:

    with interpreted():                 # generated code runs as plain Python and is checked
        smooth(image)
    with limits(block_elements=40):     # small arrays go the ways of large ones
        smooth(image)
    plan_of(smooth, "uint8").reaches    # what `explain` prints, as data
    forget_device()                     # GPUs are looked for again, as in a new process
    view(sliced, chunks, pieces)        # an array of Dask, as `open` makes one of a file
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from ninepoint.arrays.cuda import executable as on_device
from ninepoint.arrays.layout import layout
from ninepoint.backends import cache
from ninepoint.backends.compiled import Compiled
from ninepoint.backends.cuda import driver, writing
from ninepoint.backends.llvm import library
from ninepoint.backends.llvm.native import Kind
from ninepoint.backends.numba import cpu
from ninepoint.backends.numba.cpu import Loaded
from ninepoint.backends.pipeline import compile_chain
from ninepoint.base import limits as limit
from ninepoint.base.limits import Limits
from ninepoint.inspecting.measuring import asked
from ninepoint.lowering.notes import Note, notes, work
from ninepoint.program import program


@contextmanager
def limits(**changed: Any) -> Iterator[Limits]:
    """Put other limits in the place of those that are named, until the block ends.

    What a stencil prepared before, it keeps: decorate one for these limits.
    """
    before = limit.current
    limit.current = dataclasses.replace(before, **changed)
    layout.cache_clear()
    try:
        yield limit.current
    finally:
        limit.current = before
        layout.cache_clear()


@dataclass(frozen=True, slots=True)
class PlanOf:
    """What `explain` says of a call, as data.

    `reason` says why a kernel is not understood; it is empty for those that are.  `reaches` are
    the least and the greatest offsets of each result, `passes` the names of the calls that are
    done together, and `whole` why a stage is stored whole.
    """

    reason: str
    dtypes: tuple[np.dtype, ...]
    reaches: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    notes: tuple[Note, ...]
    passes: tuple[tuple[str, ...], ...]
    whole: Mapping[str, str]
    loads: float

    @property
    def text(self) -> str:
        """The notes as lines."""
        return "\n".join(line for note in self.notes for line in (note[0], *note[1]))


def plan_of(stencil: Any, *fields: Any, **named: Any) -> PlanOf:
    """The plan of a call on fields of these types, or on these arrays; `named` as for a call."""
    call = asked(stencil.definition, fields, named)
    last, plan = call.last.compiled, call.plan
    forms = last.forms
    return PlanOf(
        reason=last.reason,
        dtypes=tuple(last.out_dtypes),
        reaches=tuple((box.lo, box.hi) for box in last.reaches),
        notes=()
        if forms is None
        else tuple(notes(forms.stored, forms.wholesome, forms.lowered, forms.request.schedule)),
        passes=tuple(tuple(node.label for node in group.nodes) for group in plan.groups),
        whole=plan.whole,
        loads=0.0 if forms is None else work(forms.lowered)[0],
    )


@contextmanager
def interpreted() -> Iterator[None]:
    """Run generated code as plain Python: what is first called within the block, and stays so.

    Plain Python takes a negative index from the end and cuts a slice that is too long, where
    machine code reads what lies before or after the array.  So every index is looked at; fields
    and coefficients also refuse to be written, and a place of a buffer to be read before it was
    written.  Kernels that are not understood are compiled by Numba as ever.

    Raises
    ------
    Outside
        Where code looked outside an array, or where nothing had been written, or wrote an input.
    """
    load = cpu.loaded

    def as_python(compiled: Compiled) -> Loaded:
        if compiled.module.opaque:
            return load(compiled)
        kinds = list(cpu.kinds_of(compiled))
        if compiled.module.checked:
            # What it notes.
            kinds[-1] = dataclasses.replace(kinds[-1], mutable=True)
        return Loaded(Interpreted(compiled.module.text, kinds))

    with _loading(as_python):
        yield


def forget() -> None:
    """Forget machine code that is in memory, as in a new process: it is read from disk again."""
    cpu._loaded.clear()
    cache._refused.clear()


def forget_device() -> None:
    """Forget GPUs, and what is loaded and settled for them, as in a new process."""
    for remembered in (
        driver.cupy, driver.compiler
    ):  # fmt: skip
        remembered.cache_clear()
    for known in (driver._modules, on_device._uploaded, writing._sources, program._known):
        known.clear()


@contextmanager
def watched(watch: Callable[[Any, str, list[bool], bool], Any]) -> Iterator[None]:
    """Put `watch(function, text, writes, exact)` in the place of machine code loaded meanwhile.

    It is told which arguments the function writes, and whether its floats are exact.
    """
    load = cpu.loaded

    def loaded(compiled: Compiled) -> Loaded:
        found, module = load(compiled), compiled.module
        writes = [kind.mutable for kind in cpu.kinds_of(compiled)]
        if module.opaque or module.checked:
            # What it notes.
            writes[-1] = True
        entry = watch(found.entry, module.text, writes, not compiled.fastmath)
        return dataclasses.replace(found, entry=entry)

    with _loading(loaded):
        yield


@contextmanager
def _loading(load: Any) -> Iterator[None]:
    before = cpu.loaded
    cpu.loaded = load
    # Chains are shared by all stencils whose calls look alike, and what loaded them stays.
    compile_chain.cache_clear()
    try:
        yield
    finally:
        cpu.loaded = before
        compile_chain.cache_clear()


class Interpreted:
    """The function of a generated module, as plain Python."""

    def __init__(self, text: str, kinds: Sequence[Kind]) -> None:
        self._text, self._kinds = text, kinds

    def __call__(self, *arguments: Any) -> None:
        # Floats of 16 bits are integers to text that converts them.
        given = [
            (one.view(kind.dtype) if kind.mutable else _only_read(one.view(kind.dtype)))
            if kind.ndim
            else kind.dtype.type(one)
            for one, kind in zip(arguments, self._kinds, strict=True)
        ]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                in_bounds(self._text)(*given)
            except (IndexError, ValueError) as error:
                # A kernel may raise errors of its own.
                if isinstance(error, IndexError) or "read-only" in str(error):
                    raise Outside(str(error)) from error
                raise


class Outside(AssertionError):
    """Generated text looked outside an array or where nothing had been written, or wrote input."""


def _only_read(array: np.ndarray) -> np.ndarray:
    seen = array.view()
    seen.flags.writeable = False
    return seen


class _Buffer:
    """An array that generated text makes; it knows which of its elements have been written."""

    __slots__ = ("array", "written")

    def __init__(self, array: np.ndarray, written: np.ndarray) -> None:
        self.array, self.written = array, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)

    def __getitem__(self, index: Any) -> Any:
        found = self.array[index]
        if isinstance(found, np.ndarray):
            return _Buffer(found, self.written[index])
        if not self.written[index]:
            raise Outside(f"[{index}] of a buffer is read before it was written")
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value.array if isinstance(value, _Buffer) else value
        self.written[index] = True

    def view(self, dtype: Any) -> _Buffer:
        """The elements as others of the same size."""
        return _Buffer(self.array.view(dtype), self.written)

    def reshape(self, shape: tuple[int, ...]) -> _Buffer:
        """The elements in another shape."""
        return _Buffer(self.array.reshape(shape), self.written.reshape(shape))


class _NumPy:
    """NumPy for generated text: what it makes knows what was written."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(shape: Any, dtype: Any = np.float64) -> _Buffer:
        return _Buffer(np.zeros(shape, dtype), np.zeros(shape, np.bool_))

    @staticmethod
    def array(values: Any, dtype: Any) -> np.ndarray:
        return _only_read(np.array(values, dtype=dtype))


class _Copying(_NumPy):
    """The same for text that copies rows as a whole, with what nobody wrote."""

    empty = staticmethod(np.zeros)


def _inside(array: Any, index: Any) -> Any:
    """An index that NumPy would take from the end, or cut, if it lay outside."""
    indices = index if isinstance(index, tuple) else (index,)
    for one, length in zip(indices, array.shape, strict=False):
        if isinstance(one, slice):
            first, last = one.start or 0, length if one.stop is None else one.stop
            if one.step is not None or not 0 <= first <= last <= length:
                raise IndexError(f"{index} is outside of {array.shape}")
        elif one < 0:
            raise IndexError(f"{index} is outside of {array.shape}")
    return index


def _look(function: ast.FunctionDef) -> None:
    """Put a look at the index into whatever is indexed: too large a one NumPy refuses itself.

    Numbers that count from 0 need no look, and what is added to them.
    """
    nodes = list(ast.walk(function))
    stores = [one.id for one in nodes if isinstance(one, ast.Name) and type(one.ctx) is ast.Store]
    left, counted = Counter(stores), set[str]()

    def natural(node: ast.expr) -> bool:
        match node:
            case ast.Constant(int(value)):
                return value >= 0
            case ast.Name(name):
                return name in counted
            case ast.BinOp(left, ast.Add() | ast.Mult() | ast.Mod(), right):
                return natural(left) and natural(right)
            case ast.Tuple(elements):
                return all(map(natural, elements))
        return False

    for node in [one for one in nodes if isinstance(one, ast.For)]:
        match node:
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), [_])):
                ends = []
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), [start, _, *step])):
                ends = [start, *step]
            case _:
                continue
        left[name] -= all(map(natural, ends))
        if not left[name]:
            counted.add(name)
    for node in nodes:
        # An attribute is the shape of an array.
        if not isinstance(node, ast.Subscript) or isinstance(node.value, ast.Attribute):
            continue
        index: Any = node.slice
        if natural(index):
            continue
        if isinstance(index, ast.Slice):
            ends = [one or ast.Constant(None) for one in (index.lower, index.upper, index.step)]
            index = ast.Call(ast.Name("slice", ast.Load()), ends, [])
        node.slice = ast.Call(ast.Name("_inside", ast.Load()), [node.value, index], [])
        ast.fix_missing_locations(node.slice)


# Python 3.11 counts how deep all threads are that parse together.
_parsing = threading.Lock()


def _looked(text: str) -> CodeType:
    with _parsing:
        tree = ast.parse(text)
    for one in tree.body:
        if isinstance(one, ast.FunctionDef):
            _look(one)
    # What is imported of the library is there, with looks of its own.
    tree.body = [one for one in tree.body if not isinstance(one, ast.ImportFrom)]
    return compile(tree, "<generated>", "exec")


@lru_cache
def _library() -> dict[str, Any]:
    """What generated text calls, with looks at every index."""
    names: dict[str, Any] = {"_inside": _inside, "__name__": "library"}
    exec(_looked(inspect.getsource(library)), names)
    return names


def in_numpy(code: CodeType) -> CodeType:
    """The code with NumPy's floats in the place of Python's, which raise when divided by zero."""
    constants = [np.float64(one) if type(one) is float else one for one in code.co_consts]
    constants = [in_numpy(one) if isinstance(one, CodeType) else one for one in constants]
    return code.replace(co_consts=tuple(constants))


@lru_cache
def in_bounds(text: str) -> Callable[..., None]:
    """The function `band` of a generated module, as plain Python that looks at every index."""
    names = dict(_library())
    # Rows between which a border's rule stands are copied as a whole.
    names["numpy"] = _Copying() if "absent" in text or "beyond" in text else _NumPy()
    # Where tables are made, NumPy is in the place of NumPy already.
    exec(in_numpy(_looked(text.replace("import numpy as np\n", "np = numpy\n"))), names)
    run: Callable[..., None] = names["band"]
    return run


def view(held: Any, chunks: Any, pieces: tuple[int, ...], name: str = "") -> Any:
    """An array of Dask that reads what can be sliced, such pieces of which are decoded at once."""
    # Imported here: Dask is optional.
    import dask.array
    from dask.base import tokenize

    from ninepoint.arrays.chunked.layer import Source

    untyped: Any = dask.array
    cut = untyped.core.normalize_chunks(chunks, held.shape, dtype=held.dtype)
    name = name or f"view-{tokenize(held, cut)}"
    return Source(held, held.shape, held.dtype, pieces, name).view(cut)
