"""Names: those that the user gave and those of the compiler, kept apart in a kernel.

What the compiler names by number ends in a digit: t0, v0_3, and so do the copies that it makes
of what a user has named: u_0, r__2.  A name of the user's never ends so.
"""

from __future__ import annotations


def by_number(name: str) -> bool:
    """Whether the compiler may have made a name: the user's do not end so in a kernel."""
    return name[-1].isdigit()


def unlike(label: str, taken: set[str]) -> str:
    """A name for a part of a larger kernel, like this one, that nothing in it has yet."""
    name = label.replace(".", "_")
    name = name if name.isidentifier() else "stage"
    while name in taken or by_number(name):
        name += "_"
    taken.add(name)
    return name
