"""The signature of a function of core arrays: which axes it takes, and which it gives.

"(n,k),(k,m)->(n,m)"    ->    inputs (n, k), (k, m); outputs (n, m)
"(3),(3)->(3)"                sizes that are fixed
"(n)->(n,bins)"               bins is new: no array has it, so it is told otherwise
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TypeAlias

# The sizes of the core axes of one array: names, or numbers as text.
Core: TypeAlias = tuple[str, ...]

_WORD = re.compile(r"\s*(->|\w+|\S|$)")
_SIZE = re.compile(r"0*[1-9][0-9]*|[^\W\d]\w*")

# What may stand at a place of a signature, in the words of what is said if something else does.
_WANTED = {
    "array": "the axes of an array begin with '('",
    "first": "a name or a number is missing",
    "axis": "a name or a number is missing",
    "within": "the axes of an array are divided by ',' and end with ')'",
    "inputs": "the inputs end with '->'",
    "outputs": "nothing follows the outputs",
}
_UNKNOWN = {
    "?": "axes that may be missing are not known here",
    "|": "a core axis never broadcasts",
}


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
    sides: list[list[Core]] = [[]]
    core: list[str] = []
    place = "array"
    for found in _WORD.finditer(text):
        word = found[1]
        match place, word:
            case "array", "(":
                core, place = [], "first"
            case (("first" | "axis"), _) if _SIZE.fullmatch(word):
                core.append(str(int(word)) if word.isdecimal() else word)
                place = "within"
            case "within", ",":
                place = "axis"
            case (("first" | "within"), ")"):
                sides[-1].append(tuple(core))
                place = "inputs" if len(sides) == 1 else "outputs"
            case (("inputs" | "outputs"), ","):
                place = "array"
            case "inputs", "->":
                sides.append([])
                place = "array"
            case "outputs", "":
                break
            case _:
                raise _unreadable(text, found, place)
    inputs, outputs = map(tuple, sides)
    return Signature(inputs, outputs)


def _unreadable(text: str, found: re.Match[str], place: str) -> ValueError:
    word, reason = found[1], _WANTED[place]
    if place == "within":
        reason = _UNKNOWN.get(word, reason)
    if place in ("first", "axis") and word[:1].isdecimal():
        reason = "a fixed size is a positive number"
    return ValueError(
        f"the signature cannot be read: {reason}.\n"
        f"    {text}\n"
        f"    {' ' * found.start(1)}^\n"
        '  Write the core axes of each array in parentheses, as in "(n,k),(k,m)->(n,m)".'
    )
