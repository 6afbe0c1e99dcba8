"""Values, slopes and mixes at the border: by the reference, on every path, and their words."""

import itertools
import pickle
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import refuses
from compared import same as equal


@npt.stencil
def heat(u, r=0.25):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


@npt.stencil
def far(u, v):
    """Two results that look to different sides, as far as corners."""
    return u[-2, 0] + 3 * v[1, 1] + len(u), v[0, -1] - u[0, 2] * u.shape[1]


line = npt.stencil(lambda u: u[-3] + 2 * u[-1] + 4 * u[2])
line_slope = npt.stencil(lambda u: (u[1] - u[-1]) / 2)


def wall(step: int, j: Any) -> Any:
    return np.sin(0.3 * step) + j


rng = np.random.default_rng(5)
field = rng.random((17, 19))
rows, columns = rng.random(17), rng.random(19)


def same(stencil: npt.Stencil, *fields: Any, **options: Any) -> None:
    equal(stencil(*fields, **options), stencil.debug(*fields, **options))


def on_chunks(call: Any, wanted: Any, chunks: Any = (5, 7), **options: Any) -> None:
    """Numbers are laid beside chunks too; arrays and functions are refused."""
    cut = da.from_array(field, chunks=chunks)
    if any(word in str(options["boundary"]) for word in ("array", "wall", "function")):
        refuses(TypeError, "border values of lazy arrays are numbers", call, cut, **options)
    else:
        equal(call(cut, **options).compute(scheduler="sync"), wanted)


def in_pieces(limited: Any) -> None:
    """Have arrays, however small, done in slabs and ends as large ones are."""
    limited(whole_bytes=(0, 0, 0))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_arrays_shorter_than_the_reach(n: int) -> None:
    sides = [
        npt.robin(1, 2, 3), npt.neumann(0.5), npt.dirichlet(7, at="face"), npt.extrapolate(n - 1),
        "mirror", "reflect", "nearest", "constant", "fill", "valid",
    ]  # fmt: skip
    for before, after in itertools.product(sides, sides):
        same(line, np.arange(1.0, n + 1), boundary=((before, after),), cval=5)


@npt.stencil
def placed(u):
    i, j = npt.index(u)
    p, q = npt.index()
    d = u[0, 0] * i + j
    return d[-1, 0] + d[0, 2] + 100 * p + q + len(u)


def test_positions_are_those_of_the_whole_array_and_names_for_the_same(limited: Any) -> None:
    numbers = (("constant", npt.dirichlet(3, at="cell")), ("fill", npt.neumann(1)))
    laid = (npt.dirichlet(columns, at="cell"), ("valid", npt.neumann(2.0)))
    for border in (numbers, laid, (npt.robin(1, 2, 3), "wrap")):
        wanted = placed.debug(field, boundary=border)
        equal(placed(field, boundary=border), wanted)
        on_chunks(placed, wanted, boundary=border)
        same(placed, field, boundary=border, every=(2, 3))
    for value in (np.arange(19.0), 2 * np.arange(19.0)):
        # Each call has its own values.
        same(placed, field, boundary=(npt.dirichlet(value, at="cell"), "nearest"))
    in_pieces(limited)
    same(npt.stencil(placed.__wrapped__), field, boundary=laid)
    for stencil, fields in ((heat, (field,)), (far, (field, field[::-1]))):
        for one, name in ((npt.dirichlet(3, at="cell"), "constant"), (npt.neumann(0), "reflect")):
            equal(stencil(*fields, boundary=one), stencil(*fields, boundary=name, cval=3))
    assert repr(npt.dirichlet(7)) == "npt.dirichlet(7)"
    assert repr(npt.dirichlet(7, at="cell")) == "npt.dirichlet(7, at='cell')"
    mixed = ((npt.robin(0, 2, 1), npt.robin(2, 0, 1)), "wrap")
    apart = ((npt.neumann(0.5), npt.dirichlet(0.5, at="face")), "wrap")
    np.testing.assert_allclose(heat(field, boundary=mixed), heat(field, boundary=apart))


