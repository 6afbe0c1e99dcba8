"""Calls are prepared when they first come: the second must see all that is new in it.

What is given to one is what it was when it was given.
"""

import os

import dask.array as da
import numpy as np
import pytest

import ninepoint as npt
from compared import refuses, same
from compared import whole as image
from own_process import at_once

difference = npt.stencil(lambda x, scale=2: (x[0, 1] - x[0, -1]) * scale)


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


@pytest.mark.parametrize(("shape", "boundary"), [((9, 7), "keep"), ((300, 500), "valid")])
def test_later_calls_give_the_same(shape, boundary):
    for x in (image(*shape), image(2, *shape), image(2 * shape[0], shape[1])[::2]):
        first = difference(x, boundary=boundary)
        out = np.empty_like(first)
        for options in ({}, {"threads": 1}, {"threads": 1}, {"threads": 3}, {"out": out}):
            same(difference(x, boundary=boundary, **options), first)
        assert difference(x, 2, boundary=boundary, out=out) is out
        for scale in (3, 4, 2.5, 0.5, True):
            wanted = difference(x, scale=scale, boundary=boundary)
            same(difference(x, scale, boundary=boundary), wanted)


def test_signed_zeros_and_types_of_cval_and_results_without_points():
    x, changing = image(5, 6), np.array(1.0)
    for _ in range(2):
        assert not np.signbit(difference(x, cval=0.0)[0, 0])
        assert np.signbit(difference(x, cval=-0.0)[0, 0])
        assert not np.signbit(difference(x, cval=0)[0, 0])
        assert difference(x, cval=1)[0, 0] == difference(x, cval=True)[0, 0] == 1
        for value in (1.0, 2.0):
            changing[...] = value
            assert difference(x, cval=changing)[0, 0] == value
        # Some print alike.
        for value in (0.123456789, 0.1234567891):
            assert difference(x, cval=np.array(value))[0, 0] == value
    # Few calls are remembered.
    for cval in range(300):
        assert difference(x, cval=cval)[0, 0] == cval
    shorter = npt.stencil(lambda x: x[-2, 0] - x[0, 1] + 0.5)
    for border, columns in (("valid", 4), ((("valid", "mirror"), ("constant", "keep")), 5)):
        for lead in ((), (), (2, 3), (2, 3)):
            made = shorter(np.ones((*lead, 2, 5), "uint8"), boundary=border)
            assert made.shape == (*lead, 0, columns)


def test_values_of_numbers_are_passed_on(as_python):
    x = image(4, 5, dtype="float32")
    changing = npt.stencil(boundary="reflect")(heat.__wrapped__)
    numpys = [np.dtype(code).type for code in "bQeD"]
    for number in (int, bool, complex, *numpys, lambda value: np.array(value, ">i2")):
        for value in (3, 0, 1, 2):
            got, wanted = (call(x, number(value)) for call in (changing, heat.debug))
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("shape", [(8, 9), (400, 300)])
@pytest.mark.parametrize("given", [np.asarray, npt.lazy], ids=["array", "lazy"])
def test_an_overlapping_out_is_seen_each_time(shape, given):
    def call(x, out):
        return difference(difference(given(x)), 3, out=out)

    wanted = difference(difference(image(*shape)), 3)
    for _ in range(3):
        x, out = image(*shape), np.empty(shape)
        assert call(x, out) is out
        same(out, wanted)
        same(call(x, x), wanted)
        out.flags.writeable = False
        refuses(ValueError, "read-only", call, image(*shape), out)


def test_memory_that_looks_alike_and_coefficients_are_read_each_time():
    raw = np.zeros(8 * 72 + 1, "uint8")
    odd, even = raw[1:].view("float64").reshape(8, 9), raw[:-1].view("float64").reshape(8, 9)
    foreign = image(8, 9).astype(image(8, 9).dtype.newbyteorder())
    for _ in range(2):
        for one in (even, odd, foreign):
            one[...] = image(8, 9)
            same(difference(one), difference(image(8, 9)))
    x, w = image(9, 8), np.arange(9.0).reshape(3, 3)
    for one in (w, w.T, w.astype(w.dtype.newbyteorder()), np.ones((3, 6))[:, ::2]):
        weighted(x, one, 2)
        first = weighted(x, one, 3)
        one[1, 1] += 1
        second = weighted(x, w=one, scale=3)
        same((second - first)[1:-1, 1:-1], 3 * x[1:-1, 1:-1])
    refuses((TypeError, ValueError, IndexError), "", weighted, x, np.ones(3), 2)


