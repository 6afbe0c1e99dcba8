"""Elements of every size in rows with gaps, on threads: as contiguous arrays on one thread."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import ninepoint as npt
import protected
from nightly import only


@pytest.mark.parametrize(
    ("boundary", "shape"),
    [("reflect", (2, 20, 31)), ("keep", (40, 61)), ("valid", (40, 61)), ("fill", (600, 701))],
)
def test_views_as_contiguous_arrays(boundary: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 100, shape).astype("int32")
    record = np.zeros(shape, [("y", "int32"), ("x", "int32"), ("z", "int32")])
    record["x"] = x
    twice = np.repeat(x, 2, -1)
    back = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    wanted = mean(x, boundary=boundary)
    for view in (record["x"], twice[..., ::2], twice[..., 1::2], back):
        for threads in (1, 2):
            for _ in range(2):
                got = mean(view, boundary=boundary, threads=threads)
                np.testing.assert_array_equal(got, wanted)
    if boundary != "valid":
        # Written where something else stands beside, and over the field itself.
        for _ in range(2):
            record["x"] = x
            mean(x, boundary=boundary, out=record["y"])
            np.testing.assert_array_equal(record["y"], wanted)
            mean(record["x"], boundary=boundary, out=record["x"])
            np.testing.assert_array_equal(record["x"], wanted)
            assert not record["z"].any()


@npt.stencil(boundary="reflect")
def mean(x):
    return (x[-1, -1] + x[-1, 1] + x[0, 0] + x[1, -1] + x[1, 1]) // 5


@npt.stencil
def moved(x):
    return x[-2, 1]


@npt.stencil
def pair(x, y, a):
    return x[-2, 1] + a * y[0, -1], x[1, 0] - y[0, 3]


@pytest.mark.parametrize("boundary", ["constant", "wrap", "keep"])
@pytest.mark.parametrize("dtype", ["bool", "float16", "int32", "complex128"])
def test_every_size_of_elements(boundary: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    options = {"boundary": boundary, "cval": 1}
    for shape in [(300, 500), (2, 2, 9, 8)]:
        x = rng.integers(0, 100, shape).astype(dtype)
        result = moved(x, **options)
        np.testing.assert_array_equal(moved(x, **options), result)
        wanted = moved(x.astype(x.dtype.newbyteorder(">")), **options)
        np.testing.assert_array_equal(result, wanted)
        one = x[(0,) * (len(shape) - 2)][-9:, -8:].copy()
        np.testing.assert_array_equal(moved(one, **options), moved.debug(one, **options))


@pytest.mark.parametrize("boundary", ["constant", "nearest", "wrap", "mirror", "fill"])
def test_several_fields_outputs_and_threads(boundary: str) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 100, (900, 800)).astype("int16") for _ in range(2))
    one = pair(x, y, 2, boundary=boundary, cval=7, threads=1)
    for threads in (1, 2, 3):
        two = pair(x, y, 2, boundary=boundary, cval=7, threads=threads)
        for got, wanted in zip(two, one, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_calls_at_once_do_not_share_blocks() -> None:
    rng = np.random.default_rng(4)
    images = [rng.random((300, 400)) for _ in range(6)]
    wanted = [mean(image, threads=1) for image in images]
    differ: list[int] = []

    def work(k: int) -> None:
        for _ in range(50):
            if not np.array_equal(mean(images[k], threads=1), wanted[k]):
                differ.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not differ


@npt.stencil(boundary="valid")
def both(x):
    return x[-1, 0] + x[1, 0]


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "complex128"])
def test_rows_with_gaps_between_protected_pages(dtype: str) -> None:
    def work() -> None:
        for step in (-1, 2, 3, 4, -2, 5):
            for columns in (1, 8, 16, 50):
                # The view has the first and the last element of its memory.
                wide = abs(step) * (columns - 1) + 1
                whole = np.arange(5 * wide).reshape(5, wide).astype(dtype)
                for at_end in (False, True):
                    view = protected.between(whole, at_end=at_end)[:, ::step]
                    for _ in range(2):
                        got = both(view, threads=1)
                        exact = whole[:, ::step].astype(got.dtype)
                        wanted = exact[:-2] + exact[2:]
                        np.testing.assert_array_equal(got, wanted)

    both(np.zeros((3, 3), dtype))
    assert not protected.survives(work)
    work()


@pytest.mark.usefixtures("as_python")
@pytest.mark.parametrize(
    ("order", "boundary"),
    only(7, itertools.product(itertools.permutations(range(3)), ["wrap", "keep"])),
)
def test_axes_in_any_order(order: tuple[int, ...], boundary: str) -> None:
    @npt.stencil(boundary=boundary)
    def around(x):
        return 2.5 * x[0, 0, 0] - x[-1, 0, 1] + x[0, 1, 0] + x[1, -1, -2]

    lengths = np.array((3, 30, 67))[list(order)]
    lain = np.random.default_rng(0).integers(0, 250, lengths * (1, 1, 2)).astype("uint8")
    back = np.argsort(order)
    for array in (lain[..., ::2], lain[:, ::-1, : lengths[2]], lain[:, :, 1::2][::-1]):
        turned = array.transpose(back)
        wanted = around(np.ascontiguousarray(turned))
        np.testing.assert_array_equal(around(turned), wanted)
        target = np.zeros(turned.shape[::-1]).T
        around(turned, out=target)
        np.testing.assert_array_equal(target, wanted)


def test_arrays_of_the_same_strides_in_the_other_byte_order() -> None:
    # Of such arrays elements are converted, and none are by machine code.
    wide = np.random.default_rng(5).integers(0, 100, (300, 800)).astype("int32")
    wanted = mean(np.ascontiguousarray(wide[:, ::2]))
    for one in (wide, wide.astype(">i4"), wide):
        np.testing.assert_array_equal(mean(one[:, ::2]), wanted)
