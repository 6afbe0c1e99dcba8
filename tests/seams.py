"""For this project's own tests, not public: interpret generated code, change limits, see plans.

Nothing here is kept stable for users.  Tests need this beyond the public face, and no more:

    with interpreted():                 # generated code runs as plain Python and is checked
        smooth(image)
    with limits(block_elements=40):     # small arrays go the ways of large ones
        smooth(image)
    plan_of(smooth, "uint8").reaches    # what `explain` prints, as data
    passes_of(smooth, "uint8")          # the kernel after each pass, to print
    forget_device()                     # GPUs are looked for again, as in a new process
    view(sliced, chunks, pieces)        # an array of Dask, as `open` makes one of a file
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pprint import pformat
from typing import Any

import numpy as np

from ninepoint.arrays.cuda import executable as on_device
from ninepoint.arrays.layout import layout
from ninepoint.backends import cache
from ninepoint.backends.compiled import Compiled, Forms
from ninepoint.backends.cuda import cubins, driver, writing
from ninepoint.backends.llvm.layout import Kind
from ninepoint.backends.numba import cpu
from ninepoint.backends.numba.cpu import Loaded, in_numpy
from ninepoint.backends.numba.cpu import interpreted as as_plain_python
from ninepoint.backends.pipeline import compile_chain
from ninepoint.base import limits as limit
from ninepoint.base.limits import Limits
from ninepoint.inspecting.asked import asked
from ninepoint.inspecting.explaining import no_chain
from ninepoint.language.box import Box, joined
from ninepoint.language.ir import Kernel
from ninepoint.lowering.notes import Note, Work, notes, work
from ninepoint.lowering.passes import ROWS, STORED, passed
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
    done together, `whole` why a stage is stored whole, and `no_chain` why steps are done one
    after the other.
    """

    reason: str
    dtypes: tuple[np.dtype, ...]
    reaches: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    notes: tuple[Note, ...]
    passes: tuple[tuple[str, ...], ...]
    whole: Mapping[str, str]
    no_chain: str
    work: Work | None

    @property
    def text(self) -> str:
        """The notes as lines."""
        return "\n".join(line for note in self.notes for line in (note.subject, *note.lines))


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
        no_chain=no_chain(call),
        work=None if forms is None else work(forms.lowered),
    )


def _notes(forms: Forms) -> tuple[Note, ...]:
    schedule = forms.request.schedule
    return tuple(notes(forms.stored, forms.wholesome, forms.lowered, schedule))


@dataclass(frozen=True, slots=True)
class PassesOf:
    """A kernel in its intermediate form after each pass, by name; the last is `lowered`.

    `reaches` is how far each result looks, and `dtypes` are those of the results.
    """

    kernels: Mapping[str, Kernel]
    reaches: tuple[Box, ...]
    dtypes: tuple[np.dtype, ...]

    @property
    def reach(self) -> Box:
        """How far all results look together."""
        return joined(self.reaches)

    def text(self, name: str) -> str:
        """The kernel after this pass, printed in full."""
        return pformat(self.kernels[name])


def passes_of(stencil: Any, *fields: Any, **named: Any) -> PassesOf:
    """The kernel of a call, which the compiler understands, after each pass."""
    call = asked(stencil.definition, fields, named)
    last = call.last.compiled
    forms = last.forms
    assert forms is not None, last.reason
    return PassesOf(_after(forms, joined(last.reaches)), last.reaches, tuple(last.out_dtypes))


def _after(forms: Forms, reach: Box) -> Mapping[str, Kernel]:
    """The passes once more."""
    request = forms.request
    after = {"read": forms.read, "simplified": forms.simplified}
    after |= passed(STORED, after["simplified"], request, reach)
    after |= passed(ROWS, after["widened"], request, reach)
    return after | {"lowered": forms.lowered}


@contextmanager
def interpreted() -> Iterator[None]:
    """Run generated code as plain Python: what is first called within the block, and stays so.

    Plain Python takes a negative index from the end and cuts a slice that is too long, where
    machine code reads what lies before or after the array.  So the code gets no arrays of NumPy
    but such as refuse every index outside them; fields and coefficients also refuse to be
    written, and a place of a buffer to be read before it was written.  Kernels that are not
    understood are compiled by Numba as ever.

    Raises
    ------
    Outside
        Where code looked outside an array, or where nothing had been written.
    """
    load = cpu.loaded

    def as_python(compiled: Compiled) -> Loaded:
        if compiled.module.opaque:
            return load(compiled)
        kinds = list(cpu.kinds_of(compiled))
        if compiled.module.checked:
            # What it notes.
            kinds[-1] = dataclasses.replace(kinds[-1], mutable=True)
        return Loaded(_Interpreted(compiled.module.text, kinds))

    with _loading(as_python):
        yield


def forget() -> None:
    """Forget machine code that is in memory, as in a new process: it is read from disk again."""
    cpu._loaded.clear()
    cache._refused.clear()
    if cache._fallback.cache_info().currsize:
        shutil.rmtree(cache._fallback())
        cache._fallback.cache_clear()


