"""Compare what the compiler makes of a random kernel with the reference.

`check(seed, plain=True)` runs the generated text as plain Python: thousands of kernels a
minute on tiny arrays.  With `plain=False` the same text is compiled.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest import mock

import numpy as np

import kernels
import ninepoint as npt
import unlucky
from ninepoint import _testing as bounds
from ninepoint.arrays import accepted
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Boundary
from ninepoint.backends.compiled import Bound
from ninepoint.backends.pipeline import compile_lines
from ninepoint.calls import Call
from ninepoint.ghosts.in_memory import applied
from ninepoint.ghosts.sides import Sides
from ninepoint.graph import graph_of
from ninepoint.language.reference import evaluate, store
from ninepoint.lowering.schedule import Schedule

# Here too for those who run this without pytest: look after every pass.
os.environ.setdefault("NINEPOINT_VERIFY", "1")


@dataclass(frozen=True)
class Plain:
    """A program whose generated text runs as plain Python, on arrays that check every index."""

    bound: Bound

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bound, name)

    @property
    def takes_commands(self) -> bool:
        return False

    @property
    def takes_elements(self) -> bool:
        return False

    def within(self, core: tuple[int, ...]) -> Plain:
        return Plain(self.bound.within(core))

    def interleaved(self, lanes: int) -> Plain | None:
        found = self.bound.interleaved(lanes)
        return found and Plain(found)

    def levelled(self) -> Plain | None:
        found = self.bound.levelled()
        return found and Plain(found)

    def transposed(self, order: tuple[int, ...]) -> Plain | None:
        found = self.bound.transposed(order)
        return found and Plain(found)

    def run(self, fields: list[np.ndarray], outs: list[np.ndarray]) -> None:
        compiled = self.bound.compiled
        wide = [_as_taken(one, compiled.module.halves) for one in fields]
        scalars = [
            kind.numpy.type(value)
            for kind, value in zip(compiled.scalar_types, self.bound.scalars, strict=True)
        ]
        taken = [_as_taken(one, compiled.module.halves) for one in outs]
        arguments = [*wide, *taken, *self.bound.coefficients, *scalars]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            last = len(wide) + len(outs)
            writes = [len(wide) <= k < last for k in range(len(arguments))]
            bounds.run(compiled.module.text, arguments, writes)


def _as_taken(array: np.ndarray, halves: bool) -> np.ndarray:
    """The array as a text takes it: half floats by their bits, or widened."""
    if array.dtype != np.float16:
        return array
    return array.view("uint16") if halves else array.astype("float32")


@dataclass(frozen=True)
class _PlainLines:
    """What a kernel computes of positions alone, whose text runs as plain Python as well."""

    found: Any

    def bind(self, values: dict[str, Any]) -> Plain:
        return Plain(compile_lines(self.found).bind(values))


@dataclass(frozen=True)
class Drawn:
    """One random kernel with its arrays and border."""

    case: kernels.Case
    arrays: dict[str, np.ndarray]
    boundary: Any
    stencil: npt.Stencil

    @property
    def values(self) -> dict[str, Any]:
        return self.arrays | self.case.scalars


def random_schedule(rng: Random) -> Schedule:
    """Choices nobody would make, so that every algorithm is met on small windows."""
    return Schedule(
        unrolled=rng.choice([0, 3, 130]),
        network=rng.choice([0, 4, 50]),
        sorted_columns=rng.choice([0, 9, 49]),
        direct=rng.choice([0, 2, 8]),
        radix=rng.choice([0, 2, 3, 4]),
        separable=rng.choice([0.0, 1.0, 1.4, 99.0]),
        shared=rng.choice([-2, 1, 6]),
        running=rng.random() < 0.5,
        rows=rng.choice([1, 2, 3, 4]),
        gain=rng.choice([0.95, 99.0]),
    )


def draw(seed: int, **options: Any) -> Drawn:
    rng = Random(seed)
    case = kernels.random_kernel(rng, **options)
    while not all(f"{name}[" in case.source for name in case.fields):
        # A field that no statement mentions is none: who would tell it from a scalar?
        case = kernels.random_kernel(rng, **options)
    naming = Random(f"names of {seed}")
    if naming.random() < 0.3:
        case = unlucky.renamed(naming, case)
    shape = kernels.random_shape(rng, case.ndim)
    arrays = kernels.random_arrays(rng, case, shape)
    boundary = kernels.random_boundary(rng, case.ndim)
    if "keep" in str(boundary) and len(case.outputs) > len(case.fields):
        boundary = "fill"
    schedule = random_schedule(rng) if rng.random() < 0.5 else Schedule()
    stencil = npt.stencil(**case.options, schedule=schedule)(case.function)
    return Drawn(case, arrays, boundary, stencil)


def looks(drawn: Drawn) -> list[tuple[Any, Any]]:
    """Where each output looks, by the compiler."""
    stencil = drawn.stencil
    dtypes = [accepted.native(drawn.arrays[name].dtype) for name in stencil.fields]
    others = {n: drawn.values.get(n, stencil.defaults.get(n)) for n in stencil.scalars}
    compiled, _, _ = stencil.definition.compiled(dtypes, others)
    return [(box.lo, box.hi) for box in compiled.reaches]


def expected(drawn: Drawn, cval: Any = 0) -> tuple[np.ndarray, ...]:
    case = drawn.case
    return evaluate(
        case.function,
        drawn.arrays,
        scalars=case.scalars,
        standard=tuple(case.standard),
        boundary=drawn.boundary,
        cval=cval,
        ndim=case.ndim,
        footprints=looks(drawn),
    )


def with_positions(
    stencil: npt.Stencil, scalars: dict[str, Any], fields: list[np.ndarray]
) -> list[np.ndarray]:
    """The fields, and the positions that the kernel asks for: those in its fields."""
    call = Call.of(stencil.definition, scalars, "nearest")
    graph, _ = graph_of(call, [accepted.native(one.dtype) for one in fields], looked=True)
    with mock.patch.object(npt.graph, "compile_lines", _PlainLines):
        return [*fields, *graph.positions([one.shape for one in fields])]


def by_text(drawn: Drawn, cval: Any = 0) -> tuple[np.ndarray, ...]:
    """The result of the generated text, run as plain Python."""
    stencil = drawn.stencil
    fields = [accepted.as_field(drawn.arrays[name]) for name in stencil.fields]
    defaults = dict(stencil.defaults)
    others = {n: (drawn.values | {}).get(n, defaults.get(n)) for n in stencil.scalars}
    keep = "keep" in str(drawn.boundary)
    compiled, _, _ = stencil.definition.compiled(
        [accepted.native(f.dtype) for f in fields], others, keep
    )
    program = Plain(compiled.bind(others))
    fields = with_positions(stencil, others, fields)
    boundary = Boundary.of(drawn.boundary)
    if boundary.conditions:
        call = Call.of(stencil.definition, others, boundary, cval)
        types = [accepted.native(f.dtype) for f in fields[: len(stencil.fields)]]
        graph, _ = graph_of(call, types)
        shape = np.broadcast_shapes(*(field.shape for field in fields))
        # What is made of numbers alone may have become a rule with a name.
        sides = Sides.of(graph.nodes[-1], shape, False)
        return tuple(applied(program, fields, shape, sides, [], 1))
    result = on_numpy.apply(
        program,
        fields,
        border=Boundary.of(drawn.boundary).on(compiled.ndim),
        cval=cval,
        threads=1,
    )
    return result if isinstance(result, tuple) else (result,)


def by_call(drawn: Drawn, cval: Any = 0, **options: Any) -> tuple[np.ndarray, ...]:
    """The result of an ordinary call."""
    result = drawn.stencil(**drawn.values, boundary=drawn.boundary, cval=cval, **options)
    return result if isinstance(result, tuple) else (result,)


def again(drawn: Drawn, **options: Any) -> tuple[np.ndarray, ...]:
    """The result of a call with arguments by position, as most calls are."""
    stencil, values = drawn.stencil, dict(drawn.values)
    given = []
    for name in stencil.definition.function.parameters[: stencil.definition.positional]:
        if name not in values:
            break
        given.append(values.pop(name))
    boundary = drawn.boundary if isinstance(drawn.boundary, str) else list(drawn.boundary)
    result = stencil(*given, **values, boundary=boundary, cval=0, **options)
    return result if isinstance(result, tuple) else (result,)


def compare_exactly(actual: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]) -> None:
    for one, other in zip(actual, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def compare(
    drawn: Drawn, actual: tuple[np.ndarray, ...], reference: tuple[np.ndarray, ...]
) -> None:
    assert len(actual) == len(reference)
    for result, values, loose in zip(actual, reference, drawn.case.approximate, strict=True):
        assert result.shape == values.shape
        if result.dtype.kind in "biu":
            # Where Python itself raises, on 0 % 0 of its own integers, the reference has nan.
            exact = np.array([int(v) if v == v else 0 for v in values.ravel()], dtype=object)
            exact = exact.reshape(values.shape)
            np.testing.assert_array_equal(result.astype(object), exact)
            continue
        wanted = store(values, result.dtype)
        if loose:
            single = any(word in str(drawn.case) for word in ("32", "float16", "complex64"))
            bound = 2e-4 if single else 1e-9
            finite = np.abs(wanted[np.isfinite(wanted)]) if wanted.size else wanted
            largest = float(finite.max()) if finite.size else 0.0
            np.testing.assert_allclose(result, wanted, rtol=bound, atol=bound * max(largest, 1))
        else:
            np.testing.assert_array_equal(result, wanted)
