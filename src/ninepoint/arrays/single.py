"""Single nodes: each call by itself, on what of its fields is there, bound once.

At open sides of a block a node gives as much less as it looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from ..backends.compiled import Bound
from ..language.box import Length
from . import phases
from .accepted import is_cupy
from .borders import Array, Border, Rule
from .every import thinned
from .executable import Executable, Run
from .ghosts import GhostCall
from .layout import Shape
from .numpy import whole_shape
from .regions import Node, closed
from .work import Indices, Spans, Work, take


@dataclass(frozen=True, slots=True)
class Given:
    """What calls are given beside arrays.

    `numbers` are coefficients and scalars of each node, by its first output; None where they are
    those of its call.  Functions at the border are told the `step` of an iteration.
    """

    numbers: Mapping[int, tuple[Sequence[Any], Sequence[Any]]] | None = None
    step: int | None = None


NOTHING = Given()

# Values, what is given besides, and arrays to write to, by number -> what is made of them.
Step: TypeAlias = Callable[[Mapping[int, Array], Given, Mapping[int, Array]], dict[int, Array]]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of nodes that are done as one: coefficients, then scalars.

    They are those of the program `bound`, or what calls are given for the nodes of which `members`
    are the first outputs; some are `lengths` of the arrays, by their places.
    """

    bound: Bound
    lengths: tuple[tuple[int, int], ...]
    members: Sequence[int]

    @staticmethod
    def of(program: Bound, core: Shape, nodes: Sequence[Node]) -> Numbers:
        """Those of nodes on arrays of a shape, along their axes."""
        scalars = enumerate(program.scalars, len(program.coefficients))
        lengths = [(place, core[one.axis]) for place, one in scalars if isinstance(one, Length)]
        return Numbers(program.within(core), tuple(lengths), [node.outputs[0] for node in nodes])

    def told(self, given: Given) -> Sequence[Any]:
        """What a call is told."""
        if given.numbers is None:
            return *self.bound.coefficients, *self.bound.scalars
        own = [given.numbers[k] for k in self.members]
        found = [one for coefficients, _ in own for one in coefficients]
        found += [one for _, scalars in own for one in scalars]
        for place, length in self.lengths:
            found[place] = length
        return found


@dataclass(frozen=True, slots=True)
class OneCall:
    """A call of one node, or of several as one, on arrays of one kind.

    It takes these `fields`, and with `targets` it writes to arrays that are there.
    """

    run: Run
    fields: tuple[tuple[int, Indices], ...]
    outputs: tuple[int, ...]
    numbers: Numbers
    targets: bool

    def __call__(
        self, values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        out = tuple([outs[value] for value in self.outputs]) if self.targets else None
        run, fields, numbers = self.run, self.inputs(values), self.numbers.told(given)
        if given.step is not None and isinstance(run, GhostCall):
            made = run(fields, numbers, out, run.boundary.after(given.step))
        else:
            made = run(fields, numbers, out)
        return dict(zip(self.outputs, made if isinstance(made, tuple) else (made,), strict=True))

    def inputs(self, values: Mapping[int, Array]) -> list[Array]:
        """The fields, of values."""
        return [take(values[value], indices) for value, indices in self.fields]


def bind_call(
    work: Work,
    node: Node,
    values: Mapping[int, Array],
    outs: Mapping[int, Array],
) -> Step:
    """What does one node, on values like these; notes where its results stand."""
    given, along = [values[value] for value in node.fields], node.along
    if node.thins and (not node.program.every or any(map(is_cupy, given))):
        full = {value: out for value, out in outs.items() if value not in node.outputs}
        return partial(_thinned, node, bind_call(work, node.full, values, full))
    border, taken = node.border, work.takes.get(id(node), ())
    pairs = []
    for value, one, whole in zip(
        node.fields, phases.cut_fields(given, node.fields, work.finer), given, strict=True
    ):
        indices = work.indices(value, one, taken, along)
        if one.shape != whole.shape:
            indices = (tuple(map(slice, one.shape)), *indices)
        pairs.append((value, indices))
    fields = [take(values[value], indices) for value, indices in pairs]
    spans: dict[int, Spans] = dict.fromkeys(node.outputs, ())
    if work.shape is not None:
        border = _opened(node, taken, work.shape)
        spans = _made_at(node, border, taken)
        work.at |= spans
    targets = [work.target(value, at, outs) for value, at in spans.items()]
    into: Any = None if any(one is None for one in targets) else tuple(targets)
    axes = None if along == tuple(range(-len(along), 0)) else along
    # Another array of this shape is as long.
    numbers = Numbers.of(node.program, work.core(whole_shape(fields), along), [node])
    program = numbers.bound
    run: Run
    if node.boundary.conditions:
        run = GhostCall(node, program, fields, border, work.threads)
    elif any(map(is_cupy, fields)):
        # Imported here: CuPy is optional, and the caller has it.
        from . import cuda

        run = cuda.Executable(cuda.single_call(program, border, node.cval), fields, into, axes)
    elif node.factors:
        run = phases.finer_call(node, program, fields, border, work.threads)
    else:
        run = Executable(program, fields, border, node.cval, axes, into, work.threads)
    return OneCall(run, tuple(pairs), node.outputs, numbers, into is not None)


def _thinned(
    node: Node,
    every: Step,
    values: Mapping[int, Array],
    given: Given,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    """Some of the points of what a step makes: copies, for nobody needs the rest of the memory."""
    made = every(values, given, outs)
    return {
        value: thinned(one, node.every, node.along).copy(order="K") for value, one in made.items()
    }


def _made_at(node: Node, border: Border, taken: Spans) -> dict[int, Spans]:
    """Where the results of a node stand, made of fields that stand so, by this border."""
    found = {}
    for value, reaches in zip(node.outputs, node.reaches, strict=True):
        spans = list(taken)
        for k, axis in enumerate(node.along):
            (first, last), (before, after) = spans[axis], border.rules[k]
            start = first - min(0, reaches.lo[k]) if before == "valid" else first
            stop = last - max(0, reaches.hi[k]) if after == "valid" else last
            spans[axis] = start, max(start, stop)
        found[value] = tuple(spans)
    return found


def _opened(node: Node, taken: Spans, shape: Shape) -> Border:
    """The border of a node on fields that stand so: open sides have no neighbours."""
    rules: list[tuple[Rule, Rule]] = []
    for axis, (before, after) in zip(node.along, node.border.rules, strict=True):
        low, high = closed(node, axis, taken[axis], shape[axis])
        rules.append((before if low else "valid", after if high else "valid"))
    return Border(tuple(rules))
