"""Machine code that is called without Numba: what it takes, what it refuses, what it raises."""

from __future__ import annotations

import sys
import threading
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.backends.llvm import native

pytestmark = pytest.mark.skipif(not native.possible(), reason="arrays are laid out otherwise")


def compiled(function: Any, *dtypes: str, **others: Any) -> Any:
    """What a kernel is compiled to for fields of these types."""
    return npt.stencil(function).definition.compiled([np.dtype(d) for d in dtypes], others)[0]


def average(x):
    return (x[0, -1] + x[0, 1]) / 2


def block(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float64").reshape(shape)


def test_numba_does_not_call_it():
    assert type(compiled(average, "float64").entry) is BuiltinFunctionType


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bool", True),
        ("bool", False),
        ("int64", -(2**63)),
        ("uint64", 2**64 - 1),
        ("float32", 0.1),
        ("float64", -0.1),
        ("complex64", 0.5 - 3j),
        ("complex128", 0.1 + 1e300j),
    ],
)
def test_scalars_of_every_kind(kind, value):
    number = np.dtype(kind).type(value)

    @npt.stencil
    def chosen(x, number):
        return number if x[0] else x[0]

    result = chosen(np.ones(3, dtype="bool"), number)
    assert result.dtype == kind
    np.testing.assert_array_equal(result, np.full(3, number))


def test_a_scalar_that_is_no_number():
    def scaled(x, factor):
        return x[0] * factor

    entry = compiled(scaled, "float64", factor=1.5).entry
    field, out = block(1, 4), np.empty((1, 4))
    with pytest.raises(TypeError, match="must be real number"):
        entry(field, out, "two")
    entry(field, out, 2.0)
    np.testing.assert_array_equal(out, 2 * field)


X, OUT = block(1, 3, 6), np.empty((1, 3, 4))
FROZEN = np.empty((1, 3, 4))
FROZEN.flags.writeable = False
UNALIGNED = np.frombuffer(bytes(1 + X.nbytes), dtype="float64", offset=1).reshape(X.shape)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (X,),
        (X, OUT, OUT),
        (X, None),
        (X.tolist(), OUT),
        (X[0], OUT),
        (X, OUT.astype("float32")),
        (X.view("int64"), OUT),
        (X.view("complex128"), OUT),
        (X.astype(">f8"), OUT),
        (X, FROZEN),
        (UNALIGNED, OUT),
    ],
)
def test_arguments_that_do_not_fit(arguments):
    entry = compiled(average, "float64").entry
    with pytest.raises(TypeError):
        entry(*arguments)
    entry(X, OUT)
    np.testing.assert_array_equal(OUT, X[..., 1:-1])


def test_arrays_as_they_lie():
    class Own(np.ndarray):
        pass

    entry = compiled(average, "float64").entry
    wide = block(2, 5, 13)
    fields = wide[::-1, 1:4, 2:8].view(Own)
    out = np.zeros((2, 3, 9))
    entry(fields, out[..., 2:6])
    np.testing.assert_array_equal(out[..., 2:6], wide[::-1, 1:4, 3:7])
    assert not out[..., :2].any()
    assert not out[..., 6:].any()


def test_no_memory():
    """Rows that are kept need more than there is; the arrays themselves are one element."""

    def total(x):
        result = 0
        for i in range(-4, 5):
            for j in range(-4, 5):
                result += x[i, j]
        return result

    kernel = compiled(total, "uint8")
    assert "np.empty" in kernel.module.text
    columns = 2**44
    one = np.ones(1, dtype="uint8")
    field = np.lib.stride_tricks.as_strided(one, (1, 9, columns + 8), (0, 0, 0))
    one = np.ones(1, dtype=kernel.out_dtypes[0])
    out = np.lib.stride_tricks.as_strided(one, (1, 1, columns), (0, 0, 0))
    with pytest.raises(MemoryError):
        kernel.entry(field, out)


def test_arrays_are_neither_kept_nor_lost():
    entry = compiled(average, "float64").entry
    field, out = block(1, 3, 6), np.empty((1, 3, 4))
    before = sys.getrefcount(field), sys.getrefcount(out)
    for _ in range(100):
        assert entry(field, out) is None
    assert (sys.getrefcount(field), sys.getrefcount(out)) == before


def test_threads_run_at_once():
    """Python goes on while machine code runs."""

    def far(x):
        return np.arctan(np.sin(x[0, 0]))

    entry = compiled(far, "float64").entry
    field = np.ones((1, 1000, 1000))
    running = threading.Thread(target=entry, args=(field, np.empty_like(field)))
    steps = 0
    running.start()
    while running.is_alive():
        steps += 1
    assert steps > 2


@pytest.mark.parametrize("how", [b"", b"other", b"cut"])
def test_content_that_was_not_written(how):
    whole = native.packed(b"code\n\x00", ["sin", "malloc"])
    assert native.unpacked(whole) == (b"code\n\x00", ["sin", "malloc"])
    with pytest.raises(ValueError, match="not what was written"):
        native.unpacked({b"cut": whole[:-1]}.get(how, how))
