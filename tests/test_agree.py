"""Every way of computing a kernel gives what the reference says.

Seeds are fixed, so that a failure is found again.  A longer run over other seeds is
`python tests/test_agree.py FIRST LAST`.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np
import pytest

import agreement
import ninepoint as npt
from ninepoint.language import reference
from thorough import only

# Compiled code is tried between protected pages first.
pytestmark = pytest.mark.usefixtures("protected_pages")

PLAIN = 700
COMPILED = 30
GENERAL = 4
BATCH = 25


@pytest.mark.parametrize("first", only(14, range(0, PLAIN, BATCH)))
def test_generated_text_agrees_with_the_reference(first):
    for seed in range(first, first + BATCH):
        drawn = agreement.draw(seed)
        agreement.compare(drawn, agreement.by_text(drawn), agreement.expected(drawn))


@pytest.mark.parametrize("seed", only(20, range(50_000, 50_000 + COMPILED)))
def test_compiled_code_agrees_with_the_reference(seed):
    drawn = agreement.draw(seed)
    agreement.compare(drawn, agreement.by_call(drawn), agreement.expected(drawn))


@pytest.mark.parametrize("seed", range(400_000, 400_000 + GENERAL))
def test_the_general_path_agrees_with_the_reference(seed):
    drawn = agreement.draw(seed, numbers="int", general=True, size=2, outputs=1)
    agreement.compare(drawn, agreement.by_call(drawn), agreement.expected(drawn))


# The kernels of the test before, which are compiled already.
@pytest.mark.parametrize("seed", only(20, range(50_000, 50_000 + COMPILED)))
def test_calls_prepared_once_give_the_same(seed):
    drawn = agreement.draw(seed)
    wanted = agreement.by_call(drawn)
    agreement.compare_exactly(agreement.again(drawn), wanted)
    agreement.compare_exactly(agreement.again(drawn), wanted)
    if len(wanted) == 1:
        out = np.empty_like(wanted[0])
        for _ in range(2):
            out.fill(1)
            agreement.compare_exactly(agreement.again(drawn, out=out), wanted)


@pytest.mark.parametrize("first", range(0, 50, BATCH))
def test_nothing_outside_the_reach_matters(first):
    """Change the elements outside the reach of one point: its value stays."""
    for seed in range(first, first + BATCH):
        drawn = agreement.draw(seed, outputs=1)
        case = drawn.case
        (low, high), *_ = agreement.looks(drawn)
        rng = Random(seed)
        shape = (9,) * case.ndim
        centre = (4,) * case.ndim
        arrays = agreement.kernels.random_arrays(rng, case, shape)
        arrays = {
            name: array if name in case.standard else np.broadcast_to(array, shape)
            for name, array in arrays.items()
        }
        inside = tuple(slice(4 + a, 4 + b + 1) for a, b in zip(low, high, strict=True))
        other = dict(arrays)
        for name in case.fields:
            changed = np.flip(arrays[name]).copy()
            changed[inside] = arrays[name][inside]
            other[name] = changed
        results = [
            reference.evaluate(
                case.function,
                given,
                scalars=case.scalars,
                standard=tuple(case.standard),
                boundary="nearest",
                ndim=case.ndim,
            )[0][centre]
            for given in (arrays, other)
        ]
        assert results[0] == results[1] or results[0] != results[0], str(case)


def test_scalars_mix_with_floats_as_literals_do():
    def kernel(x, k):
        return x[0] * (k * 0.5) + k / 4

    image = np.arange(5, dtype="float32")
    (values,) = reference.evaluate(kernel, [image], scalars={"k": 3}, ndim=1)
    result = npt.stencil(kernel)(image, 3)
    assert result.dtype == "float32"
    assert {type(value) for value in values} == {np.float32}
    np.testing.assert_array_equal(result, values.astype("float32"))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads):
    @npt.stencil(boundary="mirror")
    def kernel(x):
        return x[-1, 2] * 3 - x[0, 0] // 2 + x[1, -1]

    image = np.random.default_rng(0).integers(-99, 99, (301, 257)).astype("int16")
    np.testing.assert_array_equal(kernel(image, threads=threads), kernel(image, threads=1))


def test_half_floats_that_are_broadcast_over_a_stack():
    """They are widened in an order of axes that generated code can walk along."""

    @npt.stencil
    def kernel(x, y):
        return x[-1] + y[1]

    x = np.zeros((3, 6), "float32")
    y = np.arange(6, dtype="float16")
    np.testing.assert_array_equal(kernel(x, y), [[0, 2, 3, 4, 5, 0]] * 3)


def main(first: int, last: int) -> None:
    """Compare many kernels, as text, and say which differ."""
    wrong = []
    for seed in range(first, last):
        drawn = agreement.draw(seed)
        try:
            agreement.compare(drawn, agreement.by_text(drawn), agreement.expected(drawn))
        except (AssertionError, TypeError, ValueError, ArithmeticError) as error:
            wrong.append(seed)
            print(f"seed {seed}: {type(error).__name__} {error}\n{drawn.case}")
    print(f"{last - first - len(wrong)} of {last - first} agree; not: {wrong}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
