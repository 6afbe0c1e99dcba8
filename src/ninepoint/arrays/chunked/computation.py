"""Computations: a program on fields that are cut, and the arrays of Dask that it gives.

whole cores   no axis that the program works along is cut: each block is computed by itself
reading       the fields are views of sources: each block reads what it needs
faces         each block is made of its chunk and of its neighbours' faces
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import dask.array as da
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from ..layout import Shape
from ..regions import Node
from .grid import Chunks, cut_as, grid_of
from .halos import axes_of, grouped
from .job import Job, Work
from .layer import Lazy, Symbolic
from .outputs import Output, outputs_of
from .places import meta_of
from .rules import Blocks, Field, Reads, Recut, Rules
from .sources import Source, readable

# Most of Dask's functions carry no annotations.
untyped: Any = da


@dataclass(eq=False)
class Computation:
    """A program on fields of a shape together, which are cut so; in Dask also as its `arrays`.

    On the client `layer` has the blocks, and `passed` names all arrays that it gives, and
    those that it passes by.  The same blocks may be made of what is `further` up.
    """

    work: Work
    shape: Shape
    chunks: Chunks
    fields: Sequence[Any] = ()
    arrays: Sequence[Any] = ()
    layer: Lazy | Symbolic | None = None
    passed: frozenset[str] = frozenset()
    further: Computation | None = None

    @cached_property
    def outputs(self) -> list[Output]:
        """What the wanted values are; raises where the program cannot be done on such fields."""
        return outputs_of(self.work, self.shape)

    @cached_property
    def identity(self) -> str:
        """Names the results: equal identities, equal elements."""
        arrays = [(array.name, array.dtype.str) for array in self.arrays]
        wanted = list(self.work.wanted)
        return str(tokenize(self.work.token, wanted, self.shape, self.chunks, arrays))

    def __dask_tokenize__(self) -> str:
        return self.identity

    @property
    def inputs(self) -> list[tuple[Any, Any, Any]]:
        """Each field, the same as an array of Dask, and the type that the program takes it as."""
        return list(zip(self.fields, self.arrays, self.work.field_dtypes, strict=True))

    @property
    def names(self) -> list[str]:
        """The names of the results."""
        name, count = self.work.name, len(self.outputs)
        if count == 1:
            return [f"{name}-{self.identity}"]
        return [f"{name}-{k}-{self.identity}" for k in range(count)]

    def rules(self, sources: Sequence[Source] | None = None, names: Sequence[str] = ()) -> Rules:
        """The rules of results, of blocks that read from sources or are made of chunks."""
        work, chunks, job = self.work, self.chunks, Job(self.work, self.shape)
        alone = not sources and takes_whole(work.nodes, self.arrays, chunks)
        groups = chunks if sources or alone else grouped(work, chunks)
        recut: list[Recut] = []
        blocks: Blocks | Reads
        if sources:
            blocks = Reads("", job, chunks, tuple(sources))
        else:
            blocks = Blocks("", job, groups, self._fields(groups, recut, alone), alone)
        pairs = [
            (one.chunks(groups) if alone else one.blocks(groups), one.chunks(chunks))
            for one in self.outputs
        ]
        names, many = names or self.names, len(pairs) > 1
        if not many and (alone or (groups == chunks and pairs[0][0] == pairs[0][1])):
            return Rules(recut, replace(blocks, name=names[0]), [])
        # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
        whole = f"{work.name}-all-{self.identity}"
        results = [
            Recut(name, whole, output.dtype, *pair, k if many else None)
            for k, (name, output, pair) in enumerate(zip(names, self.outputs, pairs, strict=True))
        ]
        return Rules(recut, replace(blocks, name=whole), results)

    def _fields(self, groups: Chunks, recut: list[Recut], alone: bool) -> tuple[Field, ...]:
        """The fields of blocks, of which some may be put together before."""
        axes = [] if alone else axes_of(self.work, groups)
        # A text: Dask takes long to go through many numbers.
        thick = repr([[axis.depths(k) for k in range(len(axis.cuts))] for axis in axes])
        fields = []
        for array, dtype in zip(self.arrays, self.work.field_dtypes, strict=True):
            source, own = array.name, array.chunks
            shape = tuple(map(sum, own))
            wanted, missing = cut_as(shape, groups), len(groups) - len(own)
            # A length that nobody knows is that of the whole.
            sizes = zip(shape, groups[missing:], strict=True)
            cut = (False,) * missing + tuple(n == sum(axis) or n != n for n, axis in sizes)
            if not alone and wanted != own:
                joined = f"joined-{tokenize(source, wanted)}"
                recut.append(Recut(joined, source, dtype, own, wanted))
                source = joined
            fields.append(Field(source, f"faces-{tokenize(source, cut, thick)}", len(own), cut))
        return tuple(fields)

    def results(self, rules: Rules) -> list[Any]:
        """The results as arrays of Dask."""
        recut, blocks, taken = rules
        made = [*recut, blocks, *taken]
        below = {name for rule in made for name in rule.below}
        graph = HighLevelGraph.merge(*(one.dask for one in self.arrays if one.name in below))
        layers: dict[str, Any] = {rule.name: Lazy(rule) for rule in made}
        needs = {rule.name: set(rule.below) for rule in made}
        if isinstance(blocks, Blocks) and blocks.alone:
            layers[blocks.name], nodes = blocks.whole()
            layers |= {key: MaterializedLayer({key: node}) for key, node in nodes.items()}
            needs[blocks.name] |= nodes.keys()
            needs |= {key: set() for key in nodes}
        self.layer = layers[blocks.name]
        self.passed = frozenset((blocks.name, *self.names))
        graph = HighLevelGraph({**graph.layers, **layers}, {**graph.dependencies, **needs})
        found = []
        for k, (name, output) in enumerate(zip(self.names, self.outputs, strict=True)):
            layers[name].origin, layers[name].position = self, k
            meta = meta_of(self.arrays[0], len(self.chunks), output.dtype)
            found.append(untyped.Array(graph, name, output.chunks(self.chunks), meta=meta))
        return found

    def compose(
        self,
        work: Work,
        inputs: Sequence[tuple[Any, ...]],
        passed: frozenset[str],
        known: Set[str],
    ) -> None:
        """Let the blocks be made from what is further up, where nobody asks for those `passed` by.

        That is done where they can read it, or it has chunks that the graph has.

        Parameters
        ----------
        work : Work
            A program that gives the same of other fields.
        inputs : sequence
            These fields; see `inputs`.
        passed : frozenset
            Names of arrays.
        known : set
            Names of the arrays that the graph has.
        """
        assert isinstance(self.layer, Lazy)
        own, fields = self.layer.rule, [field for field, _, _ in inputs]
        arrays = [array for _, array, _ in inputs]
        if grid_of(arrays)[0] != self.shape:
            # A longer one is cut where a call takes it with a shorter one.
            return
        one = Computation(work, self.shape, own.chunks, fields, arrays)
        sources = readable(work, fields, own.chunks)
        rule = one.rules(sources).blocks
        if not sources and (rule.chunks != own.chunks or not set(rule.below) <= known):
            return
        one.layer = Lazy(replace(rule, name=own.name))
        one.passed = self.passed | passed
        self.layer.further = one.layer, passed, bool(sources)
        self.further = one


def takes_whole(nodes: Sequence[Node], fields: Sequence[Any], whole: Chunks = ()) -> bool:
    """Whether each task has all that nodes look at along the axes that they work along.

    Every field is cut along the stack only, and all in the same way, as the whole is.
    """
    chunks = whole or grid_of(fields)[1]
    core = {len(chunks) + axis for node in nodes for axis in node.along}
    for own in [field.chunks for field in fields if hasattr(field, "chunks")]:
        for axis, sizes in enumerate(own, len(chunks) - len(own)):
            if axis in core:
                fits = len(sizes) == 1
            elif any(map(math.isnan, sizes)):
                fits = len(sizes) == len(chunks[axis])
            else:
                fits = sizes in (chunks[axis], (1,))
            if not fits:
                return False
    return all(len(chunks[axis]) == 1 for axis in core)