def test_mistakes_are_found_after_calls_that_went_well():
    x = image(8, 9)
    for _ in range(2):
        difference(x, threads=1)
        difference(x, 1)
        difference(x, axes=(1, 0))
    for call, error, words in (
        (lambda: difference(x, threads=True), TypeError, "threads"),
        (lambda: difference(x, 2**63), ValueError, "does not fit into int64"),
        (lambda: difference(x, boundary="no such rule"), ValueError, "boundary"),
        (lambda: difference(x, 1, 2), TypeError, "2 arguments"),
        (lambda: difference(x, axes=(True, False)), TypeError, "axes"),
        (lambda: difference(npt.lazy(x), axes=(True, False)), TypeError, "axes"),
    ):
        refuses(error, words, call)
    # What cannot be looked up is refused in words.
    for options in (
        {"overflow": ["wrap"]}, {"boundary": {"wrap"}}, {"boundary": (["wrap"], "wrap")},
        {"dtype": (["float32"],)}, {"axes": ([0], 1)}, {"cval": [1]}, {"threads": [1]},
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)) as caught:
            difference(x, **options)
        assert "unhashable" not in str(caught.value)


slope = npt.stencil(lambda x, r, w=2: r * (x[0, 1] - x[0, -1]) + w * x[1, 0], boundary="wrap")


@npt.stencil(boundary="nearest", cval=1)
def waves(x, y, r, k=3):
    s = slope(x, r * 2, boundary=("reflect", "constant"), cval=5)
    t = slope(s, r, w=k)
    return t[0, 0] - r * s[1, 1] + y[0, 1], s[0, 0] + k


@npt.stencil(boundary="nearest", cval=1)
def rest_of_waves(t, s, y, r, k=3):
    return t[0, 0] - r * s[1, 1] + y[0, 1], s[0, 0] + k


@npt.stencil
def unnumbered(x):
    a = difference(x)
    b = difference(a)
    return a[1, 0] + b[0, 1] + difference(x)[0, 0]


def by_hand(x, y, r, k=3):
    s = slope(x, r * 2, boundary=("reflect", "constant"), cval=5)
    return rest_of_waves(slope(s, r, w=k), s, y, r, k)


@pytest.mark.parametrize("shape", [(2, 9, 8), (300, 500)])
def test_programs_are_prepared(shape):
    x, y = image(*shape), image(*shape, seed=1)
    for r in (0.25, -2.0, 3):
        waves(x, y, r)
    outs = tuple(np.empty_like(one) for one in waves(x, y, 0.25))
    waves(x, y, 0.25, out=outs, threads=2)
    for r, k in ((0.25, 3), (0.5, 3), (-1.0, 2), (2, 3), (5, 5)):
        same(waves(y, x, r, k=k), by_hand(y, x, r, k))
    into = waves(y, x, 0.75, out=outs, threads=2)
    assert all(one is out for one, out in zip(into, outs, strict=True))
    same(outs, by_hand(y, x, 0.75))
    # Arrays that a later call of it still reads.
    wanted = by_hand(x, y, 0.5)
    for _ in range(3):
        a, b = x.copy(), y.copy()
        same(waves(a, b, 0.5, out=(b, a)), wanted)
    refuses(ValueError, "out", waves, x, y, 0.5, out=(outs[0], outs[0]))


@pytest.mark.parametrize("shape", [(9, 8), (600, 700)])
def test_results_of_programs_are_their_own(shape):
    x = image(*shape)
    kept = [unnumbered(x) for _ in range(4)]
    wanted = kept[0].copy()
    for k, one in enumerate(kept):
        same(one, wanted)
        one[...] = k
    assert [one[1, 1] for one in kept] == [0, 1, 2, 3]


# Of programs that are interpreted, and so apart from those that are compiled.
stage = npt.stencil(lambda x, scale=2: (x[0, 1] - x[0, -1]) * scale)


@npt.stencil(boundary="reflect")
def two_numbers(x, a, b):
    return stage(x, a)[0, 1] - 2 * stage(x, b)[1, 0]


@npt.stencil(boundary="reflect")
def in_options(x, c, wide):
    s = stage(x, boundary="wrap" if wide else "constant", cval=c)
    return s[0, 1] + x[0, 0]


