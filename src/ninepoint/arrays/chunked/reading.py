"""Reading: tasks that read from sources what a block needs, and compute it.

    source of each field     |           any array that can be sliced           |
    one task                            [--[  block  ]--]      read, run, give the block

No task depends on another one, so nothing is moved, the graph is a rule whatever the number of
chunks, and a thread holds the block that it reads and the one that it makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...backends.memory import empty
from ..blocks import parts, put_together
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Span
from .bound import computed
from .job import Job
from .sources import Source


@dataclass(frozen=True, slots=True)
class Field:
    """How a field is read: sliced as Dask does it, with its locks."""

    shape: Shape
    dtype: np.dtype[Any]
    getter: Any
    options: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(source: Source, dtype: np.dtype[Any]) -> Field:
        """How this source is read, as elements of a type."""
        return Field(source.shape, dtype, source.getter, source.options)

    def read(self, held: Any, spans: Sequence[Span], whole: Shape) -> Array:
        """What stands at some points of the whole, beyond whose ends it begins again."""
        axes = zip(self.shape, spans, whole[len(whole) - len(spans) :], strict=True)
        own = [parts((n,), [span], length)[0] for n, span, length in axes]
        return put_together(own, [_Sliced(self, held)], partial(empty, dtype=self.dtype))


@dataclass(frozen=True, slots=True)
class _Sliced:
    field: Field
    held: Any

    def __getitem__(self, index: tuple[slice, ...]) -> Array:
        found = self.field.getter(self.held, index, **dict(self.field.options))
        return np.asarray(found, self.field.dtype)


@dataclass(frozen=True, slots=True)
class Reading:
    """What every task of a program on sources runs.

    The results begin at `first`: under "valid" they have fewer points than the fields.
    """

    first: Shape
    fields: tuple[Field, ...]

    def __call__(self, job: Job, slices: tuple[slice, ...], *held: Any) -> Any:
        """Read what a block needs, and compute it."""
        start = tuple(s.start + a for s, a in zip(slices, self.first, strict=True))
        stop = tuple(s.stop + a for s, a in zip(slices, self.first, strict=True))

        def read(k: int, spans: Sequence[Span]) -> Array:
            return self.fields[k].read(held[k], spans, job.shape)

        return computed(job, Region(start, stop), [one.shape for one in self.fields], read)
