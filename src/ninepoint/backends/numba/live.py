"""Functions of users as Numba's, whose names mean for ever what they meant when they were read.

    SCALE = 100
    def mean(x): return np.sum(x) / SCALE     ->     the same text, in which SCALE is 100 for ever

They mean so also in a process that has neither the user's file nor modules.  Functions that one
calls are compiled with it.  Lines stay those of the user's file: Numba's errors lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numba import njit

from ...language.source import Function, SelfReference, live_names, rebuild


def jitted(
    function: Function,
    token: str,
    options: Mapping[str, Any],
    more: Mapping[str, Any],
    meant: Callable[[Function, str, Any], Any] = lambda function, name, one: one,
) -> Any:
    """Numba's function of a user's, with these options and, for itself alone, more.

    `meant` says what stands for the value of a name that is neither a function nor a tuple.  All
    that Numba has compiled is in one engine, where names of code from disk differ too: they begin
    with the `token`.
    """
    # What functions that are being made are called by their own texts.
    active: dict[str, Any] = {}
    known: dict[int, Any] = {}

    def made(function: Function, **more: Any) -> Any:
        # Numba imports the module of what it kept on disk.
        names: dict[str, Any] = {"__name__": __name__}
        plain = rebuild(function, names)
        plain.__qualname__ = f"{token}.{function.name}"
        found = njit(**options, **more)(plain)
        before = active.get(function.name)
        active[function.name] = found
        meanings = {name: value(function, name, one) for name, one in function.constants.items()}
        active[function.name] = before
        names |= live_names(replace(function, constants=meanings))
        return found

    def value(function: Function, name: str, one: Any) -> Any:
        match one:
            case Function():
                if id(one) not in known:
                    known[id(one)] = made(one)
                return known[id(one)]
            case SelfReference(name=own):
                return active[own]
            case tuple():
                return tuple(value(function, name, part) for part in one)
            case _:
                return meant(function, name, one)

    return made(function, **more)
