"""Calls are prepared when they first come: the second must see all that is new in it."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import ninepoint as npt


@npt.stencil
def difference(x, scale=2):
    return (x[0, 1] - x[0, -1]) * scale


@npt.stencil
def both(x, y):
    return x[0, 1] + y[1, 0], x[-1, 0] - y[0, 0]


def image(*shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).integers(0, 99, shape).astype(dtype)


@pytest.mark.parametrize("shape", [(9, 7), (300, 500)])
@pytest.mark.parametrize("boundary", ["keep", "valid", "reflect", "constant"])
def test_later_calls_give_the_same(shape, boundary):
    for x in (image(*shape), image(2, *shape), image(2 * shape[0], shape[1])[::2]):
        first = difference(x, boundary=boundary)
        out = np.empty_like(first)
        for options in ({}, {}, {"threads": 1}, {"threads": 1}, {"threads": 3}, {"out": out}):
            later = difference(x, boundary=boundary, **options)
            np.testing.assert_array_equal(later, first)
        assert difference(x, 2, boundary=boundary, out=out) is out
        # How numbers are taken does not depend on the size of arrays.
        for scale in (3, 4, 2.5, 0.5, True) if x.size < 100_000 else (2.5,):
            wanted = difference(x, scale=scale, boundary=boundary)
            np.testing.assert_array_equal(difference(x, scale, boundary=boundary), wanted)


def test_signed_zeros_and_types_of_cval_are_told_apart():
    x = image(5, 6)
    for _ in range(2):
        assert not np.signbit(difference(x, cval=0.0)[0, 0])
        assert np.signbit(difference(x, cval=-0.0)[0, 0])
        assert not np.signbit(difference(x, cval=0)[0, 0])
        assert difference(x, cval=1)[0, 0] == difference(x, cval=True)[0, 0] == 1


@pytest.mark.parametrize("shape", [(8, 9), (400, 300)])
def test_an_overlapping_out_is_seen_each_time(shape):
    wanted = difference(image(*shape))
    for _ in range(3):
        x = image(*shape)
        np.testing.assert_array_equal(difference(x, out=x), wanted)
    x, out = image(*shape), np.empty(shape)
    difference(x, out=out)
    difference(x, out=out)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        difference(x, out=out)


def test_mistakes_are_found_after_calls_that_went_well():
    x = image(8, 9)
    for _ in range(2):
        difference(x, threads=1)
        difference(x, 1)
    with pytest.raises(TypeError):
        difference(x, threads=True)
    with pytest.raises(ValueError, match="does not fit into int64"):
        difference(x, 2**63)
    with pytest.raises(ValueError, match="boundary"):
        difference(x, boundary="no such rule")
    with pytest.raises(TypeError):
        difference(x, 1, 2)


def test_memory_that_looks_alike():
    raw = np.zeros(8 * 72 + 1, "uint8")
    odd, even = raw[1:].view("float64").reshape(8, 9), raw[:-1].view("float64").reshape(8, 9)
    foreign = image(8, 9).astype(image(8, 9).dtype.newbyteorder())
    for _ in range(2):
        even[...] = image(8, 9)
        np.testing.assert_array_equal(difference(even), difference(image(8, 9)))
        odd[...] = image(8, 9)
        np.testing.assert_array_equal(difference(odd), difference(image(8, 9)))
        np.testing.assert_array_equal(difference(foreign), difference(image(8, 9)))


def test_few_calls_are_remembered():
    x = image(4, 5)
    for cval in range(300):
        assert difference(x, cval=cval)[0, 0] == cval


# Every way to write a call: the second time, all of them are prepared.


@npt.stencil(boundary="reflect")
def heat(x, r, /, by=1.0, *, plus=0):
    return by * (x[0, 0] + r * (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] - 4 * x[0, 0])) + plus


@npt.stencil(standard_indexing="w")
def weighted(x, w, scale):
    total = 0.0
    for i in range(3):
        for j in range(3):
            total += w[i, j] * x[i - 1, j - 1]
    return scale * total


def test_positions_and_names_are_the_same_call():
    x = image(9, 8)
    wanted = heat(x, 0.25, 2.0, plus=1)
    heat(x, 0.25, 2.0)
    for got in (
        heat(x, 0.25, 2.0, plus=1),
        heat(x, 0.25, by=2.0, plus=1),
        heat(x, 0.25, plus=1, by=2.0),
    ):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(heat(x, 0.25), (heat(x, 0.25, 2.0)) / 2)
    for _ in range(2):
        for wrong in (
            lambda: heat(x=x, r=0.25),
            lambda: heat(x),
            lambda: heat(x, 0.25, r=0.5),
            lambda: heat(x, 0.25, 2.0, by=2.0),
            lambda: heat(x, 0.25, 2.0, 1),
            lambda: heat(x, 0.25, mode="wrap"),
        ):
            with pytest.raises(TypeError):
                wrong()


@pytest.mark.parametrize(
    "options",
    [
        {"boundary": ("reflect", "wrap")},
        {"boundary": [("reflect", "constant"), "fill"], "cval": np.float32(2.5)},
        {"boundary": ["mirror", ("keep", "valid")]},
        {"axes": (1, 0)},
        {"axes": [0, -1]},
        {"axes": (1, 0), "boundary": ("valid", "nearest"), "dtype": ["float32"]},
        {"dtype": ("float32",)},
        {"dtype": np.dtype("float32"), "threads": 1},
        {"boundary": "constant", "cval": float("nan")},
        {"boundary": "constant", "cval": np.array(3)},
    ],
    ids=str,
)
def test_options_of_any_kind_are_prepared(options):
    x, y = image(9, 8), image(9, 8, seed=1)
    wanted, other = (heat(one, 0.25, **options) for one in (x, y))
    out = np.empty_like(wanted)
    heat(x, 0.25, **options, out=out)
    np.testing.assert_array_equal(heat(x, 0.25, **options), wanted)
    np.testing.assert_array_equal(heat(y, 0.25, **options), other)
    assert heat(y, 0.25, **options, out=out) is out
    np.testing.assert_array_equal(out, other)


@pytest.mark.parametrize("kind", [int, bool, complex, *"bQeD", "array", "swapped"], ids=str)
def test_values_of_numbers_are_passed_on(kind):
    x = image(9, 8, dtype="float32")

    def number(value):
        if kind == "array":
            return np.array(value, "float32")
        if kind == "swapped":
            return np.array(value, np.dtype("int16").newbyteorder())
        return kind(value) if isinstance(kind, type) else np.dtype(kind).type(value)

    heat(x, number(3))
    got = [heat(x, number(r)) for r in (0, 1, 2)]
    for r, result in enumerate(got):
        wanted = heat.debug(x, number(r))
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-3)


def test_coefficients_are_read_each_time():
    x = image(9, 8)
    w = np.arange(9.0).reshape(3, 3)
    raw = np.zeros(73, "uint8")
    raw[1:].view("float64")[...] = w.ravel()
    odd = raw[1:].view("float64").reshape(3, 3)
    for one in (w, w.T, w.astype(w.dtype.newbyteorder()), odd, np.ones((3, 6))[:, ::2]):
        weighted(x, one, 2)
        first = weighted(x, one, 3)
        one[1, 1] += 1
        second = weighted(x, w=one, scale=3)
        np.testing.assert_array_equal(
            first, weighted(x, np.array(one - np.eye(3) * (np.arange(3) == 1), "float64"), 3)
        )
        np.testing.assert_array_equal((second - first)[1:-1, 1:-1], 3 * x[1:-1, 1:-1])
    with pytest.raises((TypeError, ValueError, IndexError)):
        weighted(x, np.ones(3), 2)


ORDERS = [
    np.asfortranarray,
    lambda x: np.repeat(x, 2, 1)[:, ::2],
    lambda x: x[:, ::-1],
    lambda x: x.astype(x.dtype.newbyteorder()),
    lambda x: np.broadcast_to(x[0], x.shape),
    lambda x: np.broadcast_to(x[:, :1], x.shape),
]


@pytest.mark.parametrize("made", ORDERS)
@pytest.mark.parametrize("shape", [(9, 8), (600, 700)])
def test_arrays_in_any_order_are_prepared(made, shape):
    for seed in range(2):
        x = made(image(*shape, seed=seed))
        wanted = heat(np.array(x, "float64", order="C"), 0.25)
        out = made(np.zeros(shape))
        heat(x, 0.25)
        if out.flags.writeable and out.dtype.isnative:
            heat(x, 0.25, out=out)
        np.testing.assert_array_equal(heat(x, 0.25), wanted)
        if out.flags.writeable and out.dtype.isnative:
            assert heat(x, 0.25, out=out) is out
            np.testing.assert_array_equal(out, wanted)
        if x.flags.writeable and x.dtype.isnative:
            assert heat(x, 0.25, out=x) is x
            np.testing.assert_array_equal(x, wanted)


def test_an_array_as_cval_may_change():
    x = image(5, 6)
    cval = np.array(1.0)
    for value in (1.0, 2.0, 1.0, 3.0):
        cval[...] = value
        assert difference(x, cval=cval)[0, 0] == value
    assert difference(x, cval=np.array(1.0))[0, 0] == 1.0


def test_axes_that_are_truths_are_refused_after_numbers():
    x = image(5, 6)
    difference(x, axes=(1, 0))
    with pytest.raises(TypeError):
        difference(x, axes=(True, False))


def test_options_that_cannot_be_looked_up_are_refused_in_words():
    x = image(5, 6)
    for options in (
        {"overflow": ["wrap"]},
        {"boundary": {"wrap"}},
        {"boundary": (["wrap"], "wrap")},
        {"dtype": (["float32"],)},
        {"axes": ([0], 1)},
        {"cval": [1]},
        {"threads": [1]},
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            difference(x, **options)
        assert "unhashable" not in str(caught.value)


def test_several_outs_are_prepared():
    x, y = image(20, 30), image(20, 30, seed=1)
    wanted = both(x, y)
    outs = tuple(np.empty_like(one) for one in wanted)
    both(x, y, out=outs)
    got = both(x, y, out=outs)
    for one, out, result in zip(got, outs, wanted, strict=True):
        assert one is out
        np.testing.assert_array_equal(out, result)
    for wrong in (
        (outs[0], outs[0]),
        (outs[0], outs[1][:]),
        (outs[0], np.broadcast_to(0.0, (20, 30))),
    ):
        if wrong[1].base is outs[1]:
            both(x, y, out=wrong)
            continue
        with pytest.raises(ValueError, match="out"):
            both(x, y, out=wrong)
    # An output may be a field: what was prepared sees it, and the ordinary way makes a copy.
    both(x, y, out=(y, outs[1]))
    np.testing.assert_array_equal(y, wanted[0])
    np.testing.assert_array_equal(outs[1], wanted[1])


def test_colour_images_are_asked_about_each_time():
    x = np.random.default_rng(0).integers(0, 255, (40, 50, 3)).astype("uint8")
    for _ in range(2):
        with pytest.warns(npt.ChannelWarning):
            difference(x)
    by_axes = difference(x, axes=(0, 1))
    np.testing.assert_array_equal(difference(x, axes=(0, 1)), by_axes)
    np.testing.assert_array_equal(by_axes[..., 0], difference(np.ascontiguousarray(x[..., 0])))


def test_two_threads_in_one_prepared_call():
    images = [image(60, 70, seed=k) for k in range(4)]
    wanted = [heat(np.array(one.T), 0.25, by=2.0, boundary=("wrap", "mirror")) for one in images]
    wrong = []

    def work(k):
        for _ in range(100):
            got = heat(images[k].T, 0.25, by=2.0, boundary=("wrap", "mirror"))
            if not np.array_equal(got, wanted[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Programs of several calls.


@npt.stencil(boundary="wrap")
def slope(x, r, w=2):
    return r * (x[0, 1] - x[0, -1]) + w * x[1, 0]


@npt.stencil(boundary="nearest", cval=1)
def waves(x, y, r, k=3):
    s = slope(x, r * 2, boundary=("reflect", "constant"), cval=5)
    t = slope(s, r, w=k)
    return t[0, 0] - r * s[1, 1] + y[0, 1], s[0, 0] + k


@npt.stencil
def unnumbered(x):
    a = difference(x)
    b = difference(a)
    return a[1, 0] + b[0, 1] + difference(x)[0, 0]


def by_hand(x, y, r, k=3, **options):
    if options.get("boundary") == "keep":
        # Values of the kernel's own fields are kept, which what is left of it does not read.
        return waves.debug(x, y, r, k, **options)
    axes = options.get("axes")
    s = slope(x, r * 2, boundary=("reflect", "constant"), cval=5, axes=axes)
    t = slope(s, r, w=k, axes=axes)

    @npt.stencil(boundary="nearest", cval=1)
    def rest(t, s, y, r, k):
        return t[0, 0] - r * s[1, 1] + y[0, 1], s[0, 0] + k

    return rest(t, s, y, r, k, **options)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((9, 8), {"boundary": "keep"}),
        ((2, 3, 5, 4), {"dtype": ("f4", "f8")}),
        ((9, 8), {"axes": (-1, -2)}),
        ((2, 3, 5, 4), {"axes": (0, -1), "boundary": ("valid", "wrap")}),
    ],
    ids=str,
)
def test_programs_are_prepared(shape, options):
    x, y = image(*shape), image(*shape, seed=1)
    for r in (0.25, -2.0, 3):
        waves(x, y, r, **options)
    outs = tuple(np.empty_like(one) for one in waves(x, y, 0.25, **options))
    waves(x, y, 0.25, **options, out=outs)
    pairs = [(0.25, 3), (0.5, 3), (-1.0, 2), (2, 3), (5, 5)]
    found = [waves(y, x, r, k=k, **options) for r, k in pairs]
    into = waves(y, x, 0.75, **options, out=outs)
    for got, (r, k) in zip(found, pairs, strict=True):
        for one, other in zip(got, by_hand(y, x, r, k, **options), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    for one, out, other in zip(into, outs, by_hand(y, x, 0.75, **options), strict=True):
        assert one is out
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(9, 8), (600, 700)])
def test_results_of_programs_are_their_own(shape):
    x = image(*shape)
    wanted = unnumbered(x)
    kept = [unnumbered(x) for _ in range(4)]
    for k, one in enumerate(kept):
        np.testing.assert_array_equal(one, wanted)
        one[...] = k
    np.testing.assert_array_equal(unnumbered(x), wanted)
    assert [one[1, 1] for one in kept] == [0, 1, 2, 3]


def test_equal_numbers_once_and_others_then():
    @npt.stencil(boundary="reflect")
    def two(x, a, b):
        return difference(x, a)[0, 1] - 2 * difference(x, b)[1, 0]

    x = image(9, 8)
    for a, b in ((2, 2), (2, 3), (3, 3), (3, 2), (2, 2.0), (2.0, 2), (0.0, -0.0)):
        wanted = two.debug(x, a, b)
        for _ in range(3):
            np.testing.assert_array_equal(two(x, a, b), wanted)


def test_numbers_that_decide_about_options_of_calls():
    @npt.stencil(boundary="reflect")
    def outside(x, c, wide):
        s = difference(x, boundary="wrap" if wide else "constant", cval=c)
        return s[0, 1] + x[0, 0]

    x = image(9, 8)
    for c, wide in ((1, True), (2, True), (2, False), (3, False), (1, True)):
        wanted = outside.debug(x, c, wide)
        for _ in range(2):
            np.testing.assert_array_equal(outside(x, c, wide), wanted)


def test_numbers_of_calls_that_change_their_type_or_fail():
    @npt.stencil
    def power(x, k):
        return difference(x, 2**k)[0, 1] + difference(x, 8 // k)[0, 0]

    x = image(9, 8, dtype="int32")
    for k in (2, 1, -1, -2, 2, 4):
        wanted = power.debug(x, k)
        for _ in range(2):
            got = power(x, k)
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            power(x, 0)


def test_programs_with_coefficients():
    w = np.arange(9.0).reshape(3, 3)

    @npt.stencil
    def twice(x, v, scale):
        return weighted(x, v, scale)[0, 1] - scale * x[0, 0]

    # Small: for each point of the program `debug` goes through all points of its stage.
    x = image(5, 6)
    twice(x, w, 2)
    for k in range(3):
        w[0, 1] = k
        got = twice(x, v=w, scale=k)
        np.testing.assert_allclose(got, twice.debug(x, w, k), rtol=1e-12)


def test_an_out_that_a_later_call_still_reads():
    x, y = image(20, 30), image(20, 30, seed=1)
    wanted = by_hand(x, y, 0.5)
    for _ in range(3):
        a, b = x.copy(), y.copy()
        got = waves(a, b, 0.5, out=(b, a))
        np.testing.assert_array_equal(got[0], wanted[0])
        np.testing.assert_array_equal(got[1], wanted[1])
    out = np.empty((20, 30))
    for wrong in ((out, out), (out, np.broadcast_to(0.0, (20, 30)))):
        waves(x, y, 0.5, out=(out, out.copy()))
        with pytest.raises(ValueError, match="out"):
            waves(x, y, 0.5, out=wrong)


def test_threads_and_children_in_one_program():
    images = [image(60, 70, seed=k) for k in range(4)]
    wanted = [by_hand(one, one, 0.5) for one in images]
    for one in images[:2]:
        waves(one, one, 0.5)
    wrong = []

    def work(k):
        for _ in range(60):
            got = waves(images[k], images[k], r=0.5)
            if not all(map(np.array_equal, got, wanted[k])):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    child = os.fork()
    if not child:
        work(0)
        os._exit(1 if wrong else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_number_of_threads_is_asked_for_each_time(monkeypatch):
    x = image(700, 800)
    wanted = unnumbered(x)
    for count in ("1", "2", "3"):
        monkeypatch.setenv("NINEPOINT_THREADS", count)
        for _ in range(5):
            np.testing.assert_array_equal(unnumbered(x), wanted)
            difference(x, 2)
    for text in ("many", "0", "-1", "1.5"):
        monkeypatch.setenv("NINEPOINT_THREADS", text)
        with pytest.raises(ValueError, match="NINEPOINT_THREADS="):
            unnumbered(x)


# Lazy values.


@pytest.mark.parametrize("shape", [(3, 9, 8), (300, 400)])
def test_lazy_calls_are_prepared_for_the_types_of_their_numbers(shape):
    x, y = image(*shape), image(*shape, seed=1)

    def recorded(x, y, r, k):
        s = slope(npt.lazy(x), r * 2, boundary=("reflect", "constant"), cval=5)
        t = slope(s, r, w=k, axes=(-1, -2))
        return waves(t, y, r), s, difference(t, k)

    def directly(x, y, r, k):
        s = slope(x, r * 2, boundary=("reflect", "constant"), cval=5)
        t = slope(s, r, w=k, axes=(-1, -2))
        return waves(t, y, r), s, difference(t, k)

    for r, k in ((0.25, 3), (0.5, 3), (2, 3), (2, 2), (2, 4), (0.25, np.float32(0.5))):
        for one, other in ((x, y), (y, x), (x, x)):
            (a, b), s, t = recorded(one, other, r, k)
            found = npt.compute(t, a, s, b)
            (a, b), s, t = directly(one, other, r, k)
            for got, wanted in zip(found, (t, a, s, b), strict=True):
                assert got.dtype == wanted.dtype
                np.testing.assert_array_equal(got, wanted)


def test_lazy_calls_that_differ_in_one_thing():
    x = image(9, 8)
    for _ in range(2):
        for boundary in ("wrap", "constant", ("reflect", "wrap")):
            for cval in (0, 0.0, -0.0, 1, True, float("nan")):
                options = {"boundary": boundary, "cval": cval, "threads": 1}
                got = difference(difference(npt.lazy(x), 2, **options), 3, **options)
                wanted = difference(difference(x, 2, **options), 3, **options)
                assert got.compute().tobytes() == wanted.tobytes()
        for dtype in ("float32", "float64"):
            got = difference(difference(npt.lazy(x), 2, dtype=dtype), 3)
            np.testing.assert_array_equal(got, difference(difference(x, 2, dtype=dtype), 3))
        with pytest.raises(TypeError):
            difference(npt.lazy(x), axes=(True, False))
        np.testing.assert_array_equal(
            difference(npt.lazy(x), axes=(1, 0)).compute(), difference(x, axes=(1, 0))
        )


def test_lazy_outs_are_looked_at_each_time():
    for _ in range(3):
        x = image(9, 8)
        wanted = difference(difference(x), 3)
        out = np.empty_like(x)
        assert difference(difference(npt.lazy(x)), 3, out=out) is out
        np.testing.assert_array_equal(out, wanted)
        difference(difference(npt.lazy(x)), 3, out=x)
        np.testing.assert_array_equal(x, wanted)
        out.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            difference(difference(npt.lazy(image(9, 8))), 3, out=out)


def test_of_lazy_calls_fields_are_read_when_they_are_computed_and_arrays_beside_them_before():
    x, w = image(9, 8), np.ones((3, 3))
    for k in range(3):
        before = w.copy()
        got = difference(weighted(npt.lazy(x), w, 2))
        x[...] += 1
        w[1, 1] = k
        np.testing.assert_array_equal(got.compute(), difference(weighted(x, before, 2)))


@pytest.mark.parametrize(("shape", "threads"), [((300, 500), 2), ((2, 200, 300), 1)])
def test_programs_of_one_pass_are_prepared(shape, threads):
    @npt.stencil(boundary=("mirror", "wrap"))
    def sharp(x, y, r):
        s = slope(x, r, boundary="reflect")
        t = difference(s, 2, boundary=("nearest", "constant"), cval=3)
        return t[0, 1] - r * s[-1, 0] + y[0, 0] / x.shape[1]

    @npt.stencil(boundary=("mirror", "wrap"))
    def rest(x, y, s, t, r):
        return t[0, 1] - r * s[-1, 0] + y[0, 0] / x.shape[1] + 0 * x[0, 0]

    x, y = image(*shape), image(*shape, seed=1)
    for r in (0.5, 2, 0.25):
        sharp(x, y, r, threads=threads)
    out = np.empty(shape)
    sharp(x, y, 0.5, threads=threads, out=out)
    for r in (0.75, -3, 0.5):
        got = sharp(y, x, r=r, threads=threads)
        s = slope(y, r, boundary="reflect")
        t = difference(s, 2, boundary=("nearest", "constant"), cval=3)
        np.testing.assert_array_equal(got, rest(y, x, s, t, r))
        assert sharp(y, x, r * 1.0, threads=threads, out=out) is out
        np.testing.assert_array_equal(out, got)
        twice = y.copy()
        sharp(twice, x, r * 1.0, threads=threads, out=twice)
        np.testing.assert_array_equal(twice, got)


@pytest.mark.parametrize("border", ["valid", (("valid", "mirror"), ("constant", "keep"))])
def test_results_without_points_are_prepared(border):
    @npt.stencil(boundary=border)
    def shorter(x):
        return x[-2, 0] - x[0, 1] + 0.5

    for lead in ((), (2,), (2, 3)):
        for _ in range(3):
            made = shorter(np.ones((*lead, 2, 5), "uint8"))
            assert made.shape == (*lead, 0, 4 + (border != "valid"))


@pytest.mark.parametrize(
    ("boundary", "shape"), [("keep", (500, 640)), ("reflect", (2, 1, 300, 500))]
)
def test_calls_that_are_shared_among_threads(shape, boundary):
    # After some calls both ways have been tried, and one was chosen; other numbers are told apart.
    x, y = image(*shape), image(*shape, seed=1)
    wanted = {scale: difference(x, scale, boundary=boundary, threads=1) for scale in (2, 3)}
    pair = both(x, y, boundary=boundary, threads=1)
    out = np.empty(shape)
    for threads in (2, 3, 2):
        for turn in range(30):
            scale = 2 + turn % 2
            given = {"out": out} if turn % 3 else {}
            result = difference(x, scale, boundary=boundary, threads=threads, **given)
            np.testing.assert_array_equal(result, wanted[scale])
            if turn % 5 == 0:
                again = both(x, y, boundary=boundary, threads=threads)
                for one, other in zip(again, pair, strict=True):
                    np.testing.assert_array_equal(one, other)
