"""Conditions: border rules that are made of values, slopes, or a mix of both.

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
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from ..base.tracebacks import door
from ..language.dtypes import is_masked, widened
from .accepted import is_whole
from .layout import HIGHEST

# A number, an array along the edge, or a function of the step and the positions along the edge.
Value: TypeAlias = Any
Kind: TypeAlias = Literal["dirichlet", "neumann", "robin", "extrapolate"]


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """What holds at one side of an array: `a * u + b * du/dn = c`, or a polynomial of an order.

    Made by `dirichlet`, `neumann`, `robin` and `extrapolate`, and given to `boundary=` in place of
    a name.

    Examples
    --------
    >>> import ninepoint as npt
    >>> npt.neumann(0.5, dx=2.0)
    npt.neumann(0.5, dx=2.0)
    """

    kind: Kind
    a: Value
    b: Value
    c: Value
    dx: float = 1.0
    at: Literal["cell", "face"] = "face"
    step: int = field(default=0, repr=False)
    order: int = 0

    def __repr__(self) -> str:
        """Give it as one would write it."""
        if self.kind == "extrapolate":
            return f"npt.extrapolate({self.order})"
        given = self.abc if self.kind == "robin" else (self.c,)
        parts = [_shown(value) for value in given]
        if self.dx != 1.0:
            parts.append(f"dx={self.dx!r}")
        if self.at == "cell":
            parts.append("at='cell'")
        return f"npt.{self.kind}({', '.join(parts)})"

    @property
    def abc(self) -> tuple[Value, Value, Value]:
        """The three numbers."""
        return self.a, self.b, self.c

    @property
    def plain(self) -> bool:
        """Whether it is made of numbers only, which never change."""
        return _is_number(self.a) and _is_number(self.b) and _is_number(self.c)

    @property
    def varies(self) -> bool:
        """Whether something is a function, and may be another value at each step."""
        return any(map(callable, self.abc))

    @property
    def key(self) -> Any:
        """What tells a plain condition from others."""
        return self.kind, self.dx, self.at, self.order, *((type(v), repr(v)) for v in self.abc)

    @property
    def form(self) -> Any:
        """What tells conditions that are done alike from others, whatever their values are.

        None if it has arrays of other kinds than NumPy's.
        """
        parts: list[Any] = [self.kind, self.dx, self.at, self.step, self.order]
        for value in self.abc if self.kind == "robin" else (self.c,):
            if type(value) in (float, int):
                parts.append(float)
            elif type(value) is np.ndarray:
                parts += (value.shape, value.dtype)
            elif callable(value):
                parts.append("function")
            elif _is_number(value):
                parts.append(type(value))
            else:
                return None
        return tuple(parts)

    @property
    def has_name(self) -> bool:
        """Whether a rule with a name may say the same."""
        if self.kind == "dirichlet":
            return self.at == "cell" and self.plain
        if self.kind == "extrapolate":
            return not self.order
        return self.plain and bool(self.a == 0 and self.c == 0)

    def after(self, step: int) -> Condition:
        """Give the condition as it is after so many steps of an iteration.

        Examples
        --------
        >>> import ninepoint as npt
        >>> npt.dirichlet(lambda step: 10 * step).after(3).step
        3
        """
        return replace(self, step=step) if self.varies else self

    def of(self, change: Callable[[Value], Value]) -> Condition:
        """Give the same with other values.

        Examples
        --------
        >>> import ninepoint as npt
        >>> npt.dirichlet(3.0).of(lambda value: 2 * value)
        npt.dirichlet(6.0)
        """
        a, b, c = map(change, self.abc)
        if a is self.a and b is self.b and c is self.c:
            return self
        return replace(self, a=a, b=b, c=c)


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
    return Condition("dirichlet", 1, 0, _value(value, "dirichlet"), 1.0, at)


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
    return Condition("neumann", 0, 1, _value(slope, "neumann"), _spacing(dx))


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
    a, b, c = (_value(value, "robin") for value in (a, b, c))
    if _is_number(a) and _is_number(b) and a == 0 and b == 0:
        raise ValueError(
            "npt.robin(a, b, c) with a = 0 and b = 0 fixes nothing; give one of them another "
            "value, or name a border rule."
        )
    return Condition("robin", a, b, c, _spacing(dx))


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
    if not is_whole(q):
        raise TypeError(f"q={q!r} must be a whole number: the degree of a polynomial.")
    if not 0 <= q <= HIGHEST:
        raise ValueError(
            f"q={q} must be from 0 to {HIGHEST}: a polynomial of a higher degree swings too far."
        )
    return Condition("extrapolate", 0, 0, 0, order=int(q))


def weights(order: int, distance: int) -> tuple[float, ...]:
    """By how much each of the last elements counts, so far beyond them, from the last one on.

    Examples
    --------
    >>> from ninepoint.arrays.conditions import weights
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
    if not is_whole(dx) and not isinstance(dx, float | np.floating):
        raise TypeError(f"dx={dx!r} must be a number: the distance between neighbours.")
    if not (math.isfinite(dx) and dx > 0):
        raise ValueError(f"dx={dx!r} must be positive: it is the distance between neighbours.")
    return float(dx)


def _is_number(value: Value) -> bool:
    # Python's own are nearly all that there are, and to ask for their class takes a tenth as long.
    return type(value) in (float, int) or isinstance(value, numbers.Number | np.number | np.bool_)


def _shown(value: Value) -> str:
    if callable(value):
        return getattr(value, "__name__", "function")
    return repr(value) if _is_number(value) else f"<array of shape {tuple(value.shape)}>"
