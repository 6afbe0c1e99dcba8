"""Stencils on NumPy arrays: borders, memory of any order, stacks innermost, out=, and threads."""

import warnings
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal as equal

import ninepoint as npt
from compared import most_memory, refuses, same, whole

pair = npt.stencil(lambda x, y, a: (x[-2, 1] + a * y[0, -1], x[1, 0] - y[0, 3]))


@pytest.fixture
def uneven() -> npt.Stencil:
    """A stencil that prepared nothing yet, so that limits hold."""
    return npt.stencil(lambda x: x[-1, 2] * 3 + x[0, -2] - x[2, 1])


PADDED = {"nearest": "edge", "reflect": "symmetric", "mirror": "reflect", "wrap": "wrap"}


@pytest.mark.parametrize("rule", PADDED)
@pytest.mark.usefixtures("as_python")
def test_arrays_far_smaller_than_the_footprint(rule: str) -> None:
    """Any reach on any length, as NumPy pads."""
    kernel = npt.stencil(lambda x: (x[-40], x[-13], x[2], x[41]))
    for n in (1, 2, 3, 7, 30):
        wide = np.pad(np.arange(n), 41, mode=PADDED[rule])
        for k, one in zip((-40, -13, 2, 41), kernel(np.arange(n), boundary=rule), strict=True):
            equal(one, wide[41 + k :][:n])


@pytest.mark.usefixtures("as_python")
def test_names_of_rules_and_pairs() -> None:
    kernel = npt.stencil(lambda x: x[-2, 2] - 3 * x[1, -1] + x[0, 0])
    x = whole(5, 6)
    for one, other in [
        ((("edge", "nearest"), "symmetric"), (("nearest", "nearest"), "reflect")),
        ("grid-mirror", "reflect"),
        (["grid-wrap", "grid-constant"], ("wrap", "constant")),
        (["periodic", ("fill", "symmetric")], ("wrap", ["fill", "reflect"])),
    ]:
        made = kernel(x, boundary=one, cval=3)
        equal(made, kernel(x, boundary=other, cval=3))


@pytest.mark.usefixtures("as_python")
def test_values_that_fit_and_one_that_is_refused_before_anything_runs() -> None:
    for cval, dtype in [
        (2.0, "i4"), (255, "u1"), (True, "u1"), (np.int16(-4), "i1"), (0.1, "f4"), (np.inf, "f4"),
        (np.nan, "f4"), (-0.0, "f8"), (1 + 2j, "c8"), (2**64 - 1, "u8"), (np.array(3), "i8"),
    ]:  # fmt: skip
        made = npt.stencil(lambda x: x[-1])(np.zeros(3, dtype), cval=cval)[0]
        wanted = np.asarray(cval).astype(dtype)
        equal(made, wanted[()], strict=True)
        assert np.signbit(made.real) == np.signbit(wanted.real)
    # The words are on the page of messages about options.
    kernel = npt.stencil(lambda x: x[-1])
    x, out = np.zeros(4), np.full(4, 9.0)
    for rule in ("fill", "constant"):
        refuses(ValueError, "numbers up to", kernel, x, boundary=rule, cval=10**400, out=out)
    assert (out == 9).all()
    kernel(x, boundary="wrap", cval=10**400)


def test_a_memmap_is_read_block_by_block(tmp_path: Any) -> None:
    kernel = npt.stencil(lambda x: x[0, 0] - x[1, -1])
    stored = np.memmap(tmp_path / "x", ">f4", "w+", shape=(40, 500, 500))
    stored[...] = whole(500, 500)
    out = np.empty((40, 500, 500), np.float32)
    wanted = kernel(whole(500, 500, dtype="float32"), boundary="nearest")
    peak = most_memory(lambda: kernel(stored, boundary="nearest", out=out, threads=1))
    assert peak < stored.nbytes / 2
    equal(out[7], wanted)


