"""What a kernel is compiled to, and what is kept of it on disk.

    definition, types, request   ->   what was compiled of it in another process

So a kernel that was compiled once is neither read nor lowered in the next process.  What is kept
is named by all that it depends on, the files that compile among it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..base.frozen import frozen
from ..base.remembered import cached_property, digest
from ..language.dtypes import computed
from ..language.errors import Span
from ..language.ir import Box, DType, joined
from ..lowering.schedule import VERIFY, Request
from . import cache

if TYPE_CHECKING:
    from ..analysis.rewrite import How
    from ..language.ir import Kernel, Position

# What keeps a kernel from being a part of others.
LOOP = "a loop with other turns at each point"

# What only the CPU computes: it can be stopped there, and says where it read.
WATCHED = "a loop that may not end, or a read that may be outside its neighborhood"


@frozen
class Module:
    """Generated text with one function, `band`, that computes a block.

    `kept` is how many bytes of stages are kept for each column.  Text that is `checked` tells in a
    last argument that it read outside its neighborhood; `places` says where each of its reads
    stands.  It takes `shorts`, floats of 16 bits, as they are, or else as float32.  What is
    `opaque` has a way of its own to machine code, from the file where that is kept and what it is
    compiled to.
    """

    text: str
    kept: int = 0
    checked: bool = False
    places: tuple[str, ...] = ()
    shorts: bool = False
    opaque: Callable[[str, Any], Any] | None = field(default=None, compare=False)


# What a number is called, or the axis that it is the length along; and what makes of its value
# what machine code reads.
Number: TypeAlias = tuple[str | int, Callable[[Any], Any]]


@frozen
class Loaded:
    """The function of a text, and whether its machine code was on disk.

    The `entry` is given fields, outputs, coefficients and scalars, and computes ``outs[b, i]``
    from ``fields[b, i + o - lo]``, or with `every` from ``fields[b, every * i + o - lo]``,
    serially and without the GIL.  If it takes a `crew`, it also shares that among threads
    (`llvm.entries`).
    """

    entry: Callable[..., None]
    from_disk: bool = False
    crew: bool = False


@frozen
class Forms:
    """A kernel after one pass and the next, what was asked for, and the title of its text.

    `single` makes one row of the result after the other, which steps in a chain do; `hoisted` is
    what the text was written of.  `turn` writes it in another way as well (see `Compiled.turned`).
    """

    title: str
    simplified: Kernel
    stored: Kernel
    wholesome: Kernel
    single: Kernel
    lowered: Kernel
    hoisted: Kernel
    request: Request
    turn: Callable[[Compiled, How], Compiled | None]


@dataclass(frozen=True)
class Compiled:
    """A kernel for given types, and its text, which is compiled when it first runs.

    It is called with fields, outputs, coefficients and scalars, in the order of their names
    here.  The last fields are the `positions`, which no call gives.  Each output has a reach of
    its own.

    What `load` gives runs it.  The passes made the `lowering` of the kernel; one that was loaded
    from disk has none, and what compiles it `again`.  `unread` is the first piece of it that is
    not analysed, for some `reason`.  `control` is its first loop whose turns differ from point to
    point.  `pace` is how long a point took when that was last measured [s], or empty.  Its outputs
    are those of so many `phases`: the results at the first of the points around an element, then
    at the next one.
    """

    name: str
    fields: tuple[str, ...]
    coefficients: tuple[str, ...]
    scalars: tuple[str | int, ...]
    reaches: tuple[Box, ...]
    field_dtypes: tuple[np.dtype, ...]
    out_dtypes: tuple[np.dtype, ...]
    coefficient_types: tuple[tuple[np.dtype, int], ...]
    scalar_types: tuple[DType, ...]
    fastmath: bool
    module: Module
    load: Callable[[Compiled], Loaded] = field(repr=False, compare=False)
    positions: tuple[Position, ...] = ()
    # The step along each axis, where it computes some points only.
    every: tuple[int, ...] = ()
    lowering: Forms | None = field(default=None, repr=False, compare=False)
    again: Callable[[], Compiled] | None = field(default=None, repr=False, compare=False)
    unread: Span | None = None
    control: Span | None = None
    reason: str = ""
    phases: int = 1
    pace: list[float] = field(default_factory=list, init=False, repr=False, compare=False)
    # The other forms that were asked for (see `turned`).
    _turned: dict[How, Compiled | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def ndim(self) -> int:
        return self.reaches[0].ndim

    @property
    def placed(self) -> list[tuple[Position, np.dtype]]:
        """The positions with their types."""
        dtypes = self.field_dtypes[len(self.field_dtypes) - len(self.positions) :]
        return list(zip(self.positions, dtypes, strict=True))

    @property
    def reach(self) -> Box:
        """The box that holds every output's."""
        return joined(self.reaches)

    @property
    def alone(self) -> bool:
        """Whether it looks at no neighbour."""
        looks = any(any(box.lo) or any(box.hi) for box in self.reaches)
        return not looks and not self.every

    @property
    def at_points(self) -> bool:
        """Whether it looks at no neighbour along one axis, so that all axes are alike to it."""
        return self.ndim == 1 and self.alone

    @cached_property
    def _fresh(self) -> Compiled:
        """The same with all that it was made of."""
        return self if self.again is None else self.again()

    @property
    def forms(self) -> Forms | None:
        """What the passes made of it, as a GPU's text needs it; None if it is not analysed."""
        return self._fresh.lowering

    @property
    def as_part(self) -> Any:
        """The forms of what can be a part of another kernel; else the reason why it cannot."""
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

    @cached_property
    def loaded(self) -> Loaded:
        """Its machine code, compiled or loaded when it is first asked for."""
        return self.load(self)

    @property
    def ready(self) -> bool:
        """Whether this kernel's machine code was asked for already."""
        return "loaded" in vars(self)

    def turned(self, how: How) -> Compiled | None:
        """The same bits for arrays that lie in another way, if it has such a form.

        A number says how many lanes each column of a row has.  Of an order of the axes, axis k
        is axis `how[k]` of this one.
        """
        if how not in self._turned:
            fresh, forms = self._fresh, self.forms
            self._turned[how] = None if forms is None else forms.turn(fresh, how)
        return self._turned[how]

    @cached_property
    def takes(self) -> tuple[Sequence[Number], Sequence[Number]]:
        """The coefficients and the scalars that it is called with after its arrays.

        A length of the whole array, which only a call knows, has its axis for a name.
        """
        coefficients = [
            (name, partial(readable, dtype=computed(dtype)))
            for name, (dtype, _) in zip(self.coefficients, self.coefficient_types, strict=True)
        ]
        # Machine code takes Python's numbers.
        scalars = [
            (name, type(dtype.numpy.type().item()))
            for name, dtype in zip(self.scalars, self.scalar_types, strict=True)
        ]
        return coefficients, scalars


def readable(value: Any, dtype: np.dtype) -> np.ndarray:
    """The value of a coefficient array as machine code reads it; itself, if it is so already."""
    array = np.ascontiguousarray(value, dtype=dtype)
    return array if array.flags.aligned else array.copy()


# What is kept.


def recalled(name: str, token: str, key: Any, make: Callable[[], Compiled]) -> Compiled:
    """What `make` compiles, or what another process compiled of the same token for this key."""
    if VERIFY in os.environ:
        return make()
    file = _named(name, (token, key), "kernel")
    found = cache.recalled(file, lambda kept: replace(kept, again=make))
    if found is None:
        found = make()
        # What Numba compiles holds more than what its text says.
        if found.unread:
            return found
        cache.keep(file, replace(found, lowering=None))
    if not is_known(name, token):
        cache.keep(_named(name, token, "well"), None)
    return found


def is_known(name: str, token: str) -> bool:
    """Whether something of that token was compiled before, by any process."""
    # No folder is made to find that out.
    file = cache.folder() / _named(name, token, "well")
    return VERIFY not in os.environ and file.exists()


def _named(name: str, meaning: Any, suffix: str) -> str:
    return cache.named(name, f"{np.__version__} {cache.code()} {digest(meaning)}", suffix)
