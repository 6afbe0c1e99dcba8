"""Results of fewer or of more points than their fields have: `every=` and `upsample=`."""

import pickle
from random import Random

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import kernels
import ninepoint as npt
from compared import each, refuses, same
from seams import interpreted

RNG = np.random.default_rng(3)
FILM = RNG.integers(0, 200, (2, 7, 10)).astype("uint8")


@npt.stencil(boundary="reflect")
def smooth(x):
    return x[-1:2, -1:2].mean()


@npt.stencil(every=(2, 3), boundary="reflect")
def thin(x):
    return x[-1:2, -1:2].mean()


alike = npt.stencil(lambda x: 3 * x[-3, 0] - x[2, -2] + x[0:2, 0:3].max())


@npt.stencil(boundary="wrap")
def pyramid(x):
    half = smooth(x, every=2)
    low = smooth(half, every=(2, 1))
    return low[0, 0], low[0, 1] - low[-1, 0]


def of_pyramid(x):
    low = smooth(smooth(x)[..., ::2, ::2])[..., ::2, :]
    return low, np.roll(low, -1, -1) - np.roll(low, 1, -2)


@pytest.mark.parametrize("shape", [(7, 10), (2, 8, 9), (1, 1), (2, 3), (0, 5), (5, 0)])
def test_the_result_is_a_part_of_the_full_one(shape):
    """As random programs compare it, in stages too."""
    x = RNG.normal(size=shape)
    for _ in range(3):
        same(thin(x), smooth(x)[..., ::2, ::3])
        same(smooth(x, every=(1, 4)), smooth(x)[..., ::4])
        same(pyramid(x), of_pyramid(x))
        x = -x
    out = np.empty(thin(x).shape, "float32")
    assert thin(x, out=out) is out
    same(out, pickle.loads(pickle.dumps(thin))(x).astype("float32"))
    lazy = da.from_array(x, chunks=3 if x.size else -1)
    same(da.compute(*pyramid(lazy), scheduler="sync"), of_pyramid(x))


def test_labels_are_those_of_the_points_and_axes_may_be_in_another_order():
    coords = {"y": np.arange(7.0), "x": np.arange(10) * 2, "name": ("y", list("abcdefg"))}
    image = xr.DataArray(FILM, coords, ("t", "y", "x"), name="t2m", attrs={"units": "K"})
    for field in (image, image.chunk({"y": 3, "x": 4})):
        wanted = smooth(image).isel(y=slice(None, None, 2), x=slice(None, None, 3))
        xr.testing.assert_identical(thin(field).compute(), wanted)
        wanted = smooth(image, boundary="valid").isel(y=slice(None, None, 3))
        made = smooth(field, boundary="valid", every=(3, 1))
        xr.testing.assert_identical(made.compute(), wanted)
        refuses(ValueError, "every= or upsample= inside a kernel moves", pyramid, field)
        low = smooth(smooth(npt.lazy(field), every=2), every=(2, 1)).compute().compute()
        assert low.y.values.tolist() == [0.0, 4.0]
        assert low.x.values.tolist() == [0, 4, 8, 12, 16]
        same(low.values, of_pyramid(FILM)[0])
    x = RNG.integers(0, 99, (13, 11)).astype("int16")
    low = smooth(smooth(npt.lazy(x), axes=(1, 0), every=(3, 2)), axes=(1, 0))
    same(low, smooth(np.ascontiguousarray(smooth(x)[::2, ::3]), axes=(1, 0)))


def test_what_is_smaller_does_not_go_with_what_is_not_nor_a_wrong_every():
    @npt.stencil
    def mixed(x):
        half = smooth(x, every=2)
        return half[0, 0] + x[0, 0]

    for field in (FILM, da.from_array(FILM), npt.lazy(FILM)):
        refuses(ValueError, r"'smooth' makes 'half' smaller by every=2; give", mixed, field)
    with pytest.raises(ValueError, match=r"every=\(2, 3\) of 'thin' makes the state smaller"):
        thin.iterate(FILM.astype(float), steps=2)
    with pytest.raises(ValueError, match="every=2 of 'smooth' makes the state smaller"):
        pyramid.iterate(np.ones((1, 1)), steps=2)
    # As those of calls, which are on the page of messages about options.
    with pytest.raises(ValueError, match="has 3 entries, but the stencil has 2 axes"):
        npt.stencil(every=(2, 2, 2))(lambda x: x[0, 0])(FILM)
    assert "every       (2, 3): one of 6 points is made" in thin.explain("uint8")
    assert "border 'reflect', every (2, 1)" in pyramid.explain("float32")


