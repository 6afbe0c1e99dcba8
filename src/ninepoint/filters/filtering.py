"""A call of a filter: the image and the options, checked, and the kind of result.

median(x, size=5)   ->   call = Filtering(x, {});  call.near(5, None, None)[0] == Window((5, 5))
                         call.apply(CHOSEN, stencil) applies it

Windows: which neighbours a filter takes, of a box or of a shape.

size=(3, 4)                        ->      Window((3, 4)):  x[-1:2, -2:2], all of it
footprint=[[0, 1, 0], [1, 1, 1]]   ->      Window((2, 3), b"..."):  x[-1:1, -1:2][mask]
"""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeAlias, TypedDict, cast

import numpy as np

from ..arrays.accepted import is_dataset
from ..base.frozen import frozen
from ..base.tracebacks import door
from ..language.dtypes import computed, kind_of
from ..language.signature import as_read, filled
from ..language.source import capture
from ..program import options as known
from ..program.definition import Definition
from ..program.options import ByName as ByName
from ..program.program import as_fields
from ..running.calling import OnArrays
from ..running.calls import Lazy, first
from ..shapes import whole

# What is said of how long a window is along each axis, and what is known of it.
Size: TypeAlias = int | Sequence[int] | None
Lengths: TypeAlias = tuple[int, ...]

# The most points of a window: of one axis a million, of two a thousand each.
MOST_POINTS = 1_000_000


@frozen
class Window:
    """A box of neighbours around a point, or those of them that a footprint names, as bytes.

    And how many values that are no NaN it needs; 0 where NaN are not left out.
    """

    size: Lengths
    footprint: bytes = b""
    least: int = 0

    @property
    def count(self) -> int:
        """How many neighbours are taken."""
        return sum(self.footprint) if self.footprint else math.prod(self.size)

    def index(self, mirrored: bool = False) -> tuple[tuple[slice, ...], Any]:
        """Give the offsets of the box, maybe mirrored at the point, and an index of the box.

        That is of all of it, or of what the footprint names.
        """
        taken: Any = (slice(None),) * len(self.size)
        if self.footprint:
            mask = np.frombuffer(self.footprint, bool)
            taken = mask[:: -1 if mirrored else 1].reshape(self.size)
        return offsets(self.size, mirrored), taken


def footprint_window(footprint: Any) -> Window:
    """Check a footprint, and give its window.

    Raises
    ------
    TypeError
        If it holds anything else than truths, or 0 and 1 in their place.
    ValueError
        If it takes nothing, or is not regular.
    """
    try:
        array = np.asarray(footprint)
    except ValueError as error:
        raise ValueError("footprint is not regular: its rows differ in length.") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"footprint of dtype {array.dtype} holds no truths; use one of bool.")
    mask = array.astype(bool)
    if array.dtype != bool and (strange := array[array != mask]).size:
        raise TypeError(
            f"footprint holds {strange[0]}, which is neither true nor false; compare, "
            "as in weights > 0, or weigh neighbours with correlate."
        )
    check_points(mask.shape)
    if not mask.any():
        raise ValueError(
            f"footprint of shape {mask.shape} takes no neighbour; at least one must be true."
        )
    return Window(mask.shape, b"" if mask.all() else mask.tobytes())


def check_points(lengths: Lengths) -> None:
    """Refuse a window so large that it would take minutes to compile, or all of the memory."""
    if math.prod(lengths) > MOST_POINTS:
        raise ValueError(
            f"a window of {' x '.join(map(str, lengths))} points is more than a filter takes "
            f"({MOST_POINTS}); filter one axis after the other with axes=, or a smaller image."
        )


