"""What a kernel is compiled to, for whichever back end, and with values for its scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..language.box import Box, joined
from ..language.dtypes import DType, computed
from ..language.errors import Span
from ..language.positions import Length
from ..undisturbed import Later
from .backend import Backend, Lowered, Module, Written
from .elements import Elements
from .repeated import Held
from .threads import handoff, run_parts

if TYPE_CHECKING:
    from ..language.ir import Kernel
    from ..lowering import lanes as turning
    from ..lowering import passes, sharing
else:
    # What is loaded from disk needs none of these.
    passes = Later("..lowering.passes", __package__)
    sharing = Later("..lowering.sharing", __package__)
    turning = Later("..lowering.lanes", __package__)


# What keeps a kernel from being a part of others.
LOOP = "a loop with other turns at each point"

# What only the CPU computes: it can be stopped there, and says where it read.
WATCHED = "a loop that may not end, or a read that may be outside its neighborhood"


@dataclass(frozen=True, slots=True)
class Compiled(Lowered):
    """A kernel for given types, its text, and the back end that makes something to call of it.

    The text was made of what is `written`, if that can be written in another way as well.
    `unread` is the first piece of it that is not analysed, for some `reason`; `factor` says how
    many times as long it takes.  `control` is its first loop whose turns differ from point to
    point.  `pace` is how long a point took when that was last measured [s], or empty.  Its outputs
    are those of so many `phases`: the results at the first of the points around an element, then
    at the next one.
    """

    module: Module
    backend: Backend
    written: Written | None = field(default=None, repr=False, compare=False)
    unread: Span | None = None
    control: Span | None = None
    reason: str = ""
    factor: str = ""
    phases: int = 1
    _forms: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)
    # What compiles it anew, of one that was loaded; then what that gave.
    _again: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)
    _entry: list[Callable[..., None]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    _takes_commands: list[bool] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    pace: list[float] = field(default_factory=list, init=False, repr=False, compare=False)
    _elements: list[Elements | None] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    # The same for stacks that lie innermost, by the number of lanes; 0 stands for any number.
    # And for axes that lie in another order, by that.
    _with_lanes: dict[int | tuple[int, ...], Compiled | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def made_again(self, make: Callable[[], Compiled]) -> Compiled:
        """The same, which was loaded: what it does not hold is that of one that `make` gives."""
        made = replace(self)
        made._again.append(make)
        return made

    def _fresh(self) -> Compiled:
        """The same with all that it was made of."""
        if not self._again:
            return self
        if not isinstance(self._again[0], Compiled):
            self._again[0] = self._again[0]()
        fresh: Compiled = self._again[0]
        return fresh

    @property
    def forms(self) -> Any:
        """What the passes made of it, as a GPU's text needs it; None if it is not analysed."""
        forms = self._fresh()._forms
        return forms[0] if forms else None

    @property
    def as_part(self) -> Any:
        """The same, of what can be a part of another kernel; else the reason why it cannot."""
        if self.control is not None:
            return LOOP
        return self.forms or f"{self.reason}, which is not analysed"

    @property
    def cpu_only(self) -> tuple[Span, str] | None:
        """Where it holds what only the CPU computes, and what that is; None if a GPU does, too."""
        if self.unread is not None:
            return self.unread, self.reason
        if not self.module.checked:
            return None
        assert self.control is not None
        return self.control, WATCHED

    def formed(self, forms: Any) -> None:
        """Hold what the passes made of it."""
        self._forms.append(forms)

    @property
    def entry(self) -> Callable[..., None]:
        """What computes a block: called with fields, outputs, coefficients and scalars.

        Compiled when it is first asked for, and remembered here: looking it up in the cache
        by its text takes 15 us.
        """
        if not self._entry:
            self._entry.append(self.backend.load(self, self.module))
        return self._entry[0]

    @property
    def ready(self) -> bool:
        """Whether this kernel's machine code was asked for already."""
        return bool(self._entry)

    @property
    def takes_commands(self) -> bool:
        """Whether it also takes whole arrays, with commands (see `arrays.commands`)."""
        if not self._takes_commands:
            _ = self.entry
            self._takes_commands.append(self.backend.takes_commands(self, self.module))
        return self._takes_commands[0]

    @property
    def elements(self) -> Elements | None:
        """The same as a function of NumPy's, if it looks at the point alone and has no arrays.

        It takes fields, then numbers, whose types are exact; see `Elements`.
        """
        if not self._elements:
            self._elements.append(self._made_for_elements())
        return self._elements[0]

    def _made_for_elements(self) -> Elements | None:
        alone = self.ndim == 1 and self.alone
        lengths = any(isinstance(one, Length) for one in self.scalars)
        if not alone or lengths or self.coefficients or not self.takes_commands:
            return None
        loop = self.backend.elements(self.entry)
        numbers = (one.numpy for one in self.scalar_types)
        inputs = (*self.field_dtypes, *map(np.dtype, numbers))
        types = (*inputs, *self.out_dtypes)
        # NumPy's functions take no more, and no types of other packages.
        if not loop or len(types) > 32 or any(dtype.isbuiltin == 2 for dtype in types):
            return None
        return Elements(loop, inputs, self.out_dtypes, self.name)

    def interleaved(self, lanes: int) -> Compiled | None:
        """The same on rows in which each column has so many lanes, if it has such a form."""
        if lanes not in self._with_lanes:
            self._with_lanes[lanes] = self._made_interleaved(lanes)
        return self._with_lanes[lanes]

    def levelled(self) -> Compiled | None:
        """The same with one more axis, along which nothing looks, if it has such a form."""
        if 0 not in self._with_lanes:
            self._with_lanes[0] = self._made_levelled()
        return self._with_lanes[0]

    def transposed(self, order: tuple[int, ...]) -> Compiled | None:
        """The same with its axes in another order, if it has such a form: its bits are the same.

        Its axis k is axis `order[k]` of this one.
        """
        if order not in self._with_lanes:
            self._with_lanes[order] = self._made_transposed(order)
        return self._with_lanes[order]

    def _made_transposed(self, order: tuple[int, ...]) -> Compiled | None:
        written = self._fresh().written
        if written is None or self.positions:
            return None
        turn = turning.transposed(order)
        single = turn.kernel(written.single)
        if single is None:
            return None
        title, schedule = f"{written.title}, transposed", written.schedule
        kernel = sharing.merged(sharing.shared(single, schedule))
        every = turn.offset(self.every) if self.every else ()
        kernel = replace(kernel, every=every) if every else self.backend.schedule(kernel, schedule)
        reaches = tuple(map(turn.box, self.reaches))
        made = self._of(title, kernel, None, reaches)
        # Rows are others now.
        basis = Written(title, kernel, None, single, schedule)
        return replace(made, written=basis, every=every, in_row=())

    def _made_interleaved(self, lanes: int) -> Compiled | None:
        written = self._fresh().written
        if written is None:
            return None
        turn = turning.interleaved(lanes)
        kernel = turn.kernel(written.kernel)
        together = written.together and turn.kernel(written.together)
        if kernel is None:
            return None
        reaches = tuple(map(turn.box, self.reaches))
        return self._of(f"{written.title}, {lanes} lanes", kernel, together, reaches)

    def _made_levelled(self) -> Compiled | None:
        written = self._fresh().written
        kernel = None if written is None else turning.LEVELLED.kernel(written.single)
        if written is None or kernel is None:
            return None
        # Neighbours are in other rows now, so that it is chosen anew what is kept of them.
        kernel = sharing.merged(sharing.shared(kernel, written.schedule))
        kernel = self.backend.schedule(kernel, written.schedule)
        reaches = tuple(map(turning.LEVELLED.box, self.reaches))
        return self._of(f"{written.title}, levels last", kernel, None, reaches)

    def _of(
        self, title: str, kernel: Kernel, together: Kernel | None, reaches: tuple[Box, ...]
    ) -> Compiled:
        """What another form of the kernel is compiled to."""
        reach = joined(reaches)
        module = self.backend.text(
            passes.checked(kernel, reach),
            title,
            reach,
            together=together,
            fastmath=self.fastmath,
            dtypes=self.out_dtypes,
        )
        return replace(self, module=module, reaches=reaches, written=None)

    def from_disk(self) -> bool:
        """Whether the machine code, which is there, was loaded rather than compiled."""
        return self.backend.from_disk(self, self.module)

    def bind(self, values: Mapping[str, Any]) -> Bound:
        """The kernel with values for its scalars and coefficients."""
        coefficients = tuple(
            readable(values[name], computed(dtype))
            for name, (dtype, _) in zip(self.coefficients, self.coefficient_types, strict=True)
        )
        scalars = tuple(
            name
            if isinstance(name, Length)
            else int(values[name])
            if dtype.is_integer and dtype is not DType.BOOL
            else dtype.numpy.type(values[name]).item()
            for name, dtype in zip(self.scalars, self.scalar_types, strict=True)
        )
        return Bound(self, coefficients, scalars)


