"""A call that was prepared gives what the long way gives, on other data of the same shapes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import agreement

RULES = agreement.kernels.RULES


def plain_kernel(seed: int) -> agreement.Drawn:
    """A random kernel that can be called with its fields alone, by position."""
    numbers = Random(seed).choice(["int", "float", "mixed"])
    while True:
        drawn = agreement.draw(seed, numbers=numbers)
        names = drawn.stencil.fields
        if (
            not (drawn.case.scalars or drawn.case.standard)
            and drawn.stencil.parameters[: len(names)] == names
        ):
            return drawn
        seed += 1000


@pytest.mark.parametrize("seed", range(80_000, 80_008))
def test_prepared_calls_agree(seed):
    rng = Random(seed)
    drawn = plain_kernel(seed)
    case, stencil = drawn.case, drawn.stencil
    for _ in range(12):
        shape = agreement.kernels.random_shape(rng, case.ndim)
        shape = rng.choice([shape, shape, (rng.randint(1, 3), *shape), (2, 1, *shape)])
        rules = [rule for rule in RULES if rule != "keep" or len(case.outputs) <= len(case.fields)]
        options = {"boundary": rng.choice(rules), "cval": rng.choice([0, 1])}
        for _ in range(3):
            arrays = [
                np.broadcast_to(array, shape).astype(array.dtype.newbyteorder("="))
                for array in agreement.kernels.random_arrays(rng, case, shape).values()
            ]
            named = dict(zip(stencil.fields, arrays, strict=True))
            wanted = _listed(stencil(**named, **options))
            outs = [np.full_like(one, 99) for one in wanted]
            for out in (None, outs[0] if len(outs) == 1 else tuple(outs)):
                results = _listed(stencil(*arrays, **options, out=out))
                for one, other in zip(results, wanted, strict=True):
                    assert one.dtype == other.dtype
                    np.testing.assert_array_equal(one, other, err_msg=str(case))


def _listed(results):
    return results if isinstance(results, tuple) else (results,)