@pytest.mark.parametrize("rule", ["fill", "reflect", "valid"])
def test_threads_change_nothing(rule: str, limited: Any, uneven: npt.Stencil) -> None:
    limited(handoff_seconds=0)
    line = npt.stencil(lambda x: x[-1] - 2 * x[2])
    for kernel, shape in [(uneven, (900, 700)), (uneven, (50, 100, 90)), (line, (3, 300_000))]:
        x = whole(*shape)
        wanted = kernel(x, boundary=rule, threads=1)
        for threads in (2, 5):
            equal(kernel(x, boundary=rule, threads=threads), wanted)
    fields = [whole(900, 800, dtype="int16", seed=k) for k in range(2)]
    wanted = pair(*fields, 2, boundary=rule, cval=7, threads=1)
    for threads in (2, 3):
        made = pair(*fields, 2, boundary=rule, cval=7, threads=threads)
        for one, other in zip(made, wanted, strict=True):
            equal(one, other)
    turned = whole(700, 800).T.astype(">f8")
    wanted = uneven(turned.astype(float), boundary=rule, threads=1)
    limited(block_elements=500)
    equal(uneven(turned, boundary=rule, threads=3), wanted)


RNG = np.random.default_rng(0)
FILM = RNG.random((5, 40, 30)) * 1e3
KEEP = (("keep", "mirror"), ("fill", "nearest"))
alike = npt.stencil(lambda x: x[0, 0])
kernel = npt.stencil(lambda x: x[-1, 2] / 3 + x[0, 1], boundary="nearest")


@npt.stencil(boundary="nearest")
def staged(x):
    s = alike(x)
    return s[-1, 2] / 3 + s[0, 1]


@npt.stencil(boundary="nearest")
def two_staged(x):
    s = alike(x)
    return s[-1, 2] / 3, s[0, 1]


turned = npt.stencil(lambda x, y: (2 * x[0, 1] + y[1, -1] - y[-3, 0], y[0, 1] - x[-1, 0]))


def lazily(x, **options):
    return kernel(alike(npt.lazy(x)), **options)


def layouts(shape, dtype):
    """Arrays to write to: as they come, transposed, with gaps, in another order of bytes."""
    wide = np.empty([2 * n for n in shape], dtype)
    return [
        np.empty(shape, dtype),
        np.empty(shape[::-1], dtype).T,
        wide[tuple(slice(None, None, 2) for _ in shape)],
        np.empty(shape, np.dtype(dtype).newbyteorder()),
    ]


@pytest.mark.parametrize(("way", "dtype", "options"), [
    (kernel, "longdouble", {"boundary": KEEP, "cval": 0.1}),
    (kernel, "float16", {"axes": (2, 0)}),
    (staged, "float32", {"boundary": "constant", "cval": 1 / 3, "threads": 2}),
    (staged, "longdouble", {"boundary": "valid"}),
    (lazily, "float16", {"boundary": KEEP, "cval": 0.1}),
    (lazily, "float32", {"axes": (2, 0)}),
])  # fmt: skip
def test_floats_are_rounded_once(way, dtype, options):
    wanted = np.asarray(way(FILM, **options)).astype(dtype)
    for out in layouts(wanted.shape, dtype):
        # More than once: calls that come again are prepared.
        for _ in range(2):
            out.fill(1)
            assert way(FILM, out=out, **options) is out
            equal(out, wanted)


@pytest.mark.parametrize("call", [turned, two_staged])
def test_each_of_several_outputs_has_its_own_dtype(call):
    fields = [FILM] * len(call.fields)
    wanted = call(*fields)
    outs = np.empty(wanted[0].shape, "float32"), np.empty(wanted[1].shape, "float64")
    for made, out, one in zip(call(*fields, out=outs), outs, wanted, strict=True):
        assert made is out
        equal(out, one.astype(out.dtype))


@pytest.mark.parametrize(
    ("call", "field"), [(kernel, "float64"), (staged, "float64"), (kernel, "uint8")]
)
def test_an_out_of_another_dtype_may_overlap_the_field(call, field):
    room = np.zeros(FILM.size * 2)
    x = room.view(field)[: FILM.size].reshape(FILM.shape)
    x[...] = FILM.astype(field)
    wanted = call(x.copy()).astype("float32")
    out = room.view("float32")[3 : FILM.size + 3].reshape(FILM.shape)
    assert call(x, out=out) is out
    equal(out, wanted)


