"""Stencils on NumPy arrays: borders, stacks, memory of any order, out=, blocks and threads."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal as equal

import ninepoint as npt
from compared import most_memory, whole

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
def test_values_that_fit() -> None:
    for cval, dtype in [
        (2.0, "i4"), (255, "u1"), (True, "u1"), (np.int16(-4), "i1"), (0.1, "f4"), (np.inf, "f4"),
        (np.nan, "f4"), (-0.0, "f8"), (1 + 2j, "c8"), (2**64 - 1, "u8"), (np.array(3), "i8"),
    ]:  # fmt: skip
        made = npt.stencil(lambda x: x[-1])(np.zeros(3, dtype), cval=cval)[0]
        wanted = np.asarray(cval).astype(dtype)
        equal(made, wanted[()], strict=True)
        assert np.signbit(made.real) == np.signbit(wanted.real)


@pytest.mark.usefixtures("as_python")
def test_a_value_that_does_not_fit_is_refused_before_anything_runs() -> None:
    """The words are on the page of messages about options."""
    kernel = npt.stencil(lambda x: x[-1])
    x, out = np.zeros(4), np.full(4, 9.0)
    for rule in ("fill", "constant"):
        with pytest.raises(ValueError, match="numbers up to"):
            kernel(x, boundary=rule, cval=10**400, out=out)
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
