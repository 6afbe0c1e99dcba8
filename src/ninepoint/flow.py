"""Flow: how the numbers of a call come to the calls that its definition makes.

    def twice(x, r):                 twice(x, 0.25)
        s = heat(x, r)         ->        heat    r = 0.25
        return s[1] - r * s[0]           rest    r = 0.25

A program of these calls is prepared for the types of their numbers.  What a number comes to is
evaluated in each call; as long as its type stays the same, the program does as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from .arrays.keys import Key, kinds
from .calls import identity
from .definition import Definition

# For each recorded call, in order, the values of its scalars by name.
Leaves: TypeAlias = Sequence[Mapping[str, Any]]


class Flow:
    """The numbers of all calls that a definition makes.

    `called` are the definitions of these calls, in order.  Options of them that depend on numbers
    would have to be compared each time; it is `settled` if there are none.
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._places = tuple(
            (name, definition.parameters.index(name)) for name in definition.scalars
        )
        self.called = tuple(_called(definition))
        self.settled = _settled(self.called)
        self._known: tuple[Leaves, Key | None] | None = None

    def of(self, values: Sequence[Any]) -> tuple[Leaves, Key | None]:
        """Give the numbers of all calls, and what programs depend on of them, for arguments.

        The latter is None if programs cannot depend on them.
        """
        if self._known is not None:
            return self._known
        leaves = self.leaves({name: values[k] for name, k in self._places})
        found = leaves, leaves_key(leaves, self.called)
        if not self._places:
            self._known = found
        return found

    def leaves(self, scalars: Mapping[str, Any]) -> Leaves:
        """Give the numbers of all calls, for values of the definition's scalars."""
        return list(_leaves(self._definition, scalars))


@lru_cache(maxsize=256)
def flow_of(definition: Definition) -> Flow:
    """Give the flow of a definition, from memory if it was asked for before."""
    return Flow(definition)


def leaves_key(leaves: Leaves, called: Sequence[Definition]) -> Key | None:
    """Give what a program depends on of the numbers of its calls; None if it cannot."""
    key = kinds([value for leaf in leaves for value in leaf.values()])
    if key is not None and key and len(set(called)) < len(called):
        # Equal calls are done once.
        told = [tuple((n, identity(v)) for n, v in leaf.items()) for leaf in leaves]
        key += tuple([told.index(one) for one in told])
    return key


def _leaves(definition: Definition, scalars: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    stages = definition.stages
    if stages is not None:
        for one in stages.calls:
            callee = one.callee.definition
            assert isinstance(callee, Definition)
            given = stages.values(one.scalars, scalars) if one.scalars else {}
            yield from _leaves(
                callee,
                {n: given[n] if n in given else callee.defaults[n] for n in callee.scalars},
            )
    yield scalars


def _called(definition: Definition) -> Iterator[Definition]:
    if definition.stages is not None:
        for one in definition.stages.calls:
            callee = one.callee.definition
            assert isinstance(callee, Definition)
            yield from _called(callee)
    yield definition


def _settled(called: Sequence[Definition]) -> bool:
    return not any(
        name.id in one.scalars
        for one in called
        if one.stages is not None
        for call in one.stages.calls
        for option in call.options.values()
        for name in ast.walk(option)
        if isinstance(name, ast.Name)
    )
