"""Borders: what a neighbour outside the array is, along each axis and side: a rule, a condition.

Conditions are made of values, slopes, or a mix of both:

    dirichlet(v)        u = v                  half way to what is outside, or there itself
    neumann(s)          du/dn = s              n points outward
    robin(a, b, c)      a u + b du/dn = c
    extrapolate(q)      u goes on as a polynomial

Each of the first three says what a ghost is, an element outside: `alpha * mirrored + beta`, of the
element as far inside of the face of the array as the ghost is outside.
"""

from __future__ import annotations

import math
import numbers
import operator
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from ..base.frozen import frozen
from ..base.tracebacks import door
from ..language.dtypes import is_masked, widened
from ..language.errors import alike
from ..shapes import finite, whole
from .accepted import instead
from .layout import HIGHEST, Border, Rule, Sides

# A number, an array along the edge, or a function of the step and the positions along the edge.
Value: TypeAlias = Any
Kind: TypeAlias = Literal["dirichlet", "neumann", "robin", "extrapolate"]


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """What holds at one side of an array: a value, a slope, a mix, or a polynomial of an order.

    Made by `dirichlet`, `neumann`, `robin` and `extrapolate`, and given to `boundary=` in place of
    a name.

    Examples
    --------
    >>> import ninepoint as npt
    >>> npt.neumann(0.5, dx=2.0)
    npt.neumann(0.5, dx=2.0)
    """

    kind: Kind
    values: tuple[Value, ...] = ()
    dx: float = 1.0
    at: Literal["cell", "face"] = "face"
    step: int = field(default=0, repr=False)
    order: int = 0

    def __repr__(self) -> str:
        """Give it as one would write it."""
        if self.kind == "extrapolate":
            return f"npt.extrapolate({self.order})"
        parts = list(map(_shown, self.values))
        if self.dx != 1.0:
            parts.append(f"dx={self.dx!r}")
        if self.at == "cell":
            parts.append("at='cell'")
        return f"npt.{self.kind}({', '.join(parts)})"

    @property
    def plain(self) -> bool:
        """Whether it is made of numbers only, which never change."""
        return all(map(_is_number, self.values))

    @property
    def name(self) -> Any:
        """The name of a rule that says the same, where one may."""
        if self.kind == "extrapolate":
            return "" if self.order else "nearest"
        if self.kind == "dirichlet":
            return "constant" if self.at == "cell" and self.plain else ""
        return "reflect" if self.plain and self.values[0] == 0 == self.values[-1] else ""

    def after(self, step: int) -> Condition:
        """Give the condition as it is after so many steps of an iteration.

        Examples
        --------
        >>> import ninepoint as npt
        >>> npt.dirichlet(lambda step: 10 * step).after(3).step
        3
        """
        return replace(self, step=step) if any(map(callable, self.values)) else self

    def of(self, change: Callable[[Value], Value]) -> Condition:
        """Give the same with other values.

        Examples
        --------
        >>> import ninepoint as npt
        >>> npt.dirichlet(3.0).of(lambda value: 2 * value)
        npt.dirichlet(6.0)
        """
        values = tuple(map(change, self.values))
        same = all(map(operator.is_, values, self.values))
        return self if same else replace(self, values=values)


@door
def dirichlet(value: Value, *, at: Literal["cell", "face"] = "face") -> Condition:
    """Fix the value at the end of an array, as a border rule.

    Parameters
    ----------
    value : number, array or function
        The value; an array has one for each position along the edge, and the shape of the fields
        without the axis that ends there, or one that broadcasts to it.  A function is called as
        ``value(step, *positions)`` with the number of steps done (0 outside of `iterate`) and an
        array of positions for each other axis of the stencil, and gives such an array.
    at : {"face", "cell"}
        Where the value is: at the face half way between the last element inside and the first
        one outside, as for `neumann` and `robin`, which needs fields of floats; or at the
        elements outside themselves, however far they are, so that the nearest of them is the
        wall.

    Returns
    -------
    Condition
        To be given to ``boundary=``, for all sides or in the place of any name.

    Raises
    ------
    TypeError
        If the value is no number, array of numbers or function.
    ValueError
        If `at` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil
    ... def step(u):
    ...     return u[-1] + u[1]
    >>> step(np.array([1.0, 2.0, 3.0]), boundary=((npt.dirichlet(10), "nearest"),))
    array([21.,  4.,  5.])
    >>> step(np.array([1, 2, 3]), boundary=((npt.dirichlet(10, at="cell"), "nearest"),))
    array([12,  4,  5])
    """
    if at not in ("cell", "face"):
        raise ValueError(f'at={at!r} is unknown; the value is at the "face" or at the "cell".')
    return Condition("dirichlet", (_value(value, "dirichlet"),), at=at)


