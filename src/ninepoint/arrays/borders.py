"""Borders: which rule says what a neighbour outside the array is, along each axis and side."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, TypeAlias, cast, get_args

import numpy as np

from ..base.frozen import frozen
from ..language.dtypes import kind_of, most
from ..language.errors import alike
from .conditions import Condition, named_function
from .layout import Border, Rule, Sides
from .numpy import fitting_cval, limits_of

# What stands beyond an end of an axis; before it and after it.
Beyond: TypeAlias = Rule | Condition
Pair: TypeAlias = tuple[Beyond, Beyond]

RULES: tuple[str, ...] = get_args(Rule)[:-1]
_NAMES = ", ".join(f'"{name}"' for name in RULES)
# NumPy's "reflect" is missing on purpose: the word is SciPy's here, where the edge is repeated.
ALIASES: dict[str, Rule] = {
    "edge": "nearest",
    "symmetric": "reflect",
    "periodic": "wrap",
    "grid-wrap": "wrap",
    "grid-mirror": "reflect",
    "grid-constant": "constant",
}


@frozen
class Boundary:
    """A `boundary=` option, read once where it was written, before the axes are counted.

    Holds the rules before and after each axis; those of one entry for `each` axis if the option
    was one name.  Equal boundaries mean the same, whichever of a rule's names was written.
    """

    entries: tuple[Pair, ...]
    each: bool
    # The values in the place of which names and `cval` stand.
    said: tuple[Condition, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def of(given: object) -> Boundary:
        """Read the option.

        Parameters
        ----------
        given : str, Condition or sequence
            One name or condition for every axis, or one entry for each axis, a name, a condition
            or a ``(before, after)`` pair of these.

        Raises
        ------
        ValueError
            If a name is unknown, or "wrap" stands on one side of an axis only.
        TypeError
            If it is neither text nor a sequence.
        """
        if isinstance(given, Boundary):
            return given
        if isinstance(given, str):
            return _named(given)
        if isinstance(given, Condition):
            return Boundary(((given, given),), True)
        if not isinstance(given, tuple | list):
            raise TypeError(
                f"boundary must be a name or one entry per axis, not {given!r}; "
                f"names are {_NAMES}{_cure(given)}."
            )
        return Boundary(tuple(_pair(entry) for entry in given), False)

    def opened(self, closed: Sequence[Sides]) -> Boundary:
        """The rules of a block: beyond sides that are not closed there are no neighbours."""
        if all(map(all, closed)):
            return self
        rules = (
            (before if low else "valid", after if high else "valid")
            for (before, after), (low, high) in zip(self.sides(len(closed)), closed, strict=True)
        )
        return Boundary(tuple(rules), False)

    def on(self, ndim: int) -> Border:
        """Give the border of a stencil of `ndim` axes; names stand in the place of conditions.

        With these names results have the same shape.

        Raises
        ------
        ValueError
            If there is another number of entries.
        """
        if not self.conditions:
            return _on(self, ndim)
        return _on(self.with_conditions(lambda *_: "nearest", ndim), ndim)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of the rules that are no names."""
        return tuple(one for pair in self.entries for one in pair if isinstance(one, Condition))

    def sides(self, ndim: int) -> tuple[Pair, ...]:
        """The rules and conditions of a stencil of `ndim` axes.

        Raises
        ------
        ValueError
            If there is another number of entries.
        """
        if not self.each and len(self.entries) != ndim:
            raise ValueError(
                f"boundary={self} has {len(self.entries)} entries, but the stencil has {ndim} "
                f"{'axis' if ndim == 1 else 'axes'}; give one name, or one entry per axis "
                "(a name or a (before, after) pair)."
            )
        return self.entries * ndim if self.each else self.entries

    def with_conditions(
        self, change: Callable[[Condition, int, int], Beyond], ndim: int | None = None
    ) -> Boundary:
        """The same with other conditions, or names, each made of one, its axis and its side.

        Of a stencil of `ndim` axes there is an entry for each of them.
        """

        def changed(one: Beyond, axis: int, side: int) -> Beyond:
            return change(one, axis, side) if isinstance(one, Condition) else one

        pairs = enumerate(self.entries if ndim is None else self.sides(ndim))
        entries = tuple((changed(a, axis, 0), changed(b, axis, 1)) for axis, (a, b) in pairs)
        return Boundary(entries, self.each and ndim is None)

    @property
    def meaning(self) -> Boundary:
        """The same with names in the place of functions: it pickles, and says what is meant."""
        return self.with_conditions(lambda one, *_: one.of(named_function))

    def named(self, cval: Any) -> tuple[Boundary, Any]:
        """The same by names alone, and its `cval`, where there are such names.

        One value all around is "constant"; and where nothing flows, elements are reflected.
        """
        fixed = [one for one in self.conditions if one.kind == "dirichlet"]
        if not self.conditions or not all(one.has_name for one in self.conditions):
            return self, cval
        several = len({one.key for one in fixed}) > 1
        if several or (fixed and (self.uses("fill") or self.uses("constant"))):
            return self, cval
        names: dict[str, Rule] = {"extrapolate": "nearest", "dirichlet": "constant"}
        named = self.with_conditions(lambda one, *_: names.get(one.kind, "reflect"))
        return replace(named, said=tuple(fixed[:1])), fixed[0].c if fixed else cval

    def after(self, step: int) -> Boundary:
        """The same as it is after so many steps of an iteration."""
        return self.with_conditions(lambda one, *_: one.after(step))

    def uses(self, rule: Rule) -> bool:
        """Whether any side of any axis follows `rule`."""
        return any(rule in pair for pair in self.entries)

    def __str__(self) -> str:
        """Give it as one would write the option."""
        if self.each:
            return repr(self.entries[0][0])
        return repr(tuple(a if a == b else (a, b) for a, b in self.entries))


