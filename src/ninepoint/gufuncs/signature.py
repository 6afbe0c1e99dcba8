"""The signature of a function of core arrays: which axes it takes, and which it gives.

"(n,k),(k,m)->(n,m)"    ->    inputs (n, k), (k, m); outputs (n, m)
"(3),(3)->(3)"                sizes that are fixed
"(n)->(n,bins)"               bins is new: no array has it, so it is told otherwise
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

# The sizes of the core axes of one array: names, or numbers as text.
Core: TypeAlias = tuple[str, ...]

_WORD = re.compile(r"\s*(->|\w+|\S|$)")


@dataclass(frozen=True)
class Signature:
    """What `parsed` read: the core axes of each input and of each output."""

    inputs: tuple[Core, ...]
    outputs: tuple[Core, ...]

    def __str__(self) -> str:
        return "->".join(
            ",".join(f"({','.join(core)})" for core in side)
            for side in (self.inputs, self.outputs)
        )

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The sizes, each once, in the order of the text; fixed ones among them."""
        cores = (*self.inputs, *self.outputs)
        return tuple(dict.fromkeys(name for core in cores for name in core))

    @functools.cached_property
    def apart(self) -> Core:
        """The sizes that only outputs have, fixed ones among them."""
        known = {name for core in self.inputs for name in core}
        return tuple(name for name in self.names if name not in known)

    @functools.cached_property
    def new(self) -> Core:
        """The names that only outputs have, which are told."""
        return tuple(name for name in self.apart if not name.isdecimal())

    @functools.cached_property
    def plain(self) -> Signature:
        """The same with names that NumPy, Numba and Dask read, and that are none of the user's."""
        words = {name: name if name.isdecimal() else f"d{k}" for k, name in enumerate(self.names)}
        inputs, outputs = (
            tuple(tuple(words[name] for name in core) for core in side)
            for side in (self.inputs, self.outputs)
        )
        return Signature(inputs, outputs)


def parsed(text: object) -> Signature:
    """Read a signature.

    Raises
    ------
    TypeError
        If it is no text.
    ValueError
        If it cannot be read; the message shows the place.
    """
    if callable(text):
        raise TypeError('a gufunc needs a signature; write @gufunc("(n)->()") and the like.')
    if not isinstance(text, str):
        raise TypeError(f'a signature is text such as "(n,k),(k,m)->(n,m)", not {text!r}.')
    reader = _Reader(text)
    inputs = tuple(reader.cores())
    reader.take("->", "the inputs end with '->'")
    outputs = tuple(reader.cores())
    reader.take("", "nothing follows the outputs")
    return Signature(inputs, outputs)


class _Reader:
    """Goes through the words of a signature, of which the last is empty."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = _WORD.finditer(text)
        self._next()

    def _next(self) -> None:
        found = next(self._words, None)
        if found is not None:
            self._word, self._at = found[1], found.start(1)

    def _error(self, reason: str) -> ValueError:
        return ValueError(
            f"the signature cannot be read: {reason}.\n"
            f"    {self._text}\n"
            f"    {' ' * self._at}^\n"
            '  Write the core axes of each array in parentheses, as in "(n,k),(k,m)->(n,m)".'
        )

    def take(self, word: str, reason: str) -> None:
        if not self._found(word):
            raise self._error(reason)

    def _found(self, word: str) -> bool:
        same = self._word == word
        if same:
            self._next()
        return same

    def cores(self) -> Iterator[Core]:
        """The arrays of one side."""
        yield self._core()
        while self._found(","):
            yield self._core()

    def _core(self) -> Core:
        self.take("(", "the axes of an array begin with '('")
        if self._found(")"):
            return ()
        names = [self._name()]
        while self._found(","):
            names.append(self._name())
        if self._word == "?":
            raise self._error("axes that may be missing are not known here")
        if self._word == "|":
            raise self._error("a core axis never broadcasts")
        self.take(")", "the axes of an array are divided by ',' and end with ')'")
        return tuple(names)

    def _name(self) -> str:
        name = self._word
        if not re.match(r"\w", name):
            raise self._error("a name or a number is missing")
        if name[0].isdecimal():
            if not (name.isascii() and name.isdecimal()) or int(name) < 1:
                raise self._error("a fixed size is a positive number")
            name = str(int(name))
        self._next()
        return name
