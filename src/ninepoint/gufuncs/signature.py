"""The signature of a function of core arrays: which axes it takes, and which it gives.

"(n,k),(k,m)->(n,m)"    ->    inputs (n, k), (k, m); outputs (n, m)
"(3),(3)->(3)"                sizes that are fixed
"(n)->(n,bins)"               bins is new: no array has it, so it is told otherwise
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

# The sizes of the core axes of one array: names, or numbers as text.
Core: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Signature:
    """What `parsed` read: the core axes of each input and of each output."""

    inputs: tuple[Core, ...]
    outputs: tuple[Core, ...]

    def __str__(self) -> str:
        return written(self.inputs, self.outputs)

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

    def for_numpy(self, scalars: int) -> tuple[list[Core], list[Core]]:
        """The core axes for NumPy and Numba, by names that these read.

        Inputs, so many numbers, then an array for each size that no input has.
        """
        words = {name: name if name.isdecimal() else f"d{k}" for k, name in enumerate(self.names)}
        cores = [*self.inputs, *((),) * scalars, *((name,) for name in self.apart)]
        inputs, outputs = (
            [tuple(words[name] for name in core) for core in side]
            for side in (cores, self.outputs)
        )
        return inputs, outputs


def written(inputs: Sequence[Core], outputs: Sequence[Core]) -> str:
    """The text of a signature."""
    return "->".join(
        ",".join(f"({','.join(core)})" for core in side) for side in (inputs, outputs)
    )


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
    if reader.rest:
        raise reader.error("nothing follows the outputs")
    return Signature(inputs, outputs)


class _Reader:
    """Goes through the text of a signature."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._skip()

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def error(self, reason: str) -> ValueError:
        return ValueError(
            f"the signature cannot be read: {reason}.\n"
            f"    {self.text}\n"
            f"    {' ' * self.at}^\n"
            '  Write the core axes of each array in parentheses, as in "(n,k),(k,m)->(n,m)".'
        )

    def take(self, word: str, reason: str) -> None:
        if not self.rest.startswith(word):
            raise self.error(reason)
        self.at += len(word)
        self._skip()

    def found(self, word: str) -> bool:
        if self.rest.startswith(word):
            self.take(word, "")
            return True
        return False

    def cores(self) -> Iterator[Core]:
        """The arrays of one side."""
        yield self._core()
        while self.found(","):
            yield self._core()

    def _core(self) -> Core:
        self.take("(", "the axes of an array begin with '('")
        names: list[str] = []
        if self.found(")"):
            return ()
        names.append(self._name())
        while self.found(","):
            names.append(self._name())
        if self.rest.startswith("?"):
            raise self.error("axes that may be missing are not known here")
        if self.rest.startswith("|"):
            raise self.error("a core axis never broadcasts")
        self.take(")", "the axes of an array are divided by ',' and end with ')'")
        return tuple(names)

    def _name(self) -> str:
        end = self.at
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        name = self.text[self.at : end]
        if not name:
            raise self.error("a name or a number is missing")
        if name[0].isdecimal():
            if not (name.isascii() and name.isdecimal()) or int(name) < 1:
                raise self.error("a fixed size is a positive number")
            name = str(int(name))
        self.at = end
        self._skip()
        return name

    def _skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