@lru_cache(maxsize=64)
def _named(name: str) -> Boundary:
    rule = _rule(name)
    return Boundary(((rule, rule),), True)


@lru_cache(maxsize=256)
def _on(boundary: Boundary, ndim: int) -> Border:
    return Border(cast(tuple[tuple[Rule, Rule], ...], boundary.sides(ndim)))


def _pair(entry: object) -> Pair:
    if isinstance(entry, str | Condition):
        entry = entry, entry
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise ValueError(
            f"boundary entry {entry!r} is neither a name nor a (before, after) pair of names"
            f"{_cure(entry)}."
        )
    before, after = _rule(entry[0]), _rule(entry[1])
    if (before == "wrap") != (after == "wrap"):
        raise ValueError(
            f"boundary ({before!r}, {after!r}) wraps on one side only; "
            'use "wrap" on both sides of an axis or on neither.'
        )
    return (before, after)


def _rule(name: object) -> Beyond:
    if isinstance(name, Condition):
        return name
    if isinstance(name, str):
        if name in ALIASES:
            return ALIASES[name]
        if name in RULES:
            return cast(Rule, name)
    raise ValueError(f"unknown boundary {name!r}; use one of {_NAMES}{_cure(name)}.")


# What other libraries call a rule, and what it is here.
_ELSEWHERE = {
    "replicate": '"nearest"',
    "reflect_101": '"mirror"',
    "reflect101": '"mirror"',
    "default": '"mirror"',
    "periodic": '"wrap"',
    "circular": '"wrap"',
    "zero": '"constant", whose value is cval=0',
    "zeros": '"constant", whose value is cval=0',
    "isolated": '"constant", whose value is cval=0',
    "dirichlet": "npt.dirichlet(value)",
    "neumann": "npt.neumann(slope)",
    "robin": "npt.robin(a, b, c)",
}


def _cure(given: object) -> str:
    """What to write for something that may be meant as values, or for a rule of another name."""
    if isinstance(given, str):
        name = given.lower().removeprefix("cv2.").removeprefix("border_").replace("-", "_")
        cure = _ELSEWHERE.get(name)
        if cure is None and (close := ALIASES.get(name) or alike(name, RULES)):
            cure = f'"{close}"'
        return "" if cure is None else f"; perhaps you mean {cure}"
    if isinstance(given, bool) or not (
        callable(given) or isinstance(given, numbers.Number | np.ndarray)
    ):
        return ""
    return ", and values are npt.dirichlet(...)"


# Any type of floats holds numbers up to here.
_SMALL = 6e4


def check_range(one: Condition, name: str, dtype: np.dtype) -> None:
    """Raise where elements outside cannot be stored as those of a field are."""
    given = one.c
    if kind_of(dtype) in "fc" and isinstance(given, float) and -_SMALL < given < _SMALL:
        return
    fits: Any = True
    with np.errstate(all="ignore"):
        if not np.ndim(given):
            try:
                fitting_cval(given, dtype, name)
            except ValueError:
                fits = False
        elif dtype.kind in "biu":
            low, high = limits_of(dtype)
            # NaN is neither.
            fits = (low <= given) & (given <= high) & (given == np.trunc(given))
        elif dtype.kind != "c":
            fits = ~np.isfinite(given) | np.isfinite(given.astype(dtype))
    if np.all(fits):
        return
    if dtype.kind in "biu":
        low, high = limits_of(dtype)
        raise misfit(one, name, dtype, f"whole numbers from {low} to {high}")
    raise misfit(one, name, dtype, f"numbers up to {most(dtype):.4g}")


def misfit(one: Condition, name: str, dtype: np.dtype, cure: str) -> ValueError:
    """The error for values that the type of a field does not hold."""
    return ValueError(
        f"the values of npt.{one.kind} do not fit field '{name}', which is {dtype}; use {cure}, "
        "or convert the field."
    )
