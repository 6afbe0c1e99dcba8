"""Stencils on NumPy arrays: borders, stacks, axes, out=, odd arrays, blocks and threads."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import ninepoint as npt
import weighted
from nightly import only
from seams import interpreted
from weighted import RULES, each, whole, window


@pytest.fixture(params=["whole", "blocks"])
def _blocks(request: pytest.FixtureRequest, limited: Any) -> None:
    """Arrays that are copied as a whole, or a few rows at a time."""
    if request.param == "blocks":
        limited(block_elements=40, whole_bytes=(0, 0, 0))


@pytest.mark.parametrize("first", only(2, range(0, 30, 10)))
@pytest.mark.usefixtures("_blocks")
def test_every_rule_axis_side_and_size(first: int) -> None:
    for seed in range(first, first + 10):
        rng = np.random.default_rng(seed)
        ndim = int(rng.integers(1, 4))
        kernel = weighted.drawn(rng, ndim)
        shape = tuple(int(k) for k in rng.integers(0 if rng.random() < 0.1 else 1, 8, ndim))
        lead = [(), (), (2,), (0,), (2, 3)][int(rng.integers(5))] if ndim < 3 else ()
        fields = [whole(*lead, *shape, seed=seed + k) for k in range(len(kernel.fields))]
        if len(fields) > 1 and rng.random() < 0.5:
            cut = tuple(slice(0, 1 if rng.random() < 0.4 else None) for _ in fields[1].shape)
            fields[1] = fields[1][cut]
            fields[1] = fields[1][0] if lead and fields[1].size and seed % 2 else fields[1]
        options = {"boundary": weighted.boundary(rng, ndim), "cval": -9}
        wanted = each(kernel.debug(*fields, **options))
        with interpreted():
            for _ in range(2):
                made = each(kernel(*fields, **options))
                for one, other in zip(made, wanted, strict=True):
                    np.testing.assert_array_equal(one, other, f"seed {seed}")
                    assert one.dtype == other.dtype


@pytest.mark.parametrize("reach", [((-1, 1), (-1, 1)), ((-3, 1), (0, 2)), ((1, 2), (-4, -2))])
@pytest.mark.usefixtures("_blocks")
def test_as_scipy(reach: Any) -> None:
    weights, x = window(reach), whole(12, 15)
    size = [2 * max(abs(a), abs(b)) + 1 for a, b in reach]
    kernel = np.zeros(size)
    for (_, offset), weight in weights.items():
        kernel[tuple(o + s // 2 for o, s in zip(offset, size, strict=True))] = weight
    stencil = weighted.stencil(weights)
    with interpreted():
        for rule in ("constant", "nearest", "reflect", "mirror", "wrap"):
            made = stencil(x, boundary=rule, cval=7)
            np.testing.assert_array_equal(made, ndimage.correlate(x, kernel, mode=rule, cval=7))


PADDED = {"nearest": "edge", "reflect": "symmetric", "mirror": "reflect", "wrap": "wrap"}


@pytest.mark.parametrize("rule", PADDED)
def test_arrays_far_smaller_than_the_footprint(rule: str) -> None:
    """Any reach on any length: as NumPy pads, and other rules as the reference."""
    kernel = npt.stencil(lambda x: (x[-40], x[-13], x[2], x[41]))
    with interpreted():
        for n in (1, 2, 3, 4, 7, 30):
            x = np.arange(n)
            wide = np.pad(x, 41, mode=PADDED[rule])
            for k, one in zip((-40, -13, 2, 41), kernel(x, boundary=rule), strict=True):
                np.testing.assert_array_equal(one, wide[41 + k :][:n])
        for n in (0, 1, 5, 50):
            for other in (("constant", rule), "valid", ("fill", "constant"), ("keep", "valid")):
                border = (other,) if isinstance(other, tuple) and rule != "wrap" else rule
                one = npt.stencil(lambda x: x[-40] + 3 * x[5])
                options = {"boundary": border, "cval": 5}
                np.testing.assert_array_equal(
                    one(np.arange(n), **options), one.debug(np.arange(n), **options)
                )


def test_names_of_rules_and_pairs() -> None:
    kernel = weighted.stencil(window([(-2, 1), (-1, 2)]))
    x = whole(5, 6)
    with interpreted():
        for one, other in [
            ("edge", "nearest"),
            ("symmetric", "reflect"),
            ("grid-mirror", "reflect"),
            ("periodic", "wrap"),
            (["grid-wrap", "grid-constant"], ("wrap", "constant")),
            (("edge", ("fill", "symmetric")), ("nearest", ["fill", "reflect"])),
        ]:
            np.testing.assert_array_equal(
                kernel(x, boundary=one, cval=3), kernel(x, boundary=other, cval=3)
            )


@pytest.mark.parametrize(
    ("cval", "dtype", "wanted"),
    [
        (2.0, "i4", 2),
        (255, "u1", 255),
        (True, "u1", 1),
        (np.int16(-4), "i1", -4),
        (0.1, "f4", np.float32(0.1)),
        (float("inf"), "f4", np.inf),
        (float("nan"), "f4", np.nan),
        (-0.0, "f8", -0.0),
        (1 + 2j, "c8", 1 + 2j),
        (2**64 - 1, "u8", 2**64 - 1),
        (np.array(3), "i8", 3),
    ],
)
def test_values_that_fit(cval: Any, dtype: str, wanted: Any) -> None:
    kernel = npt.stencil(lambda x: x[-1])
    with interpreted():
        made = kernel(np.zeros(3, dtype), cval=cval)
    assert made.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(made[0], np.asarray(wanted, dtype))
    assert np.signbit(made[0].real) == np.signbit(np.asarray(wanted).astype(dtype).real)


@pytest.mark.parametrize(
    ("cval", "dtype", "words"),
    [
        (float("inf"), "u1", "use a whole number"),
        (2.5, "i8", "use a whole number"),
        (-1, "u8", "a number from 0 to"),
        (np.complex64(1), "i2", "a real number"),
        (1e300, "f4", "a number up to 3.403e\\+38"),
        (10**400, "f8", "a number up to"),
        (300, "u1", "a number from 0 to 255"),
    ],
)
def test_values_that_do_not_fit_are_refused_before_anything_runs(
    cval: Any, dtype: str, words: str
) -> None:
    kernel = npt.stencil(lambda x: x[-1])
    x, out = np.zeros(4, dtype), np.full(4, 9, dtype)
    with interpreted():
        for rule in ("fill", "constant"):
            with pytest.raises(ValueError, match=words):
                kernel(x, boundary=rule, cval=cval, out=out)
        assert (out == 9).all()
        kernel(x, boundary="wrap", cval=cval)


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (0, 2), (-1, 0), (2, 1)])
def test_axes(axes: Any) -> None:
    kernel = weighted.stencil(window([(-1, 1), (0, 3)]))
    x = whole(6, 7, 8)
    with interpreted():
        for rule in ("valid", "wrap"):
            made = kernel(x, boundary=rule, axes=axes)
            moved = np.ascontiguousarray(np.moveaxis(x, axes, (-2, -1)))
            wanted = np.moveaxis(kernel(moved, boundary=rule), (-2, -1), axes)
            np.testing.assert_array_equal(made, wanted)
            out = np.empty(made.shape)
            assert kernel(x, boundary=rule, axes=axes, out=out) is out
            np.testing.assert_array_equal(out, wanted)


def odd_arrays() -> dict[str, np.ndarray]:
    x = whole(4, 40, 50)
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(x.shape)
    unaligned[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    every_second = np.zeros((8, 80, 100))[::2, ::2, ::2]
    every_second[...] = x
    return {
        "fortran": np.asfortranarray(x),
        "transposed": np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0),
        "reversed": np.ascontiguousarray(x[::-1, ::-1, ::-1])[::-1, ::-1, ::-1],
        "every_second": every_second,
        "unaligned": unaligned,
        "foreign": x.astype(x.dtype.newbyteorder()),
        "frozen": frozen,
        "constant": np.broadcast_to(x[:1, :1, :1], x.shape),
        "same_rows": np.broadcast_to(x[:, :1], x.shape),
    }


@npt.stencil
def uneven(x):
    return x[-1, 2] * 3 + x[0, -2] - x[2, 1]


@pytest.mark.parametrize("rule", ["fill", "reflect", "keep"])
@pytest.mark.parametrize("elements", [262_144, 700, 20])
def test_odd_arrays(rule: str, elements: int, limited: Any) -> None:
    limited(block_elements=elements)
    for x in odd_arrays().values():
        before = x.copy()
        wanted = uneven(np.array(x, np.float64, order="C"), boundary=rule)
        np.testing.assert_array_equal(uneven(x, boundary=rule), wanted)
        np.testing.assert_array_equal(x, before)
        for name, out in odd_arrays().items():
            if name not in ("frozen", "constant", "same_rows"):
                assert uneven(x, boundary=rule, out=out) is out
                np.testing.assert_array_equal(out, wanted)
    with_gaps = uneven(np.asfortranarray(whole(30, 4)), boundary=rule)
    np.testing.assert_array_equal(with_gaps, uneven(whole(30, 4), boundary=rule))


@pytest.mark.parametrize("lead", [(200, 30), (3, 4), (7, 2, 5)])
def test_a_stack_of_odd_strides(lead: Any, limited: Any) -> None:
    limited(block_elements=3000)
    x = whole(*lead[::-1], 6, 7)
    axes = tuple(range(len(lead)))
    swapped = x.transpose(*axes[::-1], -2, -1)
    wanted = uneven(x, boundary="wrap").transpose(*axes[::-1], -2, -1)
    np.testing.assert_array_equal(uneven(swapped, boundary="wrap"), wanted)
    out = np.empty_like(x).transpose(*axes[::-1], -2, -1)
    uneven(swapped, boundary="wrap", out=out)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("rule", ["fill", "keep", "constant", "mirror"])
@pytest.mark.usefixtures("_blocks")
def test_out_may_overlap(rule: str) -> None:
    x = whole(30, 40)
    wanted = uneven(x[:20], boundary=rule)
    for shift in (0, 1, 5):
        y = x.copy()
        uneven(y[:20], boundary=rule, out=y[shift : shift + 20])
        np.testing.assert_array_equal(y[shift : shift + 20], wanted)
    y = x[:20].copy()
    uneven(y, boundary=rule, out=y[::-1])
    np.testing.assert_array_equal(y[::-1], wanted)


def test_outs_of_several_results() -> None:
    kernel = weighted.stencil(window([(-1, 1)]), window([(0, 3)]))
    x, outs = whole(20), (np.empty(18), np.empty(17))
    with interpreted():
        wanted = kernel(x, boundary="valid")
        made = kernel(x, boundary="valid", out=outs)
        for one, out, other in zip(made, outs, wanted, strict=True):
            assert one is out
            np.testing.assert_array_equal(one, other)
        both = np.zeros(20)
        with pytest.raises(ValueError, match="share memory"):
            kernel(x, out=(both, both))


@pytest.mark.parametrize("rule", ["fill", "reflect", "valid"])
def test_threads_change_nothing(rule: str, limited: Any) -> None:
    limited(handoff_seconds=0)
    line = npt.stencil(lambda x: x[-1] - 2 * x[2])
    for kernel, shape in [(uneven, (900, 700)), (uneven, (50, 100, 90)), (line, (3, 300_000))]:
        x = whole(*shape)
        wanted = kernel(x, boundary=rule, threads=1)
        for threads in (2, 5):
            np.testing.assert_array_equal(kernel(x, boundary=rule, threads=threads), wanted)
    turned = whole(700, 800).T.astype(">f8")
    limited(block_elements=500)
    made = uneven(turned, boundary=rule, threads=3)
    np.testing.assert_array_equal(made, uneven(turned.astype(float), boundary=rule, threads=1))


def test_a_memmap_is_read_block_by_block(tmp_path: Any) -> None:
    kernel = npt.stencil(lambda x: x[0, 0] - x[1, -1])
    stored = np.memmap(tmp_path / "x", ">f4", "w+", shape=(40, 500, 500))
    stored[...] = whole(500, 500)
    out = np.empty((40, 500, 500), np.float32)
    wanted = kernel(whole(500, 500, dtype="float32"), boundary="nearest")
    tracemalloc.start()
    kernel(stored, boundary="nearest", out=out, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < stored.nbytes / 2
    np.testing.assert_array_equal(out[7], wanted)


def test_every_rule_on_stacks_of_tiny_images() -> None:
    x = whole(100, 20, 5, 4)
    for rule in RULES:
        made = uneven(x, boundary=rule)
        np.testing.assert_array_equal(made[7, 3], uneven.debug(x[7, 3], boundary=rule))
