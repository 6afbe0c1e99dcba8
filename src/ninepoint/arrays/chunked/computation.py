"""Computations: a program on fields that are cut, and the arrays of Dask that it gives.

whole cores   no axis that the program works along is cut: each task takes its chunks
regions       the fields are views of something that can be sliced: each task reads what it
              needs; chosen where that decodes little more than half more than the blocks alone
edges         each block is made of its chunk and of faces of its neighbours
rereading     the same of views of sources: a chunk is read for its block and once more for its
              faces, so that none is held until its neighbours are there
groups        the same on groups of chunks, where these are thin or fields are cut otherwise

What such a plan costs is said before anything is run (`costs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.delayed import delayed
from dask.highlevelgraph import HighLevelGraph

from ...base import limits
from ...base.remembered import cached_property
from .. import accepted
from ..accepted import is_cupy
from ..blocks import (
    Chunks,
    Job,
    Output,
    axes_of,
    cut_as,
    grid_of,
    grouped,
    lazy,
    meta_of,
    outputs_of,
    refuse_unknown,
    whole_of,
)
from ..layout import Shape
from ..regions import Node, Program, rings
from .costs import decoded
from .layer import Field, Lazy, Origin, Source, known

# Most of Dask's functions carry no annotations.
untyped: Any = da
untyped_delayed: Any = delayed


@dataclass(eq=False)
class Computation:
    """A program on `arrays` of Dask that have a shape together, which is cut so.

    On the client `layer` has the blocks, and `passed` names all arrays that it gives, and
    those that it passes by.  The same blocks may be made of what is `further` up.  Blocks read
    from `sources`, where there are some.  Chunks may have been `joined` before.  Results are cut
    as these `asked` for, and their names begin with a `title`, by default the program's.
    """

    program: Program
    shape: Shape
    chunks: Chunks
    arrays: Sequence[Any]
    sources: Sequence[Source] | None = None
    layer: Any = None
    passed: frozenset[str] = frozenset()
    further: Computation | None = None
    joined: bool = False
    asked: Chunks = ()
    title: str = ""

    @cached_property
    def outputs(self) -> list[Output]:
        """What the wanted values are; raises where the program cannot be done on such fields."""
        return outputs_of(self.program, self.shape)

    @cached_property
    def identity(self) -> str:
        """Names the results: equal identities, equal elements."""
        arrays = [(array.name, array.dtype.str) for array in self.arrays]
        wanted = list(self.program.wanted)
        return str(tokenize(self.program.token, wanted, self.shape, self.chunks, arrays))

    def __dask_tokenize__(self) -> str:
        return self.identity

    @property
    def inputs(self) -> list[tuple[Any, np.dtype]]:
        """Each field, and the type that the program takes it as."""
        return list(zip(self.arrays, self.program.field_dtypes, strict=True))

    @cached_property
    def alone(self) -> bool:
        """Whether no axis is cut that the program works along."""
        return takes_whole(self.program.nodes, self.arrays, self.chunks)

    @property
    def plan(self) -> str:
        """What it is called how tasks get what they need."""
        if self.alone or self.sources:
            return "regions" if self.sources else "whole cores"
        if self.joined:
            return "groups"
        return "edges" if self.held else "rereading"

    @property
    def fits(self) -> bool:
        """Whether all fields are cut so, and each block takes something of the next ones only."""
        alike = all(array.chunks == cut_as(array.shape, self.chunks) for array in self.arrays)
        return alike and grouped(self.program, self.chunks) == self.chunks

    def grouped(self) -> Computation:
        """The same in groups of chunks where these are thin, of which fields are put together."""
        groups = grouped(self.program, self.chunks)
        arrays = [cut_anew(array, cut_as(array.shape, groups)) for array in self.arrays]
        joined = any(
            known(after, "source") is None and before.chunks != after.chunks
            for before, after in zip(self.arrays, arrays, strict=True)
        )
        return Computation(self.program, self.shape, groups, arrays, joined=joined)

    @cached_property
    def rereads(self) -> bool:
        """Whether chunks of views of sources are read twice, since too many would wait."""
        views = [array.nbytes for array in self.arrays if known(array, "source")]
        return self.waiting(views) > limits.current.held_bytes

    @property
    def held(self) -> list[Any]:
        """The arrays of which blocks are given chunks."""
        return [one for one in self.arrays if not (self.rereads and known(one, "source"))]

    def waiting(self, sizes: Sequence[float]) -> int:
        """Of so many bytes of chunks or faces those that wait for others: about two layers."""
        cut = [sizes for sizes in self.chunks if len(sizes) > 1]
        if self.alone or not cut:
            return 0
        part = min(1.0, 2 * max(cut[0]) / max(1, sum(cut[0])))
        return math.ceil(part * sum(sizes))

    @property
    def waits(self) -> int:
        """How many bytes of what others have made wait until the blocks around them are there."""
        return self.waiting([one.nbytes for one in self.arrays if known(one, "source") is None])

    @cached_property
    def makers(self) -> list[Origin | None]:
        """What makes each field; None for what is no result."""
        return [maker(array) for array in self.arrays]

    @property
    def names(self) -> list[str]:
        """The names of the results, as they are cut in blocks."""
        name, count = self.title or self.program.name, len(self.outputs)
        if count == 1:
            return [f"{name}-{self.identity}"]
        return [f"{name}-{k}-{self.identity}" for k in range(count)]

    def blocks(self, name: str = "") -> Lazy:
        """The rule of blocks that read from sources, or are made of chunks of fields cut so."""
        # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
        many = f"{self.title or self.program.name}-all-{self.identity}"
        name = name or (self.names[0] if len(self.outputs) == 1 else many)
        job = Job(self.program, self.shape, tuple([array.shape for array in self.arrays]))
        if self.sources:
            return Lazy(name, job, self.chunks, tuple(self.sources))
        axes = [] if self.alone else axes_of(self.program, self.chunks)
        # A text: Dask takes long to go through many numbers.
        thick = repr([axis.faces for axis in axes])
        fields = []
        for array in self.arrays:
            pairs = zip(array.shape, self.shape[len(self.shape) - array.ndim :], strict=True)
            # A length that nobody knows is that of the whole.
            cut = tuple(own == n or own != own for own, n in pairs)
            faces = f"faces-{tokenize(array.name, cut, thick)}"
            source = known(array, "source")
            again = source is not None and self.rereads
            fields.append(Field(array.name, faces, cut, source, again))
        return Lazy(name, job, self.chunks, tuple(fields))

    def results(self, chunks: Chunks) -> list[Any]:
        """The results as arrays of Dask, cut as these chunks of the fields."""
        rule, axes = self.blocks(), tuple(range(len(self.chunks)))
        metas = [meta_of(self.arrays[0], len(axes), output.dtype) for output in self.outputs]
        if self.alone:
            job: Any = rule.job
            if rule.given:
                job = untyped_delayed(job, name=rule.given, traverse=False)
            pairs = [one for a in self.arrays for one in (a, axes[len(axes) - a.ndim :])]
            blocks = _whole(whole_of, axes, job, None, *pairs, name=rule.name, meta=metas[0])
        else:
            below = [] if self.sources else self.held
            graph = HighLevelGraph.from_collections(rule.name, rule, below)
            blocks = untyped.Array(graph, rule.name, self.chunks, meta=metas[0])
        self.layer, self.asked = blocks.dask.layers[rule.name], chunks
        self.passed = frozenset((rule.name, *self.names))
        found = []
        for k, (name, output) in enumerate(zip(self.names, self.outputs, strict=True)):
            one = blocks
            if len(self.outputs) > 1:
                one = _whole(getitem, axes, blocks, axes, k, None, name=name, meta=metas[k])
            own = output.chunks if self.alone else output.blocks
            array = untyped.Array(one.dask, name, own(self.chunks), meta=metas[k])
            if not self.alone or self.chunks != chunks:
                array = array.rechunk(output.chunks(chunks), method="tasks")
            array.dask.layers[array.name].origin = Origin(self, k)
            self.passed |= {array.name}
            found.append(array)
        return found


def _whole(*arguments: Any, **options: Any) -> Any:
    """An array each block of which is made of those at its place; see `dask.array.blockwise`."""
    return untyped.blockwise(*arguments, align_arrays=False, **options)


def lazily(program: Program, fields: Sequence[Any]) -> list[Any]:
    """Give the wanted values as lazy arrays, in the chunks of the fields.

    Parameters
    ----------
    program : Program
    fields : sequence
        Dask arrays, at least one, and arrays of NumPy, each with all axes that the nodes work
        along.

    Raises
    ------
    ValueError
        As for NumPy arrays, and if a field has chunks of unknown size.
    """
    shape, chunks = grid_of(fields)
    arrays = [as_array(field, chunks) for field in fields]
    one = Computation(program, shape, chunks, arrays)
    if not one.alone:
        for field in arrays:
            # A block has a place, which is not known behind such a chunk.
            refuse_unknown(field)
        one.sources = readable(program, arrays, chunks)
        if not one.sources:
            one = one.grouped()
    return one.results(chunks)


def takes_whole(nodes: Sequence[Node], fields: Sequence[Any], whole: Chunks = ()) -> bool:
    """Whether each task has all that nodes look at along the axes that they work along.

    Every field is cut along the stack only, and all in the same way, as the whole is.
    """
    chunks = whole or grid_of(fields)[1]
    core = {axis for node in nodes for axis in node.works_along}
    for own in [chunks, *(field.chunks for field in fields if hasattr(field, "chunks"))]:
        for axis, sizes in enumerate(own, -len(own)):
            if axis in core:
                fits = len(sizes) == 1
            elif any(map(math.isnan, sizes)):
                fits = len(sizes) == len(chunks[axis])
            else:
                fits = sizes in (chunks[axis], (1,))
            if not fits:
                return False
    return True


# Sources: what an array is a plain view of, and what reading it costs.  Tasks that read from them
# take of each what their block looks at, and depend on nothing: nothing is moved.  What lies
# around a block is decoded again for each block that looks at it: `decoded` tells that price.

# An array of NumPy is one node of the graph up to this size [bytes], which a worker fetches once
# and keeps; a larger one is cut, as Dask does it.
WHOLE = 2**26


def as_array(field: Any, chunks: Chunks) -> Any:
    """A field as an array of Dask, cut as the whole is; one of NumPy is a source, if not large."""
    if type(field) is not np.ndarray or field.nbytes > WHOLE:
        return lazy(field, chunks, da)
    # As it is now: elements may change before a task reads them.
    field = accepted.as_field(field).copy()
    own = cut_as(field.shape, chunks)
    name = f"array-{tokenize(field, own)}"
    return Source(field, field.shape, field.dtype, (1,) * field.ndim, name).view(own)


def readable(program: Program, arrays: Sequence[Any], chunks: Chunks) -> list[Source] | None:
    """What blocks may read, where little is decoded twice; None where they may not."""
    axes = enumerate(chunks, -len(chunks))
    if any(len(sizes) > 1 and len(rings(program.nodes, axis)) > 1 for axis, sizes in axes):
        # No block of neighbours serves calls that take an axis as a ring and others.
        return None
    sources = [known(array, "source") for array in arrays]
    if None in sources:
        return None
    own, read = decoded(program, sources, chunks)
    return sources if read <= limits.current.decoded_ratio * own else None


def cut_anew(array: Any, chunks: Chunks) -> Any:
    """An array in other chunks: a view of its source, or chunks put together by Dask."""
    source = known(array, "source")
    if source is None or array.chunks == chunks:
        made = array.rechunk(chunks, method="tasks")
        if origin := known(array, "origin"):
            made.dask.layers[made.name].origin = origin
        return made
    return replace(source, name=f"view-{tokenize(source.name, chunks)}").view(chunks)


def maker(array: Any) -> Origin | None:
    """What makes an array, as far up as nobody else asks for what is between."""
    found: Origin | None = known(array, "origin")
    return found and Origin(found.computation.further or found.computation, found.which)


def chain(
    last: Computation, there: Callable[[Computation], bool] = lambda one: False
) -> list[Computation]:
    """What is to be done for the last one, each after what it is made from.

    Those of which the results are `there` begin it.
    """
    order: dict[Computation, None] = {}
    asked = [last]
    while asked:
        one = asked[-1]
        makers = [] if there(one) else [made.computation for made in one.makers if made]
        before = [other for other in makers if other not in order]
        asked += before
        if not before:
            order[asked.pop()] = None
    return list(order)


def recut(array: Any, chunks: Chunks) -> Any:
    """Give the results of a program that reads sources in other chunks, where that can be.

    Its tasks then read other regions, and nothing is moved; other arrays are given as they are,
    and those of which pieces would be decoded for several blocks each.
    """
    origin = known(array, "origin")
    if origin is None or array.chunks == chunks:
        return array
    own, which = origin.computation, origin.which
    for one in (own.further, own):
        if one is None or one.alone or one.outputs[which].chunks(chunks) != chunks:
            continue
        sources = [known(field, "source") for field in one.arrays]
        if None in sources:
            continue
        now, then = (decoded(one.program, sources, cut)[0] for cut in (one.chunks, chunks))
        if then <= limits.current.decoded_ratio * now:
            fields = [cut_anew(field, cut_as(field.shape, chunks)) for field in one.arrays]
            return lazily(one.program, fields)[which]
    return array


def taken_to(fields: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """Give arrays of the CPU's memory as chunks that lie on a GPU, as those of fields do."""
    there = [field for field in fields if isinstance(field, da.Array) and is_cupy(field._meta)]
    if not there:
        return list(arrays)
    _, chunks = grid_of(there)
    like = there[0]
    return [
        lazy(array, chunks, da).map_blocks(
            _uploaded, dtype=array.dtype, meta=meta_of(like, array.ndim, array.dtype)
        )
        for array in arrays
    ]


def _uploaded(block: Any) -> Any:
    """Give a chunk on the GPU."""
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda import driver

    return driver.uploaded(np.asarray(block))
