"""Which one of several variables is meant."""

from __future__ import annotations

from collections.abc import Sequence


def pick(
    path: str, variables: Sequence[str], wanted: str | None, known: Sequence[str] = ()
) -> str:
    """The variable that is wanted, or the only one; `known` are all that can be asked for.

    Raises
    ------
    ValueError
        If there is none, if there are several and none is named, or none of this name.
    """
    if wanted is not None:
        name = wanted.strip("/")
        if name not in (*variables, *known):
            raise ValueError(
                f"{path!r} holds no array {wanted!r}; it holds {listed([*variables, *known])}."
            )
        return name
    if not variables:
        raise ValueError(f"{path!r} holds no array of numbers.")
    if len(variables) > 1:
        raise ValueError(
            f"{path!r} holds several arrays: {listed(variables)}. Name the one to open, "
            f"variable={variables[0]!r}."
        )
    return variables[0]


def listed(names: Sequence[str]) -> str:
    """Some names as a message has them, not too many."""
    shown = [repr(name) for name in dict.fromkeys(names)]
    more = len(shown) - 12
    return ", ".join(shown[:12]) + (f" and {more} more" if more > 0 else "") if shown else "none"