power = npt.stencil(lambda x, k: stage(x, 2**k)[0, 1] + stage(x, 8 // k)[0, 0])
W = np.arange(9.0).reshape(3, 3)
with_coefficients = npt.stencil(lambda x, w, scale: weighted(x, w, scale)[0, 1] - scale * x[0, 0])


NUMBERS = {
    # Equal ones once, and others then.
    two_numbers: [(2, 2), (2, 3), (3, 3), (3, 2), (2, 2.0), (2.0, 2), (0.0, -0.0)],
    # Such as decide about options of calls.
    in_options: [(1, True), (2, True), (2, False), (3, False), (1, True)],
    # Such as change the type of what is computed of them.
    power: [(2,), (1,), (-1,), (-2,), (2,), (4,)],
    with_coefficients: [(W, 2), (W + 1, 2), (W * 2, 1)],
}


@pytest.mark.parametrize("program", NUMBERS, ids=["equal", "options", "types", "coefficients"])
def test_numbers_of_programs_may_change(program, as_python):
    x = image(5, 6, dtype="int32" if program is power else "float64")
    for values in NUMBERS[program]:
        wanted = program.debug(x, *values)
        for _ in range(2):
            got = program(x, *values)
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-12)
    if program is power:
        refuses(ZeroDivisionError, "", power, x, 0)


def test_threads_and_children_in_one_prepared_call():
    images = [image(60, 70, seed=k) for k in range(4)]
    options = {"by": 2.0, "boundary": ("wrap", "mirror")}
    wanted = [(*by_hand(x, x, 0.5), heat(np.array(x.T), 0.25, **options)) for x in images]
    wrong = []

    def work(k):
        x = images[k]
        for _ in range(60):
            got = *waves(x, x, r=0.5), heat(x.T, 0.25, **options)
            if not all(map(np.array_equal, got, wanted[k])):
                wrong.append(k)

    at_once(work, 4)
    assert not wrong
    child = os.fork()
    if not child:
        work(0)
        os._exit(1 if wrong else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_calls_that_are_shared_among_threads_whose_number_is_asked_for_each_time(monkeypatch):
    # Work enough that it is shared.
    x = image(700, 800)
    wanted = unnumbered(x), difference(x)
    for text in ("1", " 2 ", "3", "", " "):
        monkeypatch.setenv("NINEPOINT_THREADS", text)
        for _ in range(5):
            same((unnumbered(x), difference(x, 2)), wanted)
    for text in ("many", "0", "-1", "1.5"):
        monkeypatch.setenv("NINEPOINT_THREADS", text)
        for call in (unnumbered, difference):
            refuses(ValueError, r"NINEPOINT_THREADS=.* is no number of threads", call, x)
            # What the call says goes before it.
            assert call(x, threads=1).shape == x.shape
    # After some calls both ways have been tried, and one was chosen; other numbers are told apart.
    x = image(500, 640)
    wanted = {scale: difference(x, scale, boundary="keep", threads=1) for scale in (2, 3)}
    out = np.empty(x.shape)
    for threads in (2, 3, 2):
        for turn in range(15):
            given = {"out": out} if turn % 3 else {}
            result = difference(x, 2 + turn % 2, boundary="keep", threads=threads, **given)
            same(result, wanted[2 + turn % 2])


@pytest.mark.parametrize("shape", [(3, 9, 8), (300, 400)])
def test_lazy_calls_are_prepared_for_the_types_of_their_numbers(shape):
    def called(x, y, r, k):
        s = slope(x, r * 2, boundary=("reflect", "constant"), cval=5)
        t = slope(s, r, w=k, axes=(-1, -2))
        return *waves(t, y, r), s, difference(t, k)

    x, y = image(*shape), image(*shape, seed=1)
    for r, k in ((0.25, 3), (0.5, 3), (2, 4), (0.25, np.float32(0.5))):
        for one, other in ((x, y), (y, x), (x, x)):
            found = npt.compute(*called(npt.lazy(one), other, r, k)[::-1])
            same(tuple(found[::-1]), called(one, other, r, k))


def test_lazy_calls_that_differ_in_one_thing():
    x = image(9, 8)
    choices = [
        {"boundary": boundary, "cval": cval, "threads": 1}
        for boundary in ("wrap", "constant", ("reflect", "wrap"))
        for cval in (0, 0.0, -0.0, 1, True, float("nan"))
    ]
    choices += [{"dtype": "float32"}, {"dtype": "float64"}, {"axes": (1, 0)}]
    for options in choices * 2:
        got = difference(difference(npt.lazy(x), 2, **options), 3, **options)
        wanted = difference(difference(x, 2, **options), 3, **options)
        assert got.compute().tobytes() == wanted.tobytes()


beside = npt.stencil(lambda x, r=1.0: x[-1] + r * x[1], boundary="constant")


@pytest.mark.parametrize("named", ["r", "cval"])
def test_an_array_without_axes_is_the_number_that_it_was_when_it_was_given(named):
    x, given = np.arange(5.0), np.array(2.0)
    wanted = beside(x, **{named: 2.0})
    recorded = beside(npt.lazy(x), **{named: given})
    chunked = beside(da.from_array(x), **{named: given})
    decorated = npt.stencil(cval=given)(lambda x: x[-1])
    same(beside.debug(x, **{named: given}), wanted)
    given[...] = 7
    same((recorded, chunked), (wanted, wanted))
    assert decorated(x)[0] == 2
