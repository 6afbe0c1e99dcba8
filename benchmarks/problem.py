"""What a problem is: one row of the table, the arrays it is solved for, and who takes part."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .peers import Peer, Tolerance

IMAGES = ("uint8", "uint16", "float32", "float64")
FLOATS = ("float32", "float64")

# Types of which a large array on one thread tells enough: half or twice as wide as another one.
_RARE = ("uint16", "float64")

Shape = tuple[int, ...]

# In cache (an image of float64 with its result takes 4 MiB), and far beyond any.
PLANES = ((512, 512), (4096, 4096))


@dataclass(frozen=True, slots=True)
class Case:
    """One array that a problem is solved for."""

    dtype: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Problem:
    """One row of the table.

    `near` says how far the stencil looks along the last axes; as much is left out of the
    comparison with peers whose border is another.
    """

    name: str
    group: str  # the table that it stands in
    ours: Peer
    peers: tuple[Peer, ...]
    near: tuple[int, ...] = ()
    steps: int = 1  # how many times a call computes every point
    dtypes: tuple[str, ...] = IMAGES
    shapes: tuple[Shape, ...] = PLANES  # the largest is the last
    tiny: Shape = (40, 45)  # for the tests: enough for every window
    everybody: bool = False  # with two threads, peers that know one thread only take part as well
    span: float = 1.0  # floats are in 0..span
    share: float = 0.4  # seconds that the samples of each peer may take in all
    greatest: int | None = None  # integers are in 0..greatest; None: in all that the type holds
    tolerance: Tolerance = field(default_factory=Tolerance)
    threaded: ClassVar[bool] = True  # is measured on one thread, and on two

    def cases(self, threads: int = 1, quick: bool = False) -> Iterator[Case]:
        """The arrays of the problem; `quick` asks for the smallest one of the first type.

        Small arrays, and two threads on large ones, are of the common types only.
        """
        if quick:
            yield Case(self.dtypes[0], self.shapes[0])
            return
        for shape, dtype in itertools.product(self.shapes, self.dtypes):
            small = shape != self.shapes[-1]
            if threads > 1 and small:
                continue
            if (threads > 1 or small) and dtype in _RARE and len(self.dtypes) > 1:
                continue
            yield Case(dtype, shape)

    def measure(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Its cells, one for each array."""
        from . import measure

        for case in self.cases(order["threads"], order["quick"]):
            yield measure.solve(self, case, order["threads"], order["repeat"])

    @property
    def peer_names(self) -> list[str]:
        return list(dict.fromkeys(peer.name for peer in self.peers))


def array(problem: Problem, case: Case) -> np.ndarray:
    """Noise that fills the type, or what the problem allows of it, the same in every run.

    int8 holds no negative numbers, so that a peer that knows only uint8 can take the same bytes.
    """
    random = np.random.default_rng(9)
    dtype = np.dtype(case.dtype)
    if dtype.kind == "f":
        return random.random(case.shape, dtype=dtype.type) * dtype.type(problem.span)
    greatest = np.iinfo(dtype).max if problem.greatest is None else problem.greatest
    return random.integers(0, greatest, case.shape, dtype=dtype, endpoint=True)