@door
def neumann(slope: Value, *, dx: float = 1.0) -> Condition:
    """Fix the slope at the end of an array, as a border rule.

    Parameters
    ----------
    slope : number, array or function
        The derivative along the outward normal, at the face half way between the last element
        inside and the first one outside: with 0 nothing flows through it.  Arrays and functions
        are as for `dirichlet`.
    dx : float
        The distance between neighbours, positive.

    Returns
    -------
    Condition
        To be given to ``boundary=``, for all sides or in the place of any name.

    Raises
    ------
    TypeError
        If the slope is no number, array of numbers or function.
    ValueError
        If `dx` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil(boundary=npt.neumann(0.5))
    ... def right(u):
    ...     return u[1]
    >>> right(np.array([1.0, 2.0, 3.0]))
    array([2. , 3. , 3.5])
    """
    return Condition("neumann", (_value(slope, "neumann"),), _spacing(dx))


@door
def robin(a: Value, b: Value, c: Value, *, dx: float = 1.0) -> Condition:
    """Fix a mix of value and slope at the end of an array, ``a * u + b * du/dn = c``.

    Parameters
    ----------
    a, b, c : number, array or function
        The three at the face half way between the last element inside and the first one outside;
        the normal n points outward.  Arrays and functions are as for `dirichlet`.
    dx : float
        The distance between neighbours, positive.

    Returns
    -------
    Condition
        To be given to ``boundary=``, for all sides or in the place of any name.

    Raises
    ------
    TypeError
        If something is no number, array of numbers or function.
    ValueError
        If both `a` and `b` are 0, or `dx` is not positive.

    Examples
    --------
    A wall that loses heat in proportion to how much warmer than its surroundings it is:

    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil(boundary=npt.robin(2.0, 1.0, 2.0 * 20.0))
    ... def right(u):
    ...     return u[1]
    >>> right(np.array([20.0, 30.0]))
    array([30., 20.])
    """
    values = tuple(_value(value, "robin") for value in (a, b, c))
    a, b = values[:2]
    if _is_number(a) and _is_number(b) and a == 0 and b == 0:
        raise ValueError(
            "npt.robin(a, b, c) with a = 0 and b = 0 fixes nothing; give one of them another "
            "value, or name a border rule."
        )
    return Condition("robin", values, _spacing(dx))


@door
def extrapolate(q: int) -> Condition:
    """Let an array go on beyond its end as a polynomial, as a border rule.

    Parameters
    ----------
    q : {0, 1, 2, 3}
        The degree of the polynomial, which goes through the last ``q + 1`` elements: with 0 the
        last one stands for all, as with "nearest", with 1 they go on along a line.

    Returns
    -------
    Condition
        To be given to ``boundary=``, for all sides or in the place of any name.

    Raises
    ------
    TypeError
        If `q` is no whole number.
    ValueError
        If `q` is not from 0 to 3.

    Notes
    -----
    A central difference is with 1 what ``np.gradient(x, edge_order=1)`` gives at the ends, and
    with 2 what ``edge_order=2`` gives.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil(boundary=npt.extrapolate(2))
    ... def slope(x):
    ...     return (x[1] - x[-1]) / 2
    >>> squares = np.array([0.0, 1.0, 4.0, 9.0])
    >>> slope(squares)
    array([0., 2., 4., 6.])
    >>> np.gradient(squares, edge_order=2)
    array([0., 2., 4., 6.])
    """
    order = whole("q", q, 0)
    if order > HIGHEST:
        raise ValueError(
            f"q={q} must be from 0 to {HIGHEST}: a polynomial of a higher degree swings too far."
        )
    return Condition("extrapolate", order=order)


