"""Values, slopes and mixes at the border: by the reference, on every path, and their words."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from nightly import only


@npt.stencil
def heat(u, r=0.25):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


@npt.stencil
def far(u, v):
    """Two results that look to different sides, as far as corners."""
    return u[-2, 0] + 3 * v[1, 1] + len(u), v[0, -1] - u[0, 2] * u.shape[1]


@npt.stencil
def line(u):
    return u[-3] + 2 * u[-1] + 4 * u[2]


@npt.stencil
def line_slope(u):
    return (u[1] - u[-1]) / 2


def wall(step: int, j: Any) -> Any:
    return np.sin(0.3 * step) + j


rng = np.random.default_rng(5)
field = rng.random((17, 19))
rows, columns = rng.random(17), rng.random(19)

BORDERS = [
    (npt.dirichlet(columns, at="cell"), npt.neumann(rows)),
    ((npt.dirichlet(wall, at="cell"), "keep"), ("fill", npt.neumann(0.5, dx=0.1))),
    (("valid", npt.dirichlet(columns, at="face")), "wrap"),
    ("mirror", (npt.robin(rows, 1, 2.0), "reflect")),
    (npt.robin(1.0, 0.5, wall), (npt.dirichlet(1.0, at="cell"), npt.dirichlet(2.0, at="cell"))),
    ((npt.extrapolate(2), "keep"), (npt.dirichlet(rows), npt.extrapolate(1))),
    ((npt.robin(1.0, 2.0, 3.0), npt.extrapolate(2)), (npt.neumann(0.5, dx=0.1), "fill")),
    (("valid", npt.dirichlet(2.0)), "wrap"),
]


def same(stencil: npt.Stencil, *fields: Any, **options: Any) -> None:
    made, wanted = stencil(*fields, **options), stencil.debug(*fields, **options)
    for one, other in zip(*map(np.atleast_2d, (made, wanted)), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def on_chunks(call: Any, wanted: Any, chunks: Any = (5, 7), **options: Any) -> None:
    """Numbers are laid beside chunks too; arrays and functions are refused."""
    cut = da.from_array(field, chunks=chunks)
    if any(word in str(options["boundary"]) for word in ("array", "wall", "function")):
        with pytest.raises(TypeError, match="border values of lazy arrays are numbers"):
            call(cut, **options)
    else:
        np.testing.assert_array_equal(call(cut, **options).compute(scheduler="sync"), wanted)


def done(way: str, limited: Any) -> None:
    """Have arrays, however small, done in a way that others are."""
    if way == "slabs and ends":
        limited(whole_bytes=(0, 0, 0))


@pytest.mark.parametrize(
    ("border", "way"),
    [(border, "slabs and ends") for border in BORDERS]
    + [(border, "one block") for border in BORDERS[::2]],
)
def test_every_path(border: Any, way: str, limited: Any) -> None:
    done(way, limited)
    # What was prepared before goes the way that it went.
    heated = npt.stencil(heat.__wrapped__)
    wanted = heat.debug(field, boundary=border, cval=2)
    for _ in range(2):
        np.testing.assert_array_equal(heated(field, boundary=border, cval=2), wanted)
    out = np.empty_like(wanted)
    assert heated(field, boundary=border, cval=2, out=out, threads=2) is out
    np.testing.assert_array_equal(out, wanted)
    if wanted.shape == field.shape:
        own = field.copy()
        heated(own, boundary=border, cval=2, out=own)
        np.testing.assert_array_equal(own, wanted)
    turned = heated(field.T, boundary=border, cval=2, axes=(1, 0))
    np.testing.assert_array_equal(turned.T, wanted)
    stack = heated(np.stack([field, field]), boundary=border, cval=2)
    np.testing.assert_array_equal(stack, [wanted, wanted])
    named = heated(xr.DataArray(field, dims=("y", "x")), boundary=border, cval=2)
    np.testing.assert_array_equal(named, wanted)
    lazily = npt.lazy(field)
    np.testing.assert_array_equal(heated(lazily, boundary=border, cval=2).compute(), wanted)
    some = heated(field, boundary=border, cval=2, every=(2, 3))
    np.testing.assert_array_equal(some, wanted[::2, ::3])
    if way == "one block":
        return
    for chunks in [(5, 7), (1, 19)]:
        on_chunks(heated, wanted, chunks, boundary=border, cval=2)
        on_chunks(partial(heated, every=(2, 3)), some, chunks, boundary=border, cval=2)
    if "keep" not in str(border) and "array" not in str(border) and "wall" not in str(border):
        made = far(field, field[::-1], boundary=border, cval=2)
        both = far(da.from_array(field, chunks=(5, 7)), field[::-1], boundary=border, cval=2)
        for part, other in zip(both, made, strict=True):
            np.testing.assert_array_equal(part.compute(scheduler="sync"), other)


def test_two_results_and_lengths(limited: Any) -> None:
    small = rng.random((5, 7))
    border = (npt.dirichlet(wall, at="cell"), (npt.robin(1, 2, np.arange(5)), npt.neumann(0.5)))
    same(far, small, small[::-1], boundary=border)
    wide = rng.random((12, 14))
    border = (npt.dirichlet(wall, at="cell"), (npt.robin(1, 2, np.arange(12)), "nearest"))
    for way in ("slabs and ends", "one block"):
        done(way, limited)
        same(far, wide, wide[::-1], boundary=border)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_arrays_shorter_than_the_reach(n: int) -> None:
    sides = [
        npt.robin(1, 2, 3), npt.neumann(0.5), npt.dirichlet(7, at="face"), npt.extrapolate(n - 1),
        "mirror", "reflect", "nearest", "constant", "fill", "valid",
    ]  # fmt: skip
    for before, after in itertools.product(sides, sides):
        same(line, np.arange(1.0, n + 1), boundary=((before, after),), cval=5)


def test_positions(limited: Any) -> None:
    """Positions are those of the whole array, also beside ghosts."""

    @npt.stencil
    def placed(u):
        i, j = npt.index(u)
        p, q = npt.index()
        d = u[0, 0] * i + j
        return d[-1, 0] + d[0, 2] + 100 * p + q

    border = (npt.dirichlet(columns, at="cell"), ("valid", npt.neumann(2.0)))
    wanted = placed.debug(field, boundary=border)
    np.testing.assert_array_equal(placed(field, boundary=border), wanted)
    on_chunks(placed, wanted, boundary=border)
    for way in ("slabs and ends", "one block"):
        done(way, limited)
        np.testing.assert_array_equal(placed(field, boundary=border), wanted)
    same(placed, field, boundary=border, every=(2, 3))
    same(placed, field, boundary=(npt.robin(1, 2, 3), "wrap"), every=(2, 3))


def test_positions_beside_lengths_on_dask_arrays() -> None:
    """Blocks that are told the lengths were given the positions as further fields."""

    @npt.stencil
    def last(u):
        return u[0, 1] * len(u) + npt.index(u)[0]

    border = (("constant", npt.dirichlet(3, at="cell")), ("fill", npt.neumann(1)))
    cut = last(da.from_array(field, chunks=(5, 7)), boundary=border)
    wanted = last.debug(field, boundary=border)
    np.testing.assert_array_equal(cut.compute(scheduler="sync"), wanted)


def test_names_for_the_same() -> None:
    for stencil, fields in ((heat, (field,)), (far, (field, field[::-1]))):
        for one, name in ((npt.dirichlet(3, at="cell"), "constant"), (npt.neumann(0), "reflect")):
            np.testing.assert_array_equal(
                np.array(stencil(*fields, boundary=one)),
                np.array(stencil(*fields, boundary=name, cval=3)),
            )
    mixed = ((npt.robin(0, 2, 1), npt.robin(2, 0, 1)), "wrap")
    apart = ((npt.neumann(0.5), npt.dirichlet(0.5, at="face")), "wrap")
    np.testing.assert_allclose(heat(field, boundary=mixed), heat(field, boundary=apart))
    bytes_ = np.arange(6, dtype="uint8")
    same(line, bytes_, boundary=((npt.dirichlet(7, at="cell"), npt.dirichlet(9, at="cell")),))
    same(line, bytes_ > 2, boundary=((npt.dirichlet(True, at="cell"), npt.neumann(0)),))
    same(line, field[0] + 1j, boundary=((npt.dirichlet(1j, at="cell"), npt.robin(1, 1j, 2)),))
    same(line, field[0].astype("float16"), boundary=((npt.neumann(1), npt.robin(1, 1, 2)),))


def test_values_are_laid_as_the_fields_are() -> None:
    """Also along other axes than the last, where the stack comes last."""
    image = rng.random((6, 7, 3))
    ends, slopes = rng.random((7, 3)), rng.random((6, 1))
    border = (npt.dirichlet(ends, at="cell"), (npt.neumann(slopes), "nearest"))
    made = heat(image, boundary=border, axes=(0, 1))
    np.testing.assert_array_equal(made, heat.debug(image, boundary=border, axes=(0, 1)))
    for k in range(3):
        one = (npt.dirichlet(ends[:, k], at="cell"), (npt.neumann(slopes[:, 0]), "nearest"))
        np.testing.assert_array_equal(made[..., k], heat(image[..., k], boundary=one))
    named = xr.DataArray(image, dims=("y", "x", "c"))
    values = xr.DataArray(rng.random((3, 7)), dims=("c", "x"))
    by_name = heat(named, boundary=(npt.dirichlet(values, at="cell"), "wrap"), dims=("y", "x"))
    plain = heat(image, boundary=(npt.dirichlet(values.data.T, at="cell"), "wrap"), axes=(0, 1))
    np.testing.assert_array_equal(by_name, plain)


def test_each_image_of_a_stack_that_is_copied_has_its_own_values(limited: Any) -> None:
    limited(block_elements=100)

    @npt.stencil
    def apart(x):
        return x[1, 0] - x[-1, 0]

    x, values = np.random.default_rng(3).random((6, 9, 8)), np.arange(48.0).reshape(6, 8)
    wanted = [
        apart(one, boundary=((npt.dirichlet(own), "nearest"), "nearest"))
        for one, own in zip(x, values, strict=True)
    ]
    for view in (x, np.repeat(x, 2, -1)[..., ::2], x.astype(">f8")):
        got = apart(view, boundary=((npt.dirichlet(values), "nearest"), "nearest"))
        np.testing.assert_array_equal(got, wanted)


@npt.stencil
def corners(x):
    """Neighbours beyond two sides at once."""
    return x[-1, -1] + 2 * x[1, 1] - x[-1, 1]


@pytest.mark.parametrize("name", ["constant", "mirror", "wrap"])
@pytest.mark.parametrize("axis", [0, 1])
def test_names_beside_conditions(name: str, axis: int) -> None:
    x = rng.random((4, 5))
    border: list[Any] = [name, name]
    border[axis] = (npt.dirichlet(2.0), npt.neumann(0.5))
    for _ in range(2):
        made = corners(x, boundary=tuple(border), cval=7)
        np.testing.assert_allclose(made, corners.debug(x, boundary=tuple(border), cval=7))


def test_values_may_change_between_calls() -> None:
    values = np.zeros(19)
    border = (npt.dirichlet(values, at="cell"), "wrap")
    first = heat(field, boundary=border)
    values[:] = 3
    np.testing.assert_array_equal(heat(field, boundary=border), heat.debug(field, boundary=border))
    assert (heat(field, boundary=border) != first).any()
    on_chunks(heat, None, boundary=border)
    for value in (1.0, 2.0, 1.0):
        border = ((npt.dirichlet(value, at="cell"), npt.dirichlet(0.0, at="cell")), "wrap")
        np.testing.assert_array_equal(
            heat(field, boundary=border), heat.debug(field, boundary=border)
        )


@pytest.mark.parametrize("shape", [(6, 7), (2, 3, 5, 6)])
def test_equal_calls_with_other_values(shape: tuple[int, ...]) -> None:
    """What is kept of a call does not depend on values, save that some of them mean a name."""

    def borders(value: float, values: Any, slope: float) -> Any:
        yield (npt.dirichlet(value, at="cell"), npt.robin(value, 1.0, values[:-1]))
        yield (
            (npt.dirichlet(values, at="cell"), npt.dirichlet(value, at="face")),
            npt.neumann(slope),
        )
        yield ((npt.dirichlet(value, at="cell"), npt.dirichlet(2.0, at="cell")), "nearest")
        yield (npt.neumann(slope), "mirror")
        yield (
            (npt.neumann(lambda step, j: j * slope), "fill"),
            (npt.robin(1.0, 1.0, slope), "keep"),
        )

    for value, slope in ((1.0, 0.5), (2.0, 0.0), (-3.0, 0.5), (2, 0)):
        fresh, values = rng.random(shape), rng.random(shape[-1])
        for border in borders(abs(value), values, slope):
            made = heat(fresh, 0.1 * value, boundary=border)
            np.testing.assert_array_equal(made, heat.debug(fresh, 0.1 * value, boundary=border))
    for one in (300, -1):
        with pytest.raises(ValueError, match="whole numbers from 0 to 255"):
            line(
                np.ones(9, "uint8"),
                boundary=((npt.dirichlet(one, at="cell"), npt.dirichlet(7, at="cell")),),
            )
        line(
            np.ones(9, "uint8"),
            boundary=((npt.dirichlet(3, at="cell"), npt.dirichlet(7, at="cell")),),
        )


def test_whole_numbers_are_computed_with_double_precision() -> None:
    value, values = np.uint8(200), np.full(19, 200, "uint8")
    for one in (npt.dirichlet(value, at="face"), npt.robin(value, value, np.uint8(255))):
        same(line, np.arange(5.0), boundary=one)
    assert line(np.zeros(4), boundary=npt.dirichlet(value, at="face"))[0] == 3 * 400
    assert heat(field * 0, boundary=(npt.dirichlet(values, at="face"), "fill"))[0, 1] == 100


def test_stages_and_pickles() -> None:
    @npt.stencil(boundary=npt.neumann(1.0))
    def slope(u):
        return u[1] - u[-1]

    @npt.stencil
    def curved(u):
        s = slope(u)
        return s[-1] + s[1]

    row = field[0]
    again = pickle.loads(pickle.dumps(curved))
    for border in ("nearest", npt.dirichlet(2.0, at="cell"), npt.neumann(np.float32(1.5))):
        wanted = curved.debug(row, boundary=border)
        np.testing.assert_array_equal(again(row, boundary=border), wanted)
        cut = curved(da.from_array(row, chunks=4), boundary=border)
        np.testing.assert_array_equal(cut.compute(scheduler="sync"), wanted)
        lazily = slope(curved(npt.lazy(row), boundary=border))
        np.testing.assert_array_equal(lazily.compute(), slope(wanted))
    assert "stored whole: values at the border" in curved.explain(row)
    assert "border npt.neumann(1.0)" in curved.explain(row)
    packed = pickle.loads(pickle.dumps(npt.dirichlet(columns, at="cell")))
    np.testing.assert_array_equal(packed.c, columns)


def test_a_stage_with_a_function_at_the_border() -> None:
    @npt.stencil(boundary=npt.dirichlet(lambda step: step + 3, at="cell"))
    def before(u):
        return u[-1]

    @npt.stencil
    def twice(u):
        return 2 * before(u)[0]

    wanted = [6, 2, 4]
    row = np.array([1, 2, 3])
    assert twice(row).tolist() == twice.debug(row).tolist() == wanted
    with pytest.raises(TypeError, match="border values of lazy arrays are numbers"):
        twice(da.from_array(row, chunks=2))


@pytest.mark.parametrize(
    "border",
    [
        lambda wall: (npt.dirichlet(wall, at="cell"), npt.neumann(rows)),
        lambda wall: (npt.robin(1, 2, wall), "wrap"),
        lambda wall: npt.dirichlet(2.0, at="cell"),
        lambda wall: ((npt.extrapolate(1), npt.dirichlet(2.0)), npt.extrapolate(0)),
    ],
    ids=["values", "function", "number", "polynomial"],
)
def test_steps(border: Any) -> None:
    wanted = field
    for start in range(4):
        wanted = heat.debug(wanted, boundary=border(lambda step, j, start=start: wall(start, j)))
    border = border(wall)
    seen: list[Any] = []
    made = heat.iterate(
        field, steps=4, boundary=border, callback=lambda step, u: seen.append((step, u.copy()))
    )
    np.testing.assert_array_equal(made, wanted)
    assert [step for step, _ in seen] == [4] if len(seen) == 1 else [1, 2, 3, 4]
    own = field.copy()
    heat.iterate(own, lambda step: 0.25, steps=4, boundary=border, out=own, until=1e-9)
    np.testing.assert_array_equal(own, wanted)
    on_chunks(partial(heat.iterate, steps=4), wanted, (6, 7), boundary=border)
    named = heat.iterate(xr.DataArray(field, dims=("y", "x")), steps=4, boundary=border)
    np.testing.assert_array_equal(named, wanted)
    assert heat.iterate(field, steps=0, boundary=border) is not field


def test_named_values() -> None:
    image = xr.DataArray(field.T, dims=("x", "y"))
    border = ("wrap", npt.dirichlet(xr.DataArray(rows, dims="y"), at="cell"))
    wanted = heat(field, boundary=("wrap", npt.dirichlet(rows, at="cell")))
    np.testing.assert_array_equal(heat(image, boundary=border, dims=("y", "x")).T, wanted)
    steps = heat.iterate(image.T, steps=2, boundary=border)
    np.testing.assert_array_equal(
        steps, heat(wanted, boundary=("wrap", npt.dirichlet(rows, at="cell")))
    )


@pytest.mark.parametrize(
    ("border", "exact"),
    [
        ((npt.dirichlet(1.0), npt.dirichlet(3.0)), lambda x: 1 + 2 * x),
        ((npt.dirichlet(1.0), npt.neumann(2.0, dx=1 / 4)), lambda x: 1 + 2 * x),
        (
            (npt.robin(1.0, 1.0, 0.0, dx=1 / 4), npt.dirichlet(4.0)),
            lambda x: 2 + 2 * x,
        ),
    ],
    ids=["dirichlet", "neumann", "robin"],
)
def test_steady_heat(border: Any, exact: Callable[[Any], Any]) -> None:
    """A rod of 4 cells between 0 and 1 ends at the straight line that the equation has."""
    made = heat.iterate(np.zeros((4, 1)), 0.4, steps=300, boundary=(border, "nearest"))
    np.testing.assert_allclose(made[:, 0], exact((np.arange(4) + 0.5) / 4), rtol=1e-3)


def test_what_flows_is_what_is_gained() -> None:
    """Nothing is lost through a wall without slope; what a slope lets in is as much as it says."""
    still = heat.iterate(field, 0.2, steps=9, boundary=npt.neumann(0))
    np.testing.assert_allclose(still.sum(), field.sum())
    fed = heat.iterate(field, 0.2, steps=9, boundary=((npt.neumann(0.5), npt.neumann(0)), "wrap"))
    np.testing.assert_allclose(fed.sum() - field.sum(), 9 * 0.2 * 0.5 * len(columns))


@pytest.mark.parametrize(
    ("q", "shape", "dtype"),
    only(6, itertools.product([1, 2], [(3, 4), (17, 19), (70, 300)], ["f4", "f8", "c16"])),
)
def test_differences_on_a_polynomial_are_those_of_numpy(q: int, shape: Any, dtype: str) -> None:
    u = (rng.random(shape) * (1 + 1j) if dtype == "c16" else rng.random(shape)).astype(dtype)
    made = line_slope(u, boundary=npt.extrapolate(q))
    np.testing.assert_allclose(made, np.gradient(u, axis=1, edge_order=q), rtol=1e-4, atol=1e-6)
    made = line_slope(u, boundary=npt.extrapolate(q), axes=0)
    np.testing.assert_allclose(made, np.gradient(u, axis=0, edge_order=q), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("q", range(4))
def test_polynomials_go_on(q: int) -> None:
    x = np.arange(9.0)
    made = line(x**q, boundary=npt.extrapolate(q))
    np.testing.assert_allclose(made, (x - 3) ** q + 2 * (x - 1) ** q + 4 * (x + 2) ** q)


# Others are on the pages of messages about borders and calls.
MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "unfit steps": (
        lambda: far.iterate(
            np.zeros((3, 3), "f2"), field, boundary=npt.dirichlet(1e5, at="cell"), steps=1
        ),
        ValueError,
        "the values of npt.dirichlet do not fit field 'u', which is float16; use numbers up to "
        "6.55e+04, or convert the field.",
    ),
    "gpu": (
        lambda: heat(field, boundary=npt.neumann(1.0), device="cuda"),
        TypeError,
        'a GPU knows no border values but npt.dirichlet(number, at="cell") and npt.neumann(0); '
        "leave out device=, give arrays of NumPy, or name a border rule.",
    ),
    "processes": (
        lambda: heat.iterate(field, steps=2, boundary=npt.neumann(1.0), comm=object()),
        TypeError,
        'comm= knows no border values but npt.dirichlet(number, at="cell") and npt.neumann(0): '
        "each process has another part of the border; name a border rule.",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, kind, words = MISTAKES[name]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == words


def test_some_points_of_results_that_look_to_different_sides() -> None:
    for shape in [(2, 3), (17, 19)]:
        u, v = rng.random(shape).astype("f2"), rng.random(shape).astype("f2")
        for border in (npt.neumann(0.5), (npt.dirichlet(2.0), "mirror")):
            wanted = far.debug(u, v, boundary=border)
            made = far(u, v, boundary=border, every=2)
            for one, other in zip(made, wanted, strict=True):
                np.testing.assert_array_equal(one, other[::2, ::2])


def test_values_that_no_result_looks_at_are_not_asked_for() -> None:
    def one(x):
        if x[-2, 0] > 1:
            unused = x[-2, 1] + 1
            unused += 1
        return x[1, 0] * 2

    x, nobody = np.arange(12.0).reshape(4, 3), npt.dirichlet(np.zeros(7))
    border = ((nobody, "mirror"), "nearest")
    stencil = npt.stencil(one)
    np.testing.assert_array_equal(stencil.debug(x, boundary=border), stencil(x, boundary=border))


def test_values_that_do_not_fit_are_refused_beside_no_elements_too() -> None:
    @npt.stencil
    def across(u):
        return u[-1, 0] + u[0, 1]

    empty = np.empty((2, 0))
    assert across(empty, boundary=("nearest", npt.dirichlet(np.ones(2)))).shape == (2, 0)
    for call in (across, across.debug):
        with pytest.raises(ValueError, match=r"values of shape \(3,\), and the edge has"):
            call(empty, boundary=("nearest", npt.dirichlet(np.ones(3))))


def test_values_along_an_edge_of_no_length() -> None:
    x = np.empty((0, 4))
    for value in (np.zeros(0), np.zeros((0, 1))[:, 0], lambda step, i: np.zeros(len(i))):
        same(heat, x, boundary=("nearest", npt.dirichlet(value, at="cell")))


def test_each_call_has_its_own_values_beside_positions():
    @npt.stencil
    def moved(x):
        return x[-1, 0] + npt.index(x)[0]

    x = np.arange(20.0).reshape(4, 5)
    for value in (np.arange(5.0), 2 * np.arange(5.0)):
        boundary = npt.dirichlet(value, at="cell"), "nearest"
        np.testing.assert_array_equal(
            moved(x, boundary=boundary), moved.debug(x, boundary=boundary)
        )