def forget_device() -> None:
    """Forget GPUs, and what is loaded and settled for them, as in a new process."""
    for remembered in (
        driver.cupy, driver.compiler
    ):  # fmt: skip
        remembered.cache_clear()
    for known in (cubins._modules, on_device._uploaded, writing._sources, program._known):
        known.clear()


@contextmanager
def watched(watch: Callable[[Any, str, list[bool], bool], Any]) -> Iterator[None]:
    """Put `watch(function, text, writes, exact)` in the place of machine code loaded meanwhile.

    It is told which arguments the function writes, and whether its floats are exact.
    """
    load = cpu.loaded

    def loaded(compiled: Compiled) -> Loaded:
        found, module = load(compiled), compiled.module
        if as_plain_python():
            return found
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


class _Interpreted:
    """The function of a generated module, as plain Python."""

    def __init__(self, text: str, kinds: Sequence[Kind]) -> None:
        self._text, self._kinds = text, kinds

    def __call__(self, *arguments: Any) -> None:
        given = [
            Checked(one, f"argument {k}", kind.mutable) if kind.ndim else kind.dtype.type(one)
            for k, (one, kind) in enumerate(zip(arguments, self._kinds, strict=True))
        ]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _band(self._text)(*given)


class Outside(AssertionError):
    """Generated text looked outside an array, or where nothing had been written."""


class Checked:
    """An array for generated text, whose every index has to lie inside."""

    __slots__ = ("array", "length", "name", "shape", "size", "writeable", "written")

    def __init__(
        self, array: np.ndarray, name: str, writeable: bool, written: np.ndarray | None = None
    ) -> None:
        self.array = array
        self.name = name
        self.writeable = writeable
        self.written = written
        self.shape = array.shape
        self.size = array.size
        # Most of what is read are elements of rows: these are looked up without any detour.
        self.length = array.shape[0] if array.ndim == 1 else -1

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def itemsize(self) -> int:
        return self.array.itemsize

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and 0 <= index < self.length and self.written is None:
            return self.array[index]
        self.check(index)
        found = self.array[index]
        if isinstance(found, np.ndarray):
            written = None if self.written is None else self.written[index]
            return Checked(found, self.name, self.writeable, written)
        if self.written is not None and not self.written[index]:
            raise Outside(f"{self.name}[{index}] is read before it was written")
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        if not (type(index) is int and 0 <= index < self.length):
            self.check(index)
        if not self.writeable:
            raise Outside(f"{self.name}[{index}] is an input, and was written")
        self.array[index] = value.array if isinstance(value, Checked) else value
        if self.written is not None:
            self.written[index] = True

    def view(self, dtype: Any) -> Checked:
        """The elements as others of the same size."""
        return Checked(self.array.view(dtype), self.name, self.writeable, self.written)

    def reshape(self, shape: tuple[int, ...]) -> Checked:
        """The elements in another shape."""
        written = None if self.written is None else self.written.reshape(shape)
        return Checked(self.array.reshape(shape), self.name, self.writeable, written)

    def check(self, index: Any) -> None:
        if not isinstance(index, tuple):
            index = (index,)
        for one, length in zip(index, self.shape, strict=False):
            if isinstance(one, slice):
                first, last = one.start or 0, length if one.stop is None else one.stop
                inside = one.step is None and 0 <= first <= last <= length
            else:
                inside = 0 <= one < length
            if not inside:
                raise Outside(f"{self.name}[{index}] is outside of {self.shape}")
        if len(index) > len(self.shape):
            raise Outside(f"{self.name}[{index}] has {len(self.shape)} axes only")


class _NumPy:
    """NumPy for generated text: what is made is checked."""

    def __init__(self, copied: bool) -> None:
        self._copied = copied

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any = np.float64) -> Checked:
        made = np.zeros(shape, dtype)
        written = None if self._copied else np.zeros(made.shape, np.bool_)
        return Checked(made, "a buffer", writeable=True, written=written)

    @staticmethod
    def zeros(shape: Any, dtype: Any = np.float64) -> Checked:
        return Checked(np.zeros(shape, dtype), "a buffer", writeable=True)

    @staticmethod
    def array(values: Any, dtype: Any) -> Checked:
        return Checked(np.array(values, dtype=dtype), "a table", writeable=False)


@lru_cache
def _band(text: str) -> Callable[..., None]:
    """The function `band` of a generated module, not compiled, for arrays that are checked."""
    names: dict[str, Any] = {}
    text = re.sub(r"^@row_function.*\n", "", text, flags=re.MULTILINE)
    # Where tables are made, NumPy is in the place of NumPy already.
    code = compile(text.replace("import numpy as np\n", "np = numpy\n"), "<generated>", "exec")
    # Rows between which a border's rule stands are copied as a whole, with what nobody wrote.
    names["numpy"] = _NumPy("absent(" in text or "beyond(" in text)
    exec(in_numpy(code), names)
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
