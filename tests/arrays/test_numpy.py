"""Stencils on NumPy arrays: borders, stacks, axes, out=, odd arrays and threads."""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from ninepoint.arrays import numpy as arrays
from ninepoint.arrays.borders import Boundary
from ninepoint.backends.threads import run_parallel, serial, thread_count
from windowsum import WindowSum, brute, program, window

RULES = ("fill", "keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap")
SIDES = [rule for rule in RULES if rule != "wrap"]


def applied(prog: WindowSum, *fields: Any, boundary: Any = "fill", **options: Any) -> Any:
    border = Boundary.of(boundary).on(prog.ndim)
    return arrays.apply(prog, fields, border=border, **options)


def data(*shape: int, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 100, shape).astype(dtype)


@pytest.fixture(params=["whole", "blocks"])
def strategy(request: pytest.FixtureRequest, limited: Any) -> str:
    """Arrays that are copied as a whole, or a few rows at a time."""
    if request.param == "blocks":
        limited(block_elements=40)
    return request.param


@pytest.mark.parametrize("rule", ["constant", "nearest", "reflect", "mirror", "wrap"])
@pytest.mark.parametrize("reach", [((-1, 1), (-1, 1)), ((-3, 1), (0, 2)), ((1, 2), (-4, -2))])
def test_as_scipy(rule: str, reach: Any, strategy: str) -> None:
    weights = window(reach)
    x = data(12, 15)
    got = applied(program(weights), x, boundary=rule, cval=7)
    size = [2 * max(abs(a), abs(b)) + 1 for a, b in reach]
    kernel = np.zeros(size)
    for (_, offset), weight in weights.items():
        kernel[tuple(o + s // 2 for o, s in zip(offset, size, strict=True))] = weight
    np.testing.assert_array_equal(got, ndimage.correlate(x, kernel, mode=rule, cval=7))


@pytest.mark.parametrize("seed", range(150))
def test_every_rule_axis_side_and_size(seed: int, strategy: str) -> None:
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(1, 4))
    shape = tuple(int(k) for k in rng.integers(0 if rng.random() < 0.1 else 1, 8, ndim))
    rules: list[Any] = []
    for _ in range(ndim):
        rules.append("wrap" if rng.random() < 0.2 else tuple(map(str, rng.choice(SIDES, 2))))
    outputs = []
    for k in range(int(rng.integers(1, 4))):
        low = rng.integers(-4, 3, ndim)
        high = low + rng.integers(0, 3 if ndim < 3 else 2, ndim)
        reach = [(int(a), int(b)) for a, b in zip(low, high, strict=True)]
        outputs.append(window(reach, seed + k, field=int(rng.integers(0, 3))))
    prog = program(*outputs, fields=3)
    fields = [data(*shape, seed=seed + k) for k in range(3)]
    border = Boundary.of(rules).on(ndim)
    got = arrays.apply(prog, fields, border=border, cval=-9)
    got = got if isinstance(got, tuple) else (got,)
    for one, want in zip(got, brute(prog, fields, border, -9), strict=True):
        np.testing.assert_array_equal(one, want)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("reach", [(-50, -50), (-7, 9), (2, 3), (40, 41)])
def test_arrays_far_smaller_than_the_footprint(rule: str, n: int, reach: Any) -> None:
    prog = program(window([reach]))
    x = data(n)
    border = Boundary.of(rule).on(1)
    got = applied(prog, x, boundary=rule, cval=5)
    np.testing.assert_array_equal(got, brute(prog, [x], border, 5)[0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lead", [(0,), (1,), (5,), (2, 3), (2, 0, 3), (2, 3, 4)])
def test_leading_axes_are_a_stack(rule: str, lead: Any) -> None:
    prog = program(window([(-1, 1), (0, 2)]))
    x = data(*lead, 5, 6)
    got = applied(prog, x, boundary=rule)
    flat = x.reshape(int(np.prod(lead)), 5, 6)
    want = [brute(prog, [image], Boundary.of(rule).on(2))[0] for image in flat]
    shape = brute(prog, [np.zeros((5, 6))], Boundary.of(rule).on(2))[0].shape
    np.testing.assert_array_equal(got, np.array(want).reshape(*lead, *shape))


@pytest.mark.parametrize("rule", ["fill", "mirror", "keep"])
@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 5, 6), (5, 6)),
        ((5, 6), (3, 5, 6)),
        ((4, 1, 5, 6), (3, 5, 6)),
        ((5, 6), (6,)),
        ((5, 1), (1, 6)),
        ((2, 1, 5, 6), (1, 3, 1, 1)),
        ((5, 6), ()),
    ],
)
def test_fields_broadcast(rule: str, shapes: Any, strategy: str) -> None:
    prog = program(window([(-1, 1), (-2, 0)]) | window([(0, 1), (0, 0)], 1, field=1), fields=2)
    fields = [data(*shape, seed=k) for k, shape in enumerate(shapes)]
    full = np.broadcast_arrays(*fields)
    got = applied(prog, *fields, boundary=rule)
    assert got.shape == full[0].shape
    for place in np.ndindex(*full[0].shape[:-2]):
        want = brute(prog, [f[place] for f in full], Boundary.of(rule).on(2))[0]
        np.testing.assert_array_equal(got[place], want)


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (0, 2), (-1, 0), (2, 1)])
@pytest.mark.parametrize("rule", ["valid", "wrap"])
def test_axes(axes: Any, rule: str) -> None:
    prog = program(window([(-1, 1), (0, 3)]))
    x = data(6, 7, 8)
    got = applied(prog, x, boundary=rule, axes=axes)
    want = applied(prog, np.ascontiguousarray(np.moveaxis(x, axes, (-2, -1))), boundary=rule)
    np.testing.assert_array_equal(got, np.moveaxis(want, (-2, -1), axes))
    out = np.empty(got.shape)
    assert applied(prog, x, boundary=rule, axes=axes, out=out) is out
    np.testing.assert_array_equal(out, got)