def test_values_are_laid_as_the_fields_are_and_whole_numbers_become_floats() -> None:
    """Also along other axes than the last, where the stack comes last."""
    image = rng.random((6, 7, 3))
    ends, slopes = rng.random((7, 3)), rng.random((6, 1))
    border = (npt.dirichlet(ends, at="cell"), (npt.neumann(slopes), "nearest"))
    made = heat(image, boundary=border, axes=(0, 1))
    equal(made, heat.debug(image, boundary=border, axes=(0, 1)))
    for k in range(3):
        one = (npt.dirichlet(ends[:, k], at="cell"), (npt.neumann(slopes[:, 0]), "nearest"))
        equal(made[..., k], heat(image[..., k], boundary=one))
    named = xr.DataArray(image, dims=("y", "x", "c"))
    values = xr.DataArray(rng.random((3, 7)), dims=("c", "x"))
    by_name = heat(named, boundary=(npt.dirichlet(values, at="cell"), "wrap"), dims=("y", "x"))
    plain = heat(image, boundary=(npt.dirichlet(values.data.T, at="cell"), "wrap"), axes=(0, 1))
    equal(by_name, plain)
    value, values = np.uint8(200), np.full(19, 200, "uint8")
    for one in (npt.dirichlet(value, at="face"), npt.robin(value, value, np.uint8(255))):
        same(line, np.arange(5.0), boundary=one)
    assert line(np.zeros(4), boundary=npt.dirichlet(value, at="face"))[0] == 3 * 400
    assert heat(field * 0, boundary=(npt.dirichlet(values, at="face"), "fill"))[0, 1] == 100


def test_each_image_of_a_stack_that_is_copied_has_its_own_values(limited: Any) -> None:
    limited(block_elements=100)

    apart = npt.stencil(lambda x: x[1, 0] - x[-1, 0])
    x, values = np.random.default_rng(3).random((6, 9, 8)), np.arange(48.0).reshape(6, 8)
    wanted = [
        apart(one, boundary=((npt.dirichlet(own), "nearest"), "nearest"))
        for one, own in zip(x, values, strict=True)
    ]
    for view in (x, np.repeat(x, 2, -1)[..., ::2], x.astype(">f8")):
        equal(apart(view, boundary=((npt.dirichlet(values), "nearest"), "nearest")), wanted)


@pytest.mark.parametrize("shape", [(6, 7), (2, 3, 5, 6)])
def test_equal_calls_with_other_values(shape: tuple[int, ...]) -> None:
    """What is kept of a call does not depend on values, save that some of them mean a name."""
    values, kept = np.zeros(shape[-1]), [npt.dirichlet(0.0), "mirror"]
    for number, slope in ((1.0, 0.5), (2.0, 0.0), (3.0, 0.5), (2, 0)):
        fresh, values[:] = rng.random(shape), rng.random(shape[-1])
        kept[0] = npt.dirichlet(number)
        cell, along = npt.dirichlet(number, at="cell"), lambda step, j, slope=slope: j * slope
        for border in (
            (cell, npt.robin(number, 1.0, values[:-1])),
            ((npt.dirichlet(values, at="cell"), npt.dirichlet(number)), npt.neumann(slope)),
            ((cell, npt.dirichlet(2.0, at="cell")), "nearest"),
            (npt.neumann(slope), "mirror"),
            kept,
            ((npt.neumann(along), "fill"), (npt.robin(1.0, 1.0, slope), "keep")),
        ):
            same(heat, fresh, 0.1 * number, boundary=border)
    for one in (300, -1):
        border = ((npt.dirichlet(one, at="cell"), npt.dirichlet(7, at="cell")),)
        with pytest.raises(ValueError, match="whole numbers from 0 to 255"):
            line(np.ones(9, "uint8"), boundary=border)
        line(np.ones(9, "uint8"), boundary=((npt.dirichlet(3, at="cell"), border[0][1]),))


slope = npt.stencil(lambda u: u[1] - u[-1], boundary=npt.neumann(1.0))
before = npt.stencil(lambda u: u[-1], boundary=npt.dirichlet(lambda step: step + 3, at="cell"))


@npt.stencil
def curved(u):
    s = slope(u)
    return s[-1] + s[1]


twice = npt.stencil(lambda u: 2 * before(u)[0])


def test_stages_and_pickles() -> None:
    row, again = field[0], pickle.loads(pickle.dumps(curved))
    for border in ("nearest", npt.dirichlet(2.0, at="cell"), npt.neumann(np.float32(1.5))):
        wanted = curved.debug(row, boundary=border)
        cut = curved(da.from_array(row, chunks=4), boundary=border)
        for made in (again(row, boundary=border), cut.compute(scheduler="sync")):
            equal(made, wanted)
    assert "stored whole: values at the border" in curved.explain(row)
    assert "border npt.neumann(1.0)" in curved.explain(row)
    equal(pickle.loads(pickle.dumps(npt.dirichlet(columns, at="cell"))).values[0], columns)
    # A stage may have a function at its border.
    row = np.array([1, 2, 3])
    assert twice(row).tolist() == twice.debug(row).tolist() == [6, 2, 4]
    with pytest.raises(TypeError, match="border values of lazy arrays are numbers"):
        twice(da.from_array(row, chunks=2))