def weights(order: int, distance: int) -> tuple[float, ...]:
    """By how much each of the last elements counts, so far beyond them, from the last one on.

    Examples
    --------
    >>> from ninepoint.arrays.borders import weights
    >>> weights(1, 1), weights(2, 1)
    ((2.0, -1.0), (3.0, -3.0, 1.0))
    """
    nodes = range(order + 1)
    found = []
    for k in nodes:
        above = math.prod(distance + j for j in nodes if j != k)
        found.append(above / math.prod(j - k for j in nodes if j != k))
    return tuple(found)


def named_function(value: Value) -> Value:
    """A name in the place of a function, of its own for each function; any other value itself."""
    if not callable(value):
        return value
    try:
        return _names.setdefault(value, uuid.uuid4().hex)
    except TypeError:
        # It has no hash, or nothing can refer to it weakly.
        return uuid.uuid4().hex


_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def _value(value: Value, name: str) -> Value:
    """The value, lists as arrays."""
    value = widened(value)
    if callable(value) or _is_number(value):
        return value
    if is_masked(value):
        raise TypeError(f"npt.{name} has a masked array; fill it first, with .filled(value).")
    if isinstance(value, tuple | list):
        value = np.array(value)
    dtype = getattr(value, "dtype", None)
    if dtype is None or np.dtype(dtype).kind not in "biufc":
        raise TypeError(
            f"npt.{name} takes numbers, arrays of numbers and functions, not {value!r}."
        )
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def _spacing(dx: Any) -> float:
    step = finite("dx", dx)
    if step <= 0:
        raise ValueError(f"dx={dx!r} must be positive: it is the distance between neighbours.")
    return step


def _is_number(value: Value) -> bool:
    return isinstance(value, numbers.Number | np.bool_)


def _shown(value: Value) -> str:
    if callable(value):
        return getattr(value, "__name__", "function")
    return repr(value) if _is_number(value) else f"<array of shape {tuple(value.shape)}>"


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
        if isinstance(given, str | Condition):
            return Boundary(((_rule(given),) * 2,), True)
        if not isinstance(given, tuple | list):
            raise TypeError(
                f"boundary must be a name or one entry per axis, not {given!r}; "
                f"names are {_NAMES}{_cure(given)}."
            )
        return Boundary(tuple(_pair(entry) for entry in given), False)

    def opened(self, closed: Sequence[Sides]) -> Boundary:
        """The rules of a block: beyond sides that are not closed there are no neighbours."""
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
        rules: Any = self.with_conditions(lambda *_: "nearest", ndim).entries
        return Border(rules)

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
        names = [one.name for one in self.conditions]
        fixed = [one for one in self.conditions if one.kind == "dirichlet"]
        if not names or not all(names) or len({repr(one.values) for one in fixed}) > 1:
            return self, cval
        if fixed and (self.uses("fill") or self.uses("constant")):
            return self, cval
        named = self.with_conditions(lambda one, *_: one.name)
        return replace(named, said=tuple(fixed[:1])), fixed[0].values[0] if fixed else cval

    def uses(self, rule: Rule) -> bool:
        """Whether any side of any axis follows `rule`."""
        return any(rule in pair for pair in self.entries)

    def __str__(self) -> str:
        """Give it as one would write the option."""
        if self.each:
            return repr(self.entries[0][0])
        return repr(tuple(a if a == b else (a, b) for a, b in self.entries))


def _pair(entry: object) -> Pair:
    if isinstance(entry, str | Condition):
        entry = entry, entry
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise ValueError(
            f"boundary entry {entry!r} is neither a name nor a (before, after) pair of names"
            f"{_cure(entry)}."
        )
    before, after = map(_rule, entry)
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


def check_range(one: Condition, name: str, dtype: np.dtype) -> None:
    """Raise where values that stand outside, or make those, do not fit the type of a field."""
    cure = ""
    if one.at == "cell":
        cure = instead(one.values[0], dtype)
    elif dtype.kind != "c" and any(map(np.iscomplexobj, one.values)):
        cure = "real numbers"
    if cure:
        raise ValueError(
            f"the values of npt.{one.kind} do not fit field '{name}', which is {dtype}; use "
            f"{cure}, or convert the field."
        )
