"""Nodes one after the other, each bound when it is first done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .borders import Array
from .regions import Node
from .single import Given, Step, bind_call
from .work import Work


class InTurn:
    """Some nodes of a block one after the other; gives what is `wanted` of what they make."""

    def __init__(
        self,
        work: Work,
        nodes: Sequence[Node],
        wanted: Sequence[int],
        threads: int | None,
    ) -> None:
        self._steps: list[Step | None] = [None] * len(nodes)
        self._work, self._nodes = work, nodes
        self._wanted, self._threads = wanted, threads
        # What nobody reads after each node.
        self._done: list[list[int]] = []
        known = {value for node in nodes for value in (*node.fields, *node.outputs)}
        for k in range(len(nodes)):
            later = {value for node in nodes[k + 1 :] for value in node.fields}
            made = {value for node in nodes[k + 1 :] for value in node.outputs}
            self._done.append([*(known - later - made - set(wanted))])
            known = known & (later | made | set(wanted))

    def __call__(
        self, values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        known = dict(values)
        for k, step in enumerate(self._steps):
            if step is None:
                step = self._steps[k] = self._bind(k, known, outs)
            known.update(step(known, given, outs))
            for value in self._done[k]:
                del known[value]
        return {value: known[value] for value in self._wanted if value in known}

    def bound(self, values: Mapping[int, Array], outs: Mapping[int, Array]) -> list[Step]:
        """What does each of them, on values of which all are there."""
        return [self._bind(k, values, outs) for k in range(len(self._nodes))]

    def _bind(self, k: int, values: Mapping[int, Array], outs: Mapping[int, Array]) -> Step:
        node = self._nodes[k]
        return bind_call(self._work, node, node.outputs[:1], values, self._threads, outs)