def test_steps_also_to_steady_heat() -> None:
    wanted = field
    for start in range(4):
        now = lambda step, j, start=start: wall(start, j)  # noqa: E731
        border = (npt.dirichlet(now, at="cell"), npt.neumann(rows))
        wanted = heat.debug(wanted, boundary=border)
    border = (npt.dirichlet(wall, at="cell"), npt.neumann(rows))
    own = field.copy()
    heat.iterate(own, lambda step: 0.25, steps=4, boundary=border, out=own, until=1e-9)
    equal(own, wanted)
    on_chunks(partial(heat.iterate, steps=4), wanted, (6, 7), boundary=border)
    equal(heat.iterate(xr.DataArray(field), steps=4, boundary=border), wanted)
    # A rod of 4 cells between 0 and 1 ends at the straight line that the equation has.
    for border, first in (
        ((npt.dirichlet(1.0), npt.dirichlet(3.0)), 1),
        ((npt.dirichlet(1.0), npt.neumann(2.0, dx=1 / 4)), 1),
        ((npt.robin(1.0, 1.0, 0.0, dx=1 / 4), npt.dirichlet(4.0)), 2),
    ):
        made = heat.iterate(np.zeros((4, 1)), 0.4, steps=300, boundary=(border, "nearest"))
        np.testing.assert_allclose(made[:, 0], first + np.arange(1, 9, 2) / 4, rtol=1e-3)


@pytest.mark.parametrize("q", range(4))
def test_polynomials_go_on(q: int) -> None:
    x = np.arange(9.0)
    made = line(x**q, boundary=npt.extrapolate(q))
    np.testing.assert_allclose(made, (x - 3) ** q + 2 * (x - 1) ** q + 4 * (x + 2) ** q)
    if q in (1, 2):
        # Differences are those of NumPy.
        for shape, dtype in (((3, 4), "f8"), ((17, 19), "c16"), ((70, 300), "f4")):
            u = (rng.random(shape) * (1 + 1j if dtype == "c16" else 1)).astype(dtype)
            made = line_slope(u, boundary=npt.extrapolate(q))
            wanted = np.gradient(u, axis=1, edge_order=q)
            np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-6)


def test_what_knows_no_values_and_what_they_do_not_fit_says_so() -> None:
    # Others are on the pages of messages about borders and calls.
    unfit, slope = npt.dirichlet(1e5, at="cell"), npt.neumann(1.0)
    with pytest.raises(ValueError, match=r"'u', which is float16; use numbers up to 6.55e\+04"):
        far.iterate(np.zeros((3, 3), "f2"), field, boundary=unfit, steps=1)
    with pytest.raises(TypeError, match="has values at the border, which"):
        heat(field, boundary=slope, device="cuda")
    with pytest.raises(TypeError, match="comm= knows no border values but"):
        heat.iterate(field, steps=2, boundary=slope, comm=object())
    lazy = da.zeros((4, 4), chunks=2, dtype="uint8")
    with pytest.raises(TypeError, match="dirichlet at the face makes fractions, and field"):
        heat(lazy, boundary=npt.dirichlet(1))


def test_values_that_not_all_results_look_at_and_beside_no_elements() -> None:
    def one(x):
        if x[-2, 0] > 1:
            unused = x[-2, 1] + 1
            unused += 1
        return x[1, 0] * 2

    x, nobody = np.arange(12.0).reshape(4, 3), npt.dirichlet(np.zeros(7))
    same(npt.stencil(one), x, boundary=((nobody, "mirror"), "nearest"))
    across = npt.stencil(lambda u: u[-1, 0] + u[0, 1])
    empty = np.empty((2, 0))
    assert across(empty, boundary=("nearest", npt.dirichlet(np.ones(2)))).shape == (2, 0)
    for call in (across, across.debug):
        with pytest.raises(ValueError, match=r"values of shape \(3,\), and the edge has"):
            call(empty, boundary=("nearest", npt.dirichlet(np.ones(3))))
    for value in (np.zeros(0), np.zeros((0, 1))[:, 0], lambda step, i: np.zeros(len(i))):
        same(heat, np.empty((0, 4)), boundary=("nearest", npt.dirichlet(value, at="cell")))
    for u in (rng.random((2, 3)).astype("f2"), rng.random((17, 19)).astype("f2")):
        wanted = far.debug(u, u, boundary=npt.neumann(0.5))
        made = far(u, u, boundary=npt.neumann(0.5), every=2)
        equal(made, tuple(one[::2, ::2] for one in wanted))


def test_rules_with_names_hold_for_what_conditions_extend() -> None:
    """Beside a condition of the same axis too, where the array is shorter than the call looks."""
    before = npt.dirichlet(np.array([2.0, 2.0, 1.0, 0.5, 2.0])), "mirror"
    beside = npt.robin(1.5, 1, np.array([1.0, 2.0]), dx=0.5), npt.robin(0.0, 1, 2, dx=0.5)
    kernel = npt.stencil(lambda x: (x[-2, -1], x[2, -2]), boundary=(before, beside))
    x = np.random.default_rng(0).random((2, 5))
    for made, wanted in zip(kernel(x), kernel.debug(x), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-12)