@pytest.mark.parametrize(
    ("border", "every"), [("constant", (3, 3)), (("keep", ("valid", "fill")), (1, 4))], ids=str
)
def test_large_images_have_their_ends_apart(border, every):
    x = RNG.integers(0, 99, (301, 410)).astype("float32")
    for cut in (x, x[:150, 1:], x.T):
        wanted = alike(cut, boundary=border)[:: every[0], :: every[1]]
        for threads in (1, 2):
            same(alike(cut, boundary=border, every=every, threads=threads), wanted)


@pytest.mark.parametrize("border", ["keep", "valid"])
def test_stacks_that_lie_innermost(border):
    colours = np.moveaxis(FILM, 0, -1).copy()
    wanted = alike(colours, axes=(0, 1), boundary=border)
    for down, along in [(2, 1), (3, 2)]:
        options = {"axes": (0, 1), "every": (down, along), "boundary": border}
        part = wanted[::down, ::along]
        for _ in range(2):
            same(alike(colours, **options), part)
        out = np.empty_like(part)
        assert alike(colours, **options, out=out) is out
        same(out, part)


def test_a_step_that_no_integer_of_64_bits_holds():
    """Such a number stood in the text that Numba was given."""
    same(smooth(FILM, every=10**30), smooth(FILM)[..., :1, :1])
    same(smooth(da.from_array(FILM, (1, 4, 4)), every=(1, 2**63)), smooth(FILM)[..., :1])


@npt.stencil(boundary="nearest", upsample=(2, 2))
def bilinear(x):
    i, j = npt.index()
    down, right = 2 * (i % 2) - 1, 2 * (j % 2) - 1
    near = 3 * x[0, 0] + x[0, right]
    far = 3 * x[down, 0] + x[down, right]
    return (3 * near + far) / 16


