"""Random functions of numbers, compared with the reference.

`python tests/random_ufuncs.py FIRST LAST` tries many, as text that runs as plain Python.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import numpy as np

import agreement
import kernels
import ninepoint as npt
from ninepoint.language import reference


def draw(seed: int, least: int = 1, **options: Any) -> agreement.Drawn:
    """A function of numbers with its arrays, of `least` axes or more, which broadcast."""
    rng = Random(seed)
    case = kernels.random_kernel(rng, ndim=1, pointwise=True, **options)
    sizes = [0, 1, 2, 3, 4, 5] if rng.random() < 0.05 else [1, 2, 3, 4, 5]
    shape = tuple(rng.choice(sizes) for _ in range(rng.choice([least, 1, 2, 2, 3])))
    arrays = {}
    for position, (name, dtype) in enumerate(case.fields.items()):
        own = shape
        if position and rng.random() < 0.4:
            own = tuple(1 if rng.random() < 0.4 else n for n in shape)
            own = own[rng.randint(0, len(shape)) :]
        values = kernels.values(rng, dtype, own or (1,), case.averages)
        arrays[name] = kernels.laid_out(rng, values) if own else values.reshape(())
    for name, (dtype, own) in case.standard.items():
        arrays[name] = kernels.values(rng, dtype, own, True)
    schedule = agreement.random_schedule(rng) if rng.random() < 0.3 else None
    return agreement.Drawn(case, arrays, "fill", npt.ufunc(schedule=schedule)(case.function))


def expected(drawn: agreement.Drawn) -> tuple[np.ndarray, ...]:
    case, arrays = drawn.case, drawn.arrays
    fields = {name: arrays[name] for name in case.fields}
    others = {name: arrays[name] for name in case.standard}
    return reference.points(case.function, fields, scalars=case.scalars | others)


def by_call(drawn: agreement.Drawn, **options: Any) -> tuple[np.ndarray, ...]:
    result = drawn.stencil(**drawn.values, **options)
    return result if isinstance(result, tuple) else (result,)


def main(first: int, last: int) -> None:
    """Compare many functions, as text, and say which differ."""
    wrong = []
    for seed in range(first, last):
        drawn = draw(seed)
        try:
            agreement.compare(drawn, agreement.by_text(drawn), expected(drawn))
        except (AssertionError, TypeError, ValueError, ArithmeticError) as error:
            wrong.append(seed)
            print(f"seed {seed}: {type(error).__name__} {error}\n{drawn.case}")
    print(f"{last - first - len(wrong)} of {last - first} agree; not: {wrong}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