def offsets(size: Lengths, mirrored: bool = False) -> tuple[slice, ...]:
    """Give the offsets around 0; where a size is even, one more before it than after."""
    before = [(n - 1) // 2 if mirrored else n // 2 for n in size]
    return tuple(slice(-b, n - b) for b, n in zip(before, size, strict=True))


Array: TypeAlias = np.ndarray
P = ParamSpec("P")
PerAxis: TypeAlias = float | Sequence[float]

# Stencils of one kind that are kept: more than any program has in use, few enough to forget
# those of a search over many sigmas.
KEPT = 128


class Options(TypedDict, total=False):
    """What every filter takes besides its own parameters, by keyword.

    Attributes
    ----------
    boundary : str or sequence
        What a neighbour outside the array is; as for a stencil, but "reflect" by default.
    cval : number
        The value of "constant" and "fill"; 0 by default.
    axes : int or sequence of int
        The axes to filter.
    dims : str or sequence of str
        The dimensions to filter, of an xarray object.
    out : array
        Where to write the result of NumPy arrays; it may be the image itself.
    dtype : dtype
        Of the result. Integers are rounded to nearest and held within their limits, so
        ``dtype="float64"`` is how an image of integers keeps its fractions.
    every : int or tuple of int
        Along each axis, of how many points one is made; see `Stencil.__call__`.
    threads : int
        The greatest number of threads.
    device : str
        "cuda" to have a GPU compute arrays of NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.mean(np.array([3, 0, 0, 9], "uint8"), boundary="wrap", dtype="float64")
    array([4., 1., 3., 4.])
    """

    boundary: Any
    cval: Any
    axes: Any
    dims: Any
    out: Any
    dtype: Any
    every: Any
    threads: int | None
    device: str | None


# The kinds of dtypes that results keep: of numbers between those of the image, of some of these,
# and of numbers of any size.
BETWEEN, CHOSEN, ANY = "iu", "biu", ""

# What holds where an option is not given.
_DEFAULTS = {"boundary": "reflect", "cval": 0}


class Kernel(OnArrays):
    """The kernel of a filter, which is called as the filter is."""

    def _first(self, *given: Any) -> Any:
        return first(self._bound_calls, *given)


def made(name: str, kernel: Any) -> Kernel:
    """The stencil of a kernel, which is called as its filter is."""
    kernel.__name__ = name
    options = known.Options.of("stencil", {"boundary": "reflect"})
    return Kernel(Definition(capture(kernel), options, kernel))


# What docstrings of filters have in common.
_WORDS = {
    "x": """
    x : array
        The image, or a stack of them.
    """,
    "options": """
    **options
        See `Options`.
    """,
    "axis": """
    axis : int
        Along which of the filtered axes: with the usual two, 0 or -2 is from row to row, 1 or -1
        from column to column.
    """,
    "sigma": """
    sigma : float or sequence of float
        Standard deviation of the bell along every axis, or along each [points].
    """,
    "window": """
    size : int or sequence of int, optional
        Length of the window along every axis, or along each [points]; 3 by default. Where it is
        even, the window has one point more before the centre than after it.
    footprint : array_like of bool, optional
        Which neighbours of a box are taken, in the place of `size`; of bool, or of 0 and 1. See
        `shapes` for the usual ones.
    min_count : int, optional
        Leave NaN out, and give NaN where fewer values than this are left in the window; without
        it a NaN makes the result NaN. Integers and bools have no NaN to leave out.
    """,
    "window_errors": """
    ValueError
        If `size` is less than 1, `footprint` takes nothing, one of them has more axes than `x`,
        or both are given; if `min_count` is not from 1 to the points of the window.
    TypeError
        If `size` or `min_count` is not whole, `footprint` holds no truths, or an option is
        unknown.
    """,
}


def over_datasets(function: Callable[P, Any]) -> Callable[P, Any]:
    """The filter, which maps a Dataset variable by variable."""
    call: Any = function

    @door
    @functools.wraps(function)
    def filtered(x: Any, *args: Any, **options: Any) -> Any:
        if not is_dataset(x):
            return call(x, *args, **options)
        from ..arrays.xarray import over_variables

        known.Place(**{name: options[name] for name in known.PLACE if name in options}).check([x])
        dims = options.get("dims")
        if dims is None:
            raise TypeError("a filter of a Dataset needs to know which dimensions; give dims=.")

        return over_variables(
            lambda fields: call(fields["x"], *args, **options), {"x": x}, dims, lambda _: 0
        )

    options = {name: _DEFAULTS.get(name) for name in Options.__annotations__}
    return filled(**_WORDS)(as_read(options)(cast("Callable[P, Any]", filtered)))


class Filtering:
    """An image and the options it is filtered with; how many axes, and which result."""

    def __init__(self, x: Any, options: Options | ByName) -> None:
        names = Options.__annotations__
        unknown = [name for name in options if name not in names]
        known.refuse_unknown("filter", unknown, (*names, *"size footprint sigma weights".split()))
        self.image = x if isinstance(x, Lazy) else as_fields([x], [""])[0]
        self.options = options
        # How many axes the options name; 0 if they leave it open.
        self.named = 0
        for given in (options.get("dims"), options.get("axes")):
            if given is not None:
                self.named = 1 if isinstance(given, numbers.Integral | str) else len(given)
        self.ndim = self.named or min(2, self.image.ndim)
        if self.ndim == 0:
            raise ValueError("a filter needs an array of at least one axis, not a single number.")
        dtype = options.get("dtype")
        self.dtype = self.image.dtype if dtype is None else np.dtype(dtype)

    @property
    def precision(self) -> np.dtype:
        """The type of real weights: that of a float image, else float64."""
        dtype = computed(self.image.dtype)
        if dtype.kind not in "fc" or self.options.get("dtype") is not None:
            return np.dtype(np.float64)
        return np.finfo(dtype).dtype

    def count_axes(self, name: str, count: int) -> None:
        """Learn from an argument how many axes are filtered, and check that they exist."""
        if self.named and count != self.named:
            raise ValueError(f"{name} has {count} axes, but axes= or dims= name {self.named}.")
        if not 1 <= count <= self.image.ndim:
            raise ValueError(f"{name} has {count} axes, but the array {self.image.ndim}.")
        self.ndim = count

    def near(self, size: Size, footprint: Any, min_count: Any = None) -> Window:
        """Give the neighbours that are taken: by default a box of 3 along each axis."""
        if footprint is None:
            size = 3 if size is None else size
            lengths = tuple(whole("size", one, 1) for one in self.each("size", size))
            check_points(lengths)
            window = Window(lengths)
        elif size is not None:
            raise ValueError("size and footprint both say which neighbours are taken; give one.")
        else:
            window = footprint_window(footprint)
            self.count_axes("footprint", len(window.size))
        if min_count is None:
            return window
        count, points = whole("min_count", min_count), window.count
        if not 1 <= count <= points:
            raise ValueError(
                f"min_count={min_count!r}: give a number from 1 to {points}, the points of the "
                "window."
            )
        return replace(window, least=count) if kind_of(self.image.dtype) in "fc" else window

    def check_real(self) -> None:
        """Raise for complex numbers."""
        if self.image.dtype.kind == "c":
            raise TypeError(
                "complex numbers have no order, so no rank and no deviation is taken of them; "
                "filter x.real and x.imag, or abs(x)."
            )

    def each(self, name: str, value: Any) -> tuple[Any, ...]:
        """One value for each axis."""
        if isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim):
            self.count_axes(name, len(value))
            return tuple(value)
        return (value,) * self.ndim

    def apply(self, kept: str, filtered: Any, *others: Any) -> Any:
        """What a stencil gives for the image and others: of its dtype, if of a kind that is kept.

        Integers are then rounded, and held within the limits of that.
        """
        options: dict[str, Any] = dict(self.options)
        if isinstance(axes := options.get("axes"), numbers.Integral):
            options["axes"] = (axes,)
        if self.dtype.kind in kept or options.get("dtype") is not None:
            options |= {"dtype": self.dtype, "overflow": "saturate"}
        return filtered(self.image, *others, **options)