@pytest.mark.parametrize(
    ("axes", "error", "words"),
    [
        ((0,), ValueError, "names 1 axes; the stencil has 2"),
        ((0, 3), ValueError, "axis 3 does not exist in an array of 3 dimensions"),
        ((0, -3), ValueError, "names one axis twice"),
        ((0, 1.0), TypeError, "axes must be integers, not 1.0"),
        ("xy", TypeError, "axes must be a tuple of 2 integers, not 'xy'"),
        (1, ValueError, "names 1 axes; the stencil has 2"),
    ],
)
def test_axes_refused(axes: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        applied(program(window([(0, 1), (0, 1)])), data(3, 4, 5), axes=axes)
    assert words in str(caught.value)


def odd_arrays() -> dict[str, np.ndarray]:
    x = data(4, 40, 50)
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


@pytest.mark.parametrize("name", sorted(odd_arrays()))
@pytest.mark.parametrize("rule", ["fill", "reflect", "keep"])
@pytest.mark.parametrize("block", [262_144, 700, 20])
def test_odd_arrays(name: str, rule: str, block: int, strategy: str, limited: Any) -> None:
    limited(block_elements=block)
    prog = program(window([(-1, 2), (-2, 1)]))
    x = odd_arrays()[name]
    before = x.copy()
    want = applied(prog, np.array(x, np.float64, order="C"), boundary=rule)
    np.testing.assert_array_equal(applied(prog, x, boundary=rule), want)
    np.testing.assert_array_equal(x, before)
    for k, other in odd_arrays().items():
        if k in ("frozen", "constant", "same_rows"):
            continue
        out = other
        assert applied(prog, x, boundary=rule, out=out) is out
        np.testing.assert_array_equal(out, want)


def test_float16_is_read_as_the_program_wants() -> None:
    prog = program(window([(-1, 1)]), dtype=np.float32)
    x = data(20, dtype=np.float16)
    np.testing.assert_array_equal(applied(prog, x), applied(prog, x.astype(np.float32)))


@pytest.mark.parametrize("lead", [(200, 30), (3, 4), (7, 2, 5)])
def test_a_stack_of_odd_strides(lead: Any, limited: Any) -> None:
    limited(block_elements=3000)
    prog = program(window([(-1, 1), (-1, 1)]))
    x = data(*lead[::-1], 6, 7)
    axes = tuple(range(len(lead)))
    swapped = x.transpose(*axes[::-1], -2, -1)
    want = applied(prog, x, boundary="wrap").transpose(*axes[::-1], -2, -1)
    np.testing.assert_array_equal(applied(prog, swapped, boundary="wrap"), want)
    out = np.empty_like(x).transpose(*axes[::-1], -2, -1)
    applied(prog, swapped, boundary="wrap", out=out)
    np.testing.assert_array_equal(out, want)


def test_one_call_for_a_stack_of_tiny_images() -> None:
    calls = []

    class Counted(WindowSum):
        def run(self, fields: list[np.ndarray], outs: list[np.ndarray]) -> None:
            calls.append(outs[0].shape)
            super().run(fields, outs)

    plain = program(window([(-1, 1), (-1, 1)]))
    counted = Counted(plain.outputs, plain.field_dtypes, plain.out_dtypes)
    x = data(100, 20, 8, 8)
    applied(counted, x, threads=1)
    assert calls == [(2000, 6, 6)]
    calls.clear()
    got = applied(counted, x, boundary="wrap", threads=1)
    assert len(calls) == 1
    np.testing.assert_array_equal(got, ndimage.correlate(x, kernel_of(plain), mode="wrap"))


def kernel_of(prog: WindowSum) -> np.ndarray:
    kernel = np.zeros((1, 1, 3, 3))
    for (_, (i, j)), weight in prog.outputs[0].items():
        kernel[0, 0, i + 1, j + 1] = weight
    return kernel


@pytest.mark.parametrize("rule", ["fill", "keep", "constant", "mirror"])
def test_out_may_overlap(rule: str, strategy: str) -> None:
    prog = program(window([(-1, 2), (-2, 1)]))
    x = data(30, 40)
    want = applied(prog, x[:20], boundary=rule)
    for shift in (0, 1, 5):
        y = x.copy()
        applied(prog, y[:20], boundary=rule, out=y[shift : shift + 20])
        np.testing.assert_array_equal(y[shift : shift + 20], want)
    y = x[:20].copy()
    applied(prog, y, boundary=rule, out=y[::-1])
    np.testing.assert_array_equal(y[::-1], want)


def test_out_of_several_outputs() -> None:
    prog = program(window([(-1, 1)]), window([(0, 3)]))
    x = data(20)
    want = applied(prog, x, boundary="valid")
    assert [w.shape for w in want] == [(18,), (17,)]
    outs = (np.empty(18), np.empty(17))
    got = applied(prog, x, boundary="valid", out=outs)
    assert got[0] is outs[0]
    assert got[1] is outs[1]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def read_only(shape: Any) -> np.ndarray:
    array = np.zeros(shape)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        (np.zeros((4, 6)), ValueError, "out has shape (4, 6), but the result has (5, 6)"),
        (np.zeros((1, 5, 6)), ValueError, "out has shape (1, 5, 6)"),
        (np.zeros((5, 6), "i4"), TypeError, "out has dtype int32, but the result has float64"),
        (read_only((5, 6)), ValueError, "out is read-only"),
        ([1, 2], ValueError, "out has 2 arrays, but the stencil has 1 outputs"),
        ("x", TypeError, "out must be a NumPy array, not str"),
        (np.ma.zeros((5, 6)), TypeError, "out must be a NumPy array, not MaskedArray"),
    ],
)
def test_out_refused(out: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        applied(program(window([(0, 1), (0, 1)])), data(5, 6), out=out)
    assert words in str(caught.value)


def test_outs_that_share_memory_are_refused() -> None:
    both = np.zeros(20)
    with pytest.raises(ValueError, match="share memory"):
        applied(program(window([(0, 1)]), window([(0, 0)])), data(20), out=(both, both))


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (
            np.zeros(4, object),
            'dtype object; convert it first, for example with .astype("float64")',
        ),
        (np.zeros(4, "M8[s]"), 'dtype datetime64[s]; use .astype("int64")'),
        (np.zeros(4, "U3"), "dtype <U3; convert it to numbers first"),
        (np.zeros(4, "f4,f4"), "pass one of its members, array[name]"),
        (np.ma.zeros(4), "fill it first with .filled(value)"),
        (np.zeros(4, np.longdouble), 'use .astype("float64")'),
        ([None, 1], "dtype object"),
    ],
)
def test_fields_refused(field: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        applied(program(window([(0, 1)])), field)
    assert words in str(caught.value)


def test_shapes_refused() -> None:
    prog = program(window([(0, 1), (0, 1)]), fields=2)
    with pytest.raises(ValueError, match=r"\(3, 4\) and \(3, 5\) do not broadcast"):
        applied(prog, data(3, 4), data(3, 5))
    with pytest.raises(ValueError, match=r"at least 2 dimensions, not of shape \(4,\)"):
        applied(prog, data(4), data(1))


def test_cval_is_checked_before_anything_runs() -> None:
    prog = program(window([(0, 1)]), dtype=np.uint8)
    out = np.full(4, 9, np.uint8)
    for rule in ("fill", "constant"):
        with pytest.raises(ValueError, match="cval=300 does not fit"):
            applied(prog, data(4, dtype=np.uint8), boundary=rule, cval=300, out=out)
    assert (out == 9).all()
    applied(prog, data(4, dtype=np.uint8), boundary="wrap", cval=300)


def test_keep_needs_a_field_that_fits() -> None:
    two = program(window([(0, 1)]), window([(0, 1)]))
    with pytest.raises(ValueError, match="output 2 has none"):
        applied(two, data(5), boundary="keep")
    narrow = program(window([(0, 1)]), dtype=np.int64, out=np.uint8)
    with pytest.raises(ValueError, match="cannot hold int64 values in a uint8 result"):
        applied(narrow, data(5, dtype=np.int64), boundary="keep")


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("shape", [(900, 1000), (50, 100, 90), (400_000,), (3, 300_000)])
@pytest.mark.parametrize("rule", ["fill", "reflect"])
def test_threads_change_nothing(threads: int, shape: Any, rule: str) -> None:
    core = 1 if shape[-1] > 100_000 else 2
    prog = program(window([(-1, 2)] * core))
    x = data(*shape)
    got = applied(prog, x, boundary=rule, threads=threads)
    want = [
        applied(prog, part, boundary=rule, threads=1)
        for part in x.reshape(-1, *x.shape[len(shape) - core :])
    ]
    np.testing.assert_array_equal(got, np.array(want).reshape(x.shape))


def test_threads_with_foreign_arrays() -> None:
    prog = program(window([(-1, 1), (-1, 1)]))
    x = data(700, 800)
    got = applied(prog, x.T.astype(">f8"), boundary="wrap", threads=3)
    np.testing.assert_array_equal(got, applied(prog, x.T.copy(), boundary="wrap", threads=1))


def test_a_memmap_is_read_block_by_block(tmp_path: Any) -> None:
    import tracemalloc

    stored = np.memmap(tmp_path / "x", ">f4", "w+", shape=(40, 500, 500))
    stored[...] = data(500, 500)
    prog = program(window([(0, 1), (-1, 0)]), dtype=np.float32)
    out = np.empty((40, 500, 500), np.float32)
    tracemalloc.start()
    applied(prog, stored, boundary="nearest", out=out, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < stored.nbytes / 2
    np.testing.assert_array_equal(
        out[7], applied(prog, data(500, 500, dtype="f4"), boundary="nearest")
    )


def test_more_parts_than_are_remembered_on_threads(limited: Any) -> None:
    limited(block_elements=500)
    limited(handoff_seconds=0)
    prog = program(window([(-1, 1), (-1, 1)]))
    x = data(600, 700).T
    for rule in ("valid", "reflect"):
        got = applied(prog, x, boundary=rule, threads=2)
        np.testing.assert_array_equal(got, applied(prog, x.copy(), boundary=rule, threads=1))


def test_thread_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NINEPOINT_THREADS", raising=False)
    assert thread_count() == len(os.sched_getaffinity(0))
    assert thread_count(3) == 3
    monkeypatch.setenv("NINEPOINT_THREADS", " 5 ")
    assert thread_count() == 5
    assert thread_count(2) == 2
    with serial():
        assert thread_count() == 1
        assert thread_count(4) == 1
    for text in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("NINEPOINT_THREADS", text)
        with pytest.raises(ValueError, match="NINEPOINT_THREADS="):
            thread_count()
    with pytest.raises(ValueError, match="threads=0 is less than 1"):
        thread_count(0)
    for wrong in (True, 1.5, "2"):
        with pytest.raises(TypeError, match="threads must be a whole number"):
            thread_count(wrong)  # type: ignore[arg-type]


def test_run_parallel_runs_all_and_nests() -> None:
    seen = []
    barrier = threading.Barrier(2, timeout=20)

    def inner() -> None:
        seen.append(threading.get_ident())

    def outer() -> None:
        barrier.wait()  # passes only if two threads work at once
        assert thread_count() == 1
        run_parallel([inner] * 3, 2)

    run_parallel([outer] * 4, 2)
    assert len(seen) == 12
    assert len(set(seen)) == 2


def test_run_parallel_hands_on_the_first_error() -> None:
    done = []

    def fail() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        run_parallel([fail, *itertools.repeat(lambda: done.append(1), 50)], 3)


def test_a_forked_child_has_its_own_pool() -> None:
    prog = program(window([(-1, 1), (-1, 1)]))
    x = data(600, 600)
    want = applied(prog, x, threads=2)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(applied(prog, x, threads=2), want) else 1)
    assert os.waitpid(child, 0)[1] == 0