def test_a_large_array_is_rounded_by_every_thread():
    x = RNG.random((900, 1100))
    out = np.empty(x.shape, "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        equal(kernel(x, out=out, threads=2), kernel(x).astype("float32"))
        x *= 1e300
        equal(np.isinf(kernel(x, out=out)), kernel(x) > 3.5e38)


@pytest.mark.parametrize("call", [kernel, staged])
def test_iterate_rounds_the_last_state_only(call):
    out = np.empty(FILM.shape, "float32")
    for steps in (5, 0):
        wanted = call.iterate(FILM, steps=steps).astype("float32")
        assert call.iterate(FILM, steps=steps, out=out) is out
        equal(out, wanted)


@pytest.mark.parametrize("field", ["uint8", "int32", "bool", "float32", "complex64"])
def test_what_is_taken(field):
    x = (FILM[0] % 2).astype(field)
    whole = ["int8", "uint8", "int32", "uint64", "bool"]
    for dtype in [*whole, "float16", "float32", "float64", "complex64", "complex128"]:
        out = np.zeros(x.shape, dtype)
        if np.can_cast(field, dtype, "safe" if dtype in whole else "same_kind"):
            equal(alike(x, out=out), x.astype(dtype))
            continue
        refuses(TypeError, f"out has dtype {dtype}, but the result has {field}", alike, x, out=out)
        assert not out.any()
    for dtype in ("U3", "M8[s]", object, "V8"):
        with pytest.raises(TypeError, match=f"but the result has {field}; give an array of"):
            alike(x, out=np.empty(x.shape, dtype))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rule", ["nearest", "reflect", "wrap", "constant", "keep"])
def test_results_take_the_place_of_fields(rule, threads):
    options = {"boundary": rule, "threads": threads}
    for shape in [(7, 11), (61, 13), (2, 43, 9)]:
        x, y = RNG.random((2, *shape))
        for fields, out in [("xy", "xy"), ("xy", "yx"), ("xx", "xz"), ("xy", "zx")]:
            wanted = turned(*({"x": x, "y": y}[name] for name in fields), **options)
            # More than once: calls that come again are prepared.
            for _ in range(2):
                now = {"x": x.copy(), "y": y.copy(), "z": np.empty_like(x)}
                made = tuple(now[name] for name in out)
                turned(*(now[name] for name in fields), **options, out=made)
                equal(made, wanted)


@pytest.mark.parametrize("dtype", [">u2", ">c16"])
def test_dtype_of_the_other_byte_order(dtype):
    x = np.arange(60, dtype=">u1").reshape(6, 10)
    options = {"dtype": dtype, "overflow": "saturate"}
    plain = npt.stencil(lambda x: 2 * x[0, 0] + x[0, 1])
    decorated = npt.stencil(**options)(plain.__wrapped__)
    staged = npt.stencil(
        lambda x: plain(x, dtype=dtype, overflow="saturate")[0, 1] + x[0, 0], **options
    )
    exact, chunked = plain(x).astype(np.dtype(dtype).newbyteorder("=")), da.from_array(x, chunks=3)
    for found in (decorated(x), plain(x, **options), decorated(chunked).compute(),
                  decorated.debug(x)):  # fmt: skip
        equal(found, exact, strict=True)
        assert found.dtype.isnative
    equal(staged(x), staged(chunked).compute(), strict=True)
    assert decorated.iterate(exact, steps=2).dtype == exact.dtype
    out = np.empty(x.shape, dtype)
    assert decorated(x, out=out) is out
    equal(out, exact)


STACKS = np.random.default_rng(5)
FRAME = STACKS.integers(0, 255, (9, 13, 3), dtype="uint8")
VOLUME = STACKS.random((7, 8, 40))
skew = npt.stencil(lambda x: x[-1, 2] * 3 + x[0, 1] - x[1, -1])


@npt.stencil
def curved(u, c):
    lap = 4 * u[0, 0] - (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1])
    return u[0, 0] - c[0, 0] * (lap[1, 0] - lap[-1, 0] + lap[0, 1] - lap[0, -1])


