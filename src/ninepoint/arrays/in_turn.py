"""Groups, or nodes, one after the other, each bound when it is first done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .borders import Array
from .regions import Node
from .single import Given, Step
from .work import Group

# Which of them is bound, on values that are there, and arrays to write to.
Bind = Callable[[int, Mapping[int, Array], Mapping[int, Array]], Step]


class InTurn:
    """Some of them; gives what is `wanted` of what they make, and what is made lives no longer."""

    def __init__(self, items: Sequence[Group | Node], wanted: Sequence[int], bind: Bind) -> None:
        self._steps: list[Step | None] = [None] * len(items)
        self._wanted, self._bind = wanted, bind
        # What nobody reads after each of them.
        self._done: list[list[int]] = []
        known = {value for one in items for value in (*one.fields, *one.outputs)}
        for k in range(len(items)):
            later = {value for one in items[k + 1 :] for value in (*one.fields, *one.outputs)}
            self._done.append([*(known - later - set(wanted))])
            known &= later | set(wanted)

    def __call__(
        self, values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        known = dict(values)
        for k, step in enumerate(self._steps):
            if step is None:
                step = self._steps[k] = self._bind(k, known, outs)
            known.update(step(known, given, outs))
            for value in self._done[k]:
                known.pop(value, None)
        return {value: known[value] for value in self._wanted if value in known}

    def bound(self, values: Mapping[int, Array], outs: Mapping[int, Array]) -> list[Step]:
        """What does each of them, on values of which all are there."""
        return [self._bind(k, values, outs) for k in range(len(self._steps))]