def readable(value: Any, dtype: np.dtype) -> np.ndarray:
    """The value of a coefficient array as machine code reads it; itself, if it is so already."""
    array = np.ascontiguousarray(value, dtype=dtype)
    return array if array.flags.aligned else array.copy()


@dataclass(frozen=True, slots=True)
class Bound:
    """A compiled kernel whose scalars are known: runs on blocks that hold every neighbour.

    Lengths of the whole array are known once `within` has told them.
    """

    compiled: Compiled
    coefficients: tuple[np.ndarray, ...] = field(compare=False)
    scalars: tuple[Any, ...]

    @property
    def ndim(self) -> int:
        return self.compiled.ndim

    @property
    def reaches(self) -> tuple[Box, ...]:
        return self.compiled.reaches

    def within(self, core: tuple[int, ...]) -> Self:
        """The same kernel for a whole array of this shape, unless it has been told of another."""
        if not any(isinstance(value, Length) for value in self.scalars):
            return self
        known = tuple(core[v.axis] if isinstance(v, Length) else v for v in self.scalars)
        return replace(self, scalars=known)

    def with_numbers(self, numbers: Sequence[Any]) -> Bound:
        """The same kernel with other coefficients and scalars, which must be of their types."""
        count = len(self.coefficients)
        return Bound(self.compiled, tuple(numbers[:count]), tuple(numbers[count:]))

    def interleaved(self, lanes: int) -> Self | None:
        """The same kernel on rows in which each column has so many lanes, if it has that form."""
        found = self.compiled.interleaved(lanes)
        return None if found is None else replace(self, compiled=found)

    def transposed(self, order: tuple[int, ...]) -> Self | None:
        """The same kernel with its axes in another order, if it has that form."""
        found = self.compiled.transposed(order)
        return None if found is None else replace(self, compiled=found)

    def levelled(self) -> Self | None:
        """The same kernel with one more axis, along which nothing looks, if it has that form."""
        found = self.compiled.levelled()
        return None if found is None else replace(self, compiled=found)

    @property
    def entry(self) -> Callable[..., None]:
        """What computes a block, called with all numbers besides."""
        return self.compiled.entry

    @property
    def every(self) -> tuple[int, ...]:
        """Along each axis, of how many points it computes one; nothing if it computes all."""
        return self.compiled.every

    @property
    def in_row(self) -> tuple[bool, ...]:
        """Of each field whether it is read in the row of a result only; nothing if unknown."""
        return self.compiled.in_row

    @property
    def takes_commands(self) -> bool:
        """Whether it takes whole arrays with commands, whatever the neighbours are."""
        return self.compiled.takes_commands

    @property
    def pace(self) -> list[float]:
        """How long a point took when that was last measured [s], or nothing."""
        return self.compiled.pace

    @property
    def warm(self) -> int:
        """Rows that are made before the first row of the result, over and over for each run."""
        return self.compiled.module.warm

    @property
    def field_dtypes(self) -> tuple[np.dtype, ...]:
        return self.compiled.field_dtypes

    @property
    def positions(self) -> int:
        """How many of the fields, the last ones, are positions."""
        return len(self.compiled.positions)

    @property
    def along(self) -> tuple[int, ...]:
        """The axis along which each position has other elements; nothing if all are read."""
        return self.compiled.along

    @property
    def out_dtypes(self) -> tuple[np.dtype, ...]:
        return self.compiled.out_dtypes

    def run(
        self,
        fields: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        told: np.ndarray | None = None,
    ) -> None:
        """Compute outs[b, i...] from fields[b, i + o - lo...], serially, without the GIL.

        With commands the arrays are whole ones (see `arrays.commands`).
        """
        more = () if told is None else (told,)
        self.compiled.entry(*fields, *outs, *self.coefficients, *self.scalars, *more)

    @property
    def takes_elements(self) -> bool:
        """Whether it looks at no neighbour and takes elements that lie anywhere."""
        return self.compiled.elements is not None

    def run_elements(self, fields: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
        """Compute arrays of any strides, by NumPy's own loops around the machine code."""
        elements = self.compiled.elements
        assert elements is not None
        elements.call(*fields, *self.scalars, out=tuple(outs))
        elements.check()

    @property
    def handoff(self) -> float:
        """How long it takes to share lists of commands among threads [s]."""
        return handoff(self.compiled.backend.together(self.compiled.entry))

    def held(
        self,
        fields: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        lists: Sequence[np.ndarray],
    ) -> Held | None:
        """What machine code needs to carry out lists of commands again and again, if it can."""
        together = self.compiled.backend.together(self.compiled.entry)
        if together is None:
            return None
        return Held(together, (*fields, *outs, *self.coefficients, *self.scalars), lists)

    def run_parts(
        self,
        fields: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        lists: Sequence[np.ndarray],
        threads: int,
    ) -> None:
        """Carry out lists of commands, shared among threads; they must end soon."""
        entry = self.compiled.entry
        together = self.compiled.backend.together(entry)
        arguments = (*fields, *outs, *self.coefficients, *self.scalars)
        run_parts(entry, together, arguments, lists, threads)