@npt.stencil(boundary="nearest", upsample=(3, 2))
def several(x, y, gain=2):
    i, j = npt.index()
    a = x[i // 3, (j + 1) // 2] if i % 3 else y[0, 0]
    return gain * a, y[(i + 4) // 3 - 1, j // 2] - x[0, -1]


@npt.stencil
def detail(fine, coarse):
    up = bilinear(coarse)
    return fine[0, 0] - up[0, 0]


@npt.stencil
def edges(coarse):
    up = bilinear(coarse)
    return up[0, 1] - up[0, -1]


SMALL = np.random.default_rng(0).random((5, 7)).astype("float32")
FINE = np.random.default_rng(1).random((9, 14)).astype("float32")


def test_the_result_reads_around_the_element_that_it_is_near():
    linear = npt.stencil(lambda x: (3 * x[0] + x[2 * (npt.index() % 2) - 1]) // 4, upsample=2)
    row = np.array([0, 4, 8, 8])
    assert linear(row, boundary="nearest").tolist() == [0, 1, 3, 5, 7, 8, 8, 8]
    assert linear(row, cval=9).tolist() == [9, 9, 3, 5, 7, 8, 9, 9]
    assert linear(row, boundary="keep").tolist() == [0, 0, 3, 5, 7, 8, 8, 8]
    assert linear(row, boundary="valid").tolist() == [3, 5, 7, 8]
    assert linear(row, boundary="wrap").tolist() == [2, 1, 3, 5, 7, 8, 8, 6]
    shifted = npt.stencil(lambda x: 10 * x[npt.index() >> 1] + (npt.index() & 1), upsample=2)
    for made in (shifted(np.arange(4)), shifted.debug(np.arange(4))):
        assert made.tolist() == [0, 1, 10, 11, 20, 21, 30, 31]


def random_text(rng: Random, ndim: int, factors: tuple[int, ...]) -> str:
    names = ["i", "j"][:ndim]

    def offset(name: str, k: int) -> str:
        moved = f"({name} + {rng.randint(-4, 4)}) // {rng.choice([f'{k}', f'({k} * 1)'])}"
        doubled, number = f"(2 * {name} - 1) // (2 * {k})", str(rng.randint(-2, 2))
        return rng.choice([number, number, moved, f"{moved} - 1", doubled])

    def read(field: str) -> str:
        starts = [offset(name, k) for name, k in zip(names, factors, strict=True)]
        if rng.random() < 0.5:
            return f"{field}[{', '.join(starts)}]"
        window = [rng.choice([one, f"{one}:{one} + 2"]) for one in starts]
        window[rng.randrange(ndim)] = "-1:2"
        return f"{field}[{', '.join(window)}].{rng.choice(['sum', 'max'])}()"

    def result() -> str:
        a, b, c, d = (read(field) for field in rng.sample("xxyy", 4))
        phase = "{} % {}".format(*rng.choice(list(zip(names, factors, strict=True))))
        choice = f"({a} if {phase} == {rng.randrange(max(factors))} else {b})"
        return rng.choice([f"{choice} - max({c}, {d})", f"({phase} - 1) * {c} + {choice} - {d}"])

    results = ", ".join(result() for _ in range(rng.choice([1, 1, 2])))
    return f"def kernel(x, y):\n    {', '.join(names)} = npt.index()\n    return {results}\n"


def test_random_kernels_agree_with_the_definition():
    for seed in range(30):
        rng = Random(seed)
        ndim = rng.choice([1, 2, 2])
        factors = tuple(rng.choice([1, 2, 2, 3]) for _ in range(ndim))
        factors = factors if max(factors) > 1 else (2, *factors[1:])
        function = kernels.compiled(random_text(rng, ndim, factors), names={"npt": npt})
        shape = kernels.random_shape(rng, ndim)
        arrays = [np.array(rng.choices(range(100), k=int(np.prod(shape)))) for _ in "xy"]
        fields = [one.reshape(shape).astype("uint8") for one in arrays]
        border = kernels.random_boundary(rng, ndim)
        stencil = npt.stencil(upsample=factors)(function)
        options = {"boundary": border, "cval": 7}
        wanted = each(stencil.debug(*fields, **options))
        chunks = [da.from_array(one, chunks=2) if one.size else one for one in fields]
        with interpreted():
            made = each(stencil(*fields, **options))
            cut = da.compute(*each(stencil(*chunks, **options)), scheduler="sync")
        assert all(map(np.array_equal, made, wanted)), seed
        assert all(map(np.array_equal, cut, wanted)), seed


def test_other_places():
    stack = np.random.default_rng(2).integers(0, 99, (3, 5, 4)).astype("int16")
    other = stack[1]
    wanted = tuple(map(np.stack, zip(*(several.debug(one, other) for one in stack), strict=True)))
    turned = several(stack.transpose(1, 2, 0), other[..., None], axes=(0, 1))
    same(tuple(one.transpose(2, 0, 1) for one in turned), wanted)
    lazily = several(da.from_array(stack, chunks=(2, 3, 2)), other)
    same(lazily, wanted)
    for place in np.ndindex(*lazily[0].numblocks):
        block = lazily[0].blocks[place].compute(scheduler="sync")
        assert block.shape == tuple(lazily[0].chunks[k][n] for k, n in enumerate(place))
    outs = tuple(np.zeros((*one.shape, 2), one.dtype)[..., 0] for one in wanted)
    for made in (several(stack, other, out=outs), outs):
        same(made, wanted)
    with pytest.raises(ValueError, match=r"out has shape \(5, 4\), but the result has \(10, 8\)"):
        bilinear(stack[0], out=np.empty((5, 4)))


def test_a_stage_is_read_on_the_finer_grid_and_cut_beside_what_is_shorter():
    up = bilinear(SMALL)
    same(edges.debug(SMALL), edges(SMALL))
    for made in (
        detail.debug(FINE, SMALL), detail(FINE, SMALL), detail(npt.lazy(FINE), npt.lazy(SMALL)),
        detail(cut(FINE), cut(SMALL)), detail(FINE, cut(SMALL)),
    ):  # fmt: skip
        same(made, FINE - up[:9])
    same(bilinear(bilinear(cut(SMALL))), bilinear(up))
    same(bilinear(bilinear(npt.lazy(SMALL))), bilinear(up))
    refuses(ValueError, "'up' is longer by upsample=", detail, FINE[:7], SMALL)

    @npt.stencil
    def apart(x):
        half = halved(x)
        return half[0, 0] + halved(sum_of(x, bilinear(half)))[0, 0]

    for shape in ((7, 6), (9, 5)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        same(apart.debug(x), apart(x))


halved = npt.stencil(lambda x: x[0, 0], every=2)
sum_of = npt.stencil(lambda x, y: x[0, 0] + y[0, 0])


def cut(array):
    return da.from_array(array, chunks=(4, 3))


def test_labels_are_those_of_the_finer_points():
    x = xr.DataArray(
        SMALL, dims=("lat", "lon"), attrs={"units": "K"}, name="t",
        coords={"lat": 2 * np.arange(5), "lon": [0, 1, 2, 4, 5, 6, 7], "height": 3,
                "word": ("lat", list("abcde")),
                "time": ("lat", np.arange(5).astype("M8[h]").astype("M8[s]"))},
    )  # fmt: skip
    made = bilinear(x)
    same(made.data, bilinear(SMALL))
    assert (made.attrs, made.name) == (x.attrs, "t")
    assert set(made.coords) == {"lat", "height", "time"}
    assert made.lat.values.tolist() == [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5]
    assert made.time.values[1] == np.datetime64("1970-01-01T00:15")
    inside = bilinear(x, boundary="valid")
    assert inside.lat.values.tolist() == [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    for other in (x.chunk(lat=2), npt.lazy(x)):
        assert bilinear(other).compute().identical(made)
    assert bilinear(x.T, dims=("lat", "lon")).T.identical(made)
    refuses(ValueError, "upsample= inside a kernel moves the coordinates", edges, x)


def test_a_kernel_that_is_not_analysed_gives_the_same_around_each_element():
    @npt.stencil(
        upsample=2, boundary="nearest", neighborhood=((-1, 1),), performance_warnings=False
    )
    def count(x, n):
        total = 0.0
        for k in range(n):
            total += x[k - 1]
        return total

    row = np.arange(4.0)
    assert count(row, 3).tolist() == [1, 1, 3, 3, 6, 6, 8, 8]
    np.testing.assert_array_equal(count.debug(row, 3), count(row, 3))


def test_a_call_may_ask_for_other_factors_and_what_cannot_be_finer_says_so():
    nearest = npt.stencil(lambda x: x[0, 0])
    for factors in (2, (1, 3), [1, 3], np.int64(2), 1):
        k, n = np.broadcast_to(np.asarray(factors), 2)
        wanted = SMALL.repeat(k, 0).repeat(n, 1)
        same(nearest(SMALL, upsample=factors), wanted)
        same(nearest.debug(SMALL, upsample=factors), wanted)

    @npt.stencil
    def twice(x):
        s = nearest(x, upsample=(2, 1))
        return s[0, 0] - s[-1, 0]

    assert twice(SMALL).shape == (10, 7)
    same(twice(SMALL), twice.debug(SMALL))
    assert "2 x 2 results around each element" in bilinear.explain("uint8")
    assert bilinear.bench(SMALL, repeat=1).points == 140
    with pytest.raises(ValueError, match="iterate takes steps that leave all arrays as large"):
        bilinear.iterate(SMALL, steps=2)
    words = "a GPU computes no finer results"
    refuses(TypeError, words, bilinear.source, "float32", target="cuda")
    refuses(TypeError, words, bilinear, SMALL, device="cuda")


@npt.stencil(upsample=2, boundary="nearest")
def mixed(x):
    return x[1] - x[0] if npt.index() % 2 else x[0] > 3


def test_types_and_shapes_of_what_is_finer():
    # The type holds the results of all phases.
    made = mixed(np.array([9, 1], "uint8"))
    assert (made.dtype, made.tolist()) == (np.int16, [1, -8, 0, 0])
    # In the definition only what is read beside the kernel's own points is cut to their number.
    finer = npt.stencil(lambda x: x[0, 0] + x[0, 1], upsample=2)
    smaller = npt.stencil(lambda x: x[0, -1] - x[0, 0], boundary="valid")
    one = npt.stencil(lambda x: smaller(finer(x))[0, 1] * 2, boundary="nearest")
    x = np.arange(30.0).reshape(5, 6)
    same(one.debug(x), one(x))
    assert one(x).shape == (10, 11)
