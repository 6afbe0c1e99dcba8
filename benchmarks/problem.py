"""What a problem is: one row of the table, the arrays it is solved for, and who takes part."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .peers import Peer, Tolerance

IMAGES = ("uint8", "uint16", "float32", "float64")
FLOATS = ("float32", "float64")

Shape = tuple[int, ...]

# In cache (an image of float64 with its result takes 4 MiB), and far beyond any.
PLANES = ((512, 512), (4096, 4096))
VOLUMES = ((64, 64, 64), (384, 384, 384))
LINES = ((1 << 15,), (1 << 24,))


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
    ours: Peer
    peers: tuple[Peer, ...]
    near: tuple[int, ...]
    group: str = "filters"  # the table that it stands in
    steps: int = 1  # how many times a call computes every point
    dtypes: tuple[str, ...] = IMAGES
    shapes: tuple[Shape, ...] = PLANES
    tiny: Shape = (40, 45)  # for the tests: enough for every window
    everybody: bool = False  # with two threads, peers that know one thread only take part as well
    span: float = 1.0  # floats are in 0..span
    share: float = 0.6  # seconds that the samples of each peer may take in all
    greatest: int | None = None  # integers are in 0..greatest; None: in all that the type holds
    tolerance: Tolerance = field(default_factory=Tolerance)

    def cases(self, quick: bool = False) -> Iterator[Case]:
        """Every array of the problem; `quick` asks for the smallest one of the first type."""
        if quick:
            yield Case(self.dtypes[0], self.shapes[0])
            return
        for shape, dtype in itertools.product(self.shapes, self.dtypes):
            yield Case(dtype, shape)


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