placed = npt.stencil(lambda x: x[0, 1] + npt.index()[0])


@npt.stencil(neighborhood=((-2, 2), (-1, 3)))
def sheared(x):
    total, k = 0, 0
    while k < 3 and total < 600:
        total += x[2 - 2 * k, k + x[0, 0] % 2]
        k += 1
    return total - x[0, 1]


far_median = npt.stencil(lambda x: np.median(x[-6:7, -5:6]), boundary="mirror")
box = npt.stencil(lambda x: x[-7:8, -4:5].mean(), boundary="nearest")


@npt.stencil(boundary="reflect")
def edges(x):
    smooth = box(x)
    across = skew(smooth)
    return across[0, 1] - smooth[1, 0]


def planar(function: Any, *images: Any, **options: Any) -> np.ndarray:
    """The same with the stack in front."""
    moved = [np.ascontiguousarray(np.moveaxis(one, -1, 0)) for one in images]
    return np.moveaxis(function(*moved, **options), 0, -1)


def as_planes(function: Any, *images: Any, **options: Any) -> None:
    """Compare a call, and an equal call after it, with those on planes."""
    wanted = planar(function, *images, **options)
    for _ in range(2):
        same(function(*images, axes=(0, 1), **options), wanted)
        out = np.zeros(wanted.shape, wanted.dtype)
        assert function(*images, axes=(0, 1), out=out, **options) is out
        same(out, wanted)


def test_a_histogram_sums_that_run_pipelines_and_how_it_is_told() -> None:
    as_planes(far_median, np.tile(FRAME, (3, 2, 1)))
    as_planes(box, FRAME)
    as_planes(box, np.tile(FRAME, (3, 2, 14)))
    image = np.tile(FRAME, (3, 2, 1))
    for threads in (1, 2):
        as_planes(edges, image, threads=threads)
    x = box(npt.lazy(image), axes=(0, 1))
    single = box(image, axes=(0, 1))
    same(skew(x, axes=(0, 1)) - x, skew(single, axes=(0, 1)) - single)
    gaps, turned = np.zeros((9, 26), "uint8")[:, ::2], np.zeros((140, 130), "uint8").T
    for words, text in (
        ("stack       3 lanes, innermost", skew.explain(FRAME, axes=(0, 1))),
        ("stack       40 lanes, innermost", curved.explain(VOLUME, VOLUME, axes=(0, 1))),
        # What the last call of a pipeline reads of other calls is no position.
        ("stack       3 lanes, innermost", edges.explain(FRAME, axes=(0, 1))),
        ("strides     copied: field 1", placed.explain(FRAME, axes=(0, 1))),
        (
            "strides     copied: field 1, whose rows are none that it can read",
            skew.explain(FRAME[:, ::2], axes=(0, 1)),
        ),
        (
            "axes        in memory in the order (1, 0): the kernel is transposed",
            skew.explain(turned),
        ),
        ("strides     copied: field 1", skew.explain(gaps)),
        ("copied: field 2, whose", curved.explain(VOLUME, VOLUME[..., ::-1])),
        ("strides     copied: field 1", far_median.explain(turned)),
    ):
        assert words in str(text)
    assert "stack" not in str(skew.explain(FRAME, axes=(-2, -1)))


CORNERS: Any = (("keep", "fill"), ("fill", "keep"))


@pytest.mark.parametrize("boundary", ["reflect", CORNERS])
def test_reads_at_computed_offsets(boundary: Any, limited: Any) -> None:
    limited(transposed_points=0, block_elements=16)
    square = FRAME[..., 0].copy()
    wanted = sheared.debug(square, boundary=boundary)
    turned = np.asfortranarray(square)
    film = np.tile(FRAME, (1, 1, 20))
    for _ in range(2):
        same(sheared(turned, boundary=boundary), wanted)
        for image in (FRAME, film, np.asfortranarray(FRAME), np.asfortranarray(film)):
            result = sheared(image, axes=(0, 1), boundary=boundary)
            same(result, planar(sheared, image, boundary=boundary))
