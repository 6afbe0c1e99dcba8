"""Every pass: what it leaves is printed in full, is a kernel, and gives what `debug` gives.

A longer run over other seeds is `python tests/inside/test_passes.py FIRST LAST`.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import interpret
import numpy as np
import pytest

import kernels
import ninepoint as npt
from ninepoint.language import ir
from seams import PassesOf, passes_of
from verify_kernels import verify

KERNELS = 1000
BATCH = 25
OFTEN = 1  # batches of every run


def random_schedule(rng: Random) -> npt.Schedule:
    """Choices nobody would make, so that every algorithm is met on small windows."""
    return npt.Schedule(
        unrolled=rng.choice([0, 3, 130]),
        network=rng.choice([0, 4, 50]),
        sorted_columns=rng.choice([0, 9, 49]),
        direct=rng.choice([0, 2, 8]),
        radix=rng.choice([0, 2, 3, 4]),
        shared=rng.choice([-2, 1, 6]),
        rows=rng.choice([1, 2, 3, 4]),
        gain=rng.choice([0.95, 99.0]),
    )


def called(stencil: npt.Stencil, case: kernels.Case, arrays: Any) -> dict[str, Any]:
    """The arguments of a call by name."""
    return {**{n: arrays[n] for n in (*case.fields, *case.standard)}, **case.scalars}


def arguments(
    stencil: npt.Stencil, case: kernels.Case, arrays: dict[str, Any]
) -> tuple[list[Any], list[np.ndarray]]:
    """The scalars and the small arrays of a call, in the order in which a kernel has them."""
    names = [name for name in stencil.scalars if name not in case.standard]
    scalars = [case.scalars.get(name, stencil.defaults.get(name)) for name in names]
    return scalars, [arrays[name] for name in case.standard]


def positions(kernel: ir.Kernel, point: tuple[int, ...], results: tuple[int, ...]) -> list[Any]:
    """The values of the last fields, which are the same wherever they are read from this point."""
    return [(point if one.among == "elements" else results)[one.axis] for one in kernel.positions]


def at_point(
    kernel: ir.Kernel,
    fields: list[np.ndarray],
    point: Any,
    place: Any,
    scalars: Any,
    tables: Any,
) -> list[Any]:
    """The results of a kernel at one point of arrays of one shape."""
    count = len(kernel.fields) - len(kernel.positions)
    placed = positions(kernel, point, place)
    values = {name: placed[k] for k, (name, _) in enumerate(kernel.fields[count:])}
    arrays = dict(zip([name for name, _ in kernel.fields[:count]], fields, strict=True))

    def look(name: str, offset: ir.Offset) -> Any:
        if name in values:
            return values[name]
        there = tuple(a + b for a, b in zip(point, offset, strict=True))
        assert all(k >= 0 for k in there), f"{name}{offset} is before the array"
        return arrays[name][there]

    given = [*scalars, *(fields[0].shape[one.axis] for one in kernel.lengths)]
    numbers = {name: value for (name, _), value in zip(kernel.scalars, given, strict=True)}
    named = {name: t for (name, *_), t in zip(kernel.coefficients, tables, strict=True)}
    return interpret.Point(kernel, look, numbers, named).run()[1]


def drawn(seed: int) -> tuple[Any, PassesOf, kernels.Case, dict[str, Any]]:
    """A kernel after each pass, and arrays on which it has a few points."""
    rng = Random(seed)
    case = kernels.random_kernel(rng)
    while not all(f"{name}[" in case.source for name in case.fields):
        case = kernels.random_kernel(rng)
    schedule = random_schedule(rng) if seed % 2 else npt.Schedule()
    stencil = npt.stencil(**case.options, schedule=schedule)(case.function)
    tables = kernels.random_arrays(rng, case, (1,) * case.ndim)
    given = {n: tables[n] for n in case.standard} | case.scalars
    passes = passes_of(stencil, *(np.dtype(case.fields[n]) for n in stencil.fields), **given)
    reach = passes.reach
    shape = tuple(max(b, 0) - min(a, 0) + 2 for a, b in zip(reach.lo, reach.hi, strict=True))
    arrays = kernels.random_arrays(rng, case, shape)
    arrays = {n: np.broadcast_to(arrays[n], shape).copy() for n in case.fields} | {
        n: tables[n] for n in case.standard
    }
    return stencil, passes, case, arrays


def check(seed: int) -> None:
    stencil, passes, case, arrays = drawn(seed)
    made = stencil.debug(**called(stencil, case, arrays), boundary="valid")
    wanted = made if isinstance(made, tuple) else (made,)
    reach = passes.reach
    low = [max(-a, 0) for a in reach.lo]
    # Each result is as large as it can be; compared is where all of them are.
    parts = [
        tuple(slice(a - max(-b, 0), a - max(-b, 0) + 2) for a, b in zip(low, box.lo, strict=True))
        for box in passes.reaches
    ]
    wanted = tuple(one[part] for one, part in zip(wanted, parts, strict=True))
    fields = [arrays[name] for name in stencil.fields]
    scalars, tables = arguments(stencil, case, arrays)
    seen: list[tuple[str, ir.Kernel, str]] = []
    for name, kernel in passes.kernels.items():
        verify(kernel, passes.reach)
        text = passes.text(name)
        # Whatever differs is printed differently: nothing is left out.
        others = [other for _, other, known in seen if known == text]
        assert all(other == kernel for other in others), f"{name} of seed {seed}\n{text}"
        seen.append((name, kernel, text))
    for name, kernel in {
        repr(kernel): (n, kernel) for n, kernel in passes.kernels.items()
    }.values():
        results = [np.empty_like(one) for one in wanted]
        for place in np.ndindex(*(2,) * kernel.ndim):
            point = tuple(a + b for a, b in zip(place, low, strict=True))
            values = at_point(kernel, fields, point, place, scalars, tables)
            for one, value in zip(results, values, strict=True):
                one[place] = value
        for one, other, loose in zip(results, wanted, case.approximate, strict=True):
            message = f"{name} of seed {seed}\n{passes.text(name)}\n{case}"
            alike(one, other, loose, str(case), message)


def alike(made: np.ndarray, wanted: np.ndarray, loose: bool, text: str, message: str) -> None:
    """Equal to the bit, or where floats are added in another order as near as these come."""
    # Where the parts of complex numbers are added is nobody's promise.
    if not loose and wanted.dtype.kind != "c":
        np.testing.assert_array_equal(made, wanted, err_msg=message)
        return
    single = any(word in text for word in ("32", "float16", "complex64"))
    bound = 1e-2 if "bfloat16" in text else 2e-4 if single else 1e-9
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = max(float(finite.max()) if finite.size else 0.0, 1.0)
    np.testing.assert_allclose(made, wanted, rtol=bound, atol=bound * scale, err_msg=message)


def batches() -> list[Any]:
    first = range(0, KERNELS, BATCH)
    later = [pytest.param(seed, marks=pytest.mark.nightly) for seed in first[OFTEN:]]
    return [*first[:OFTEN], *later]


@pytest.mark.parametrize("first", batches())
def test_every_pass_is_printed_in_full_and_gives_what_debug_gives(first: int) -> None:
    for seed in range(first, first + BATCH):
        check(seed)


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            check(seed)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__} {str(error)[:3000]}")
