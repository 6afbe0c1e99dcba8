"""The same random call through every path: the results are equal, and so are the errors.

    NUMBA_DISABLE_JIT=1 python tests/every_path.py FIRST LAST [STEP]

prints how many calls of these seeds gave arrays, and how many were refused.  As plain Python the
generated text needs no compiling, so that many calls can be tried.  Each STEP-th call goes through
a GPU too, or the stand-in for CuPy: g++ takes a second for one.
"""

from __future__ import annotations

import inspect
import pickle
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

import kernels
import ninepoint as npt
import unlucky
from agreement import random_schedule
from ninepoint import _testing as bounds
from ninepoint.lowering.schedule import Schedule

HEAD = re.compile(r"(?m)^( *)def kernel\((.*)\):\n")


@dataclass(frozen=True)
class Call:
    """A call: the stencil, the same with a stage before each field, arrays, scalars, options."""

    case: kernels.Case
    stencil: npt.Stencil
    staged: npt.Stencil | None
    arrays: Mapping[str, np.ndarray]
    scalars: Mapping[str, Any]
    decorated: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def fields(self) -> tuple[str, ...]:
        return self.stencil.fields

    def values(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by name, in the order of the parameters."""
        known = {**self.arrays, **self.scalars, **fields}
        return {n: known[n] for n in self.stencil.parameters if n in known} | {
            n: v for n, v in known.items() if n not in self.stencil.parameters
        }

    def positional(self, count: int) -> tuple[list[Any], dict[str, Any]]:
        """As many arguments as can be by position, but `count` at most; the rest by name."""
        values, given = self.values({}), []
        for name, parameter in inspect.signature(self.case.function).parameters.items():
            if name not in values or len(given) == count:
                break
            if parameter.kind is parameter.KEYWORD_ONLY:
                break
            given.append(values.pop(name))
        return given, values


def with_stages(case: kernels.Case) -> Callable[..., Any] | None:
    """The kernel, whose fields are what a stage made of them that changes nothing."""
    found = HEAD.search(case.source)
    if not found:
        return None
    lines, names = [], {}
    for k, (name, dtype) in enumerate(case.fields.items()):
        zeros = ", ".join("0" * case.ndim)
        alike = kernels.compiled(f"def kernel(x):\n    return x[{zeros}]\n")
        names[f"alike_{k}"] = npt.stencil(dtype=dtype)(alike)
        lines.append(f"{found[1]}    {name} = alike_{k}({name})\n")
    source = case.source[: found.end()] + "".join(lines) + case.source[found.end() :]
    return kernels.compiled(source, "kernel", names)


def drawn(seed: int) -> Call:
    """A random kernel with arrays, scalars and options; some of these are wrong."""
    rng = Random(seed)
    case = kernels.random_kernel(rng, size=rng.randint(1, 3))
    while not all(f"{name}[" in case.source for name in case.fields):
        case = kernels.random_kernel(rng, size=rng.randint(1, 3))
    case = unlucky.renamed(rng, case)
    schedule = random_schedule(rng) if rng.random() < 0.3 else Schedule()
    given = {**case.options, "schedule": schedule}
    if rng.random() < 0.3 and len(case.outputs) <= len(case.fields):
        given |= {"boundary": kernels.random_boundary(rng, case.ndim)}
    mistake = rng.choice(["none", "none", "none", "none", "scalar", "option"])
    if mistake == "none" and rng.random() < 0.2:
        given |= {"overflow": rng.choice(["wrap", "saturate"])}
        if rng.random() < 0.5:
            given |= {"dtype": (rng.choice(["int16", "uint8", "float64"]),) * len(case.outputs)}
    function = with_stages(case)
    staged = None if function is None else npt.stencil(**given)(function)
    arrays = kernels.random_arrays(rng, case)
    return Call(
        case,
        npt.stencil(**given)(case.function),
        staged,
        arrays,
        scalars(rng, case, mistake == "scalar"),
        given,
        options(rng, case, mistake == "option", mistake == "scalar"),
    )


def scalars(rng: Random, case: kernels.Case, wrong: bool) -> dict[str, Any]:
    """Numbers of several types for the scalars; one of them is none, if any shall be wrong."""
    found = dict(case.scalars)
    for name, value in case.scalars.items():
        if isinstance(value, bool):
            found[name] = rng.choice([value, value, np.bool_(value)])
        elif isinstance(value, int):
            found[name] = rng.choice([value, value, value, np.int64(value), np.uint8(7)])
        else:
            found[name] = rng.choice([value, value, value, np.float32(value), np.float64(value)])
    if wrong and found and rng.random() < 0.7:
        name = rng.choice(list(found))
        found[name] = rng.choice([None, "a", 2**70, np.datetime64("2020"), [[1, "b"]]])
        if rng.random() < 0.3:
            del found[name]
    elif wrong:
        found["no_such_name"] = 1
    return found


def options(rng: Random, case: kernels.Case, wrong: bool, mistaken: bool) -> dict[str, Any]:
    """Options of a call; one may be wrong, if no argument is `mistaken`."""
    found: dict[str, Any] = {}
    keep = len(case.outputs) <= len(case.fields)
    rules = tuple(rule for rule in kernels.RULES if keep or rule != "keep")
    if not (wrong or mistaken) or rng.random() < 0.7:
        found["boundary"] = kernels.random_boundary(rng, case.ndim, rules=rules)
    if wrong or mistaken:
        # Of two mistakes either may be told.
        return found | (rng.choice(_wrong(case)) if wrong else {})
    if rng.random() < 0.5:
        found["cval"] = rng.choice([0, 1, -1, 7, 0.5, 300, True, np.float32(2.5), -0.0, 2**33])
    if rng.random() < 0.2:
        found["dtype"] = rng.choice(["float32", "int64", "uint8", "complex128", "bool", "int16"])
    if rng.random() < 0.2:
        found["overflow"] = rng.choice(["wrap", "saturate"])
    if rng.random() < 0.25:
        found["every"] = rng.choice([2, tuple(rng.randint(1, 4) for _ in range(case.ndim))])
    return found


def _wrong(case: kernels.Case) -> list[dict[str, Any]]:
    return [
        {"boundary": "reflekt"}, {"boundary": ("wrap",) * (case.ndim + 1)}, {"boundary": 5},
        {"boundary": (("wrap", "fill"),) * case.ndim}, {"boundary": ()}, {"boundary": "keep"},
        {"cval": "a"}, {"cval": np.zeros(2)}, {"cval": 1j}, {"cval": float("nan")},
        {"cval": 2**70}, {"dtype": "object"}, {"dtype": "nothing"}, {"dtype": ("int8",) * 5},
        {"dtype": "int8"}, {"overflow": "clip"}, {"overflow": 5}, {"threads": 0},
        {"threads": "two"}, {"threads": 1.5}, {"threads": True}, {"axes": 1.5},
        {"axes": (0,) * (case.ndim + 1)}, {"dims": "t"}, {"out": 5}, {"out": [None]},
        {"every": 0}, {"every": 1.5}, {"every": (2,) * (case.ndim + 1)}, {"every": ()},
    ]  # fmt: skip


def outcome(way: Callable[[], Any]) -> Any:
    """What a call gives, as a tuple of arrays, or how it is refused."""
    try:
        found = way()
    except (TypeError, ValueError, npt.StencilError) as error:
        return type(error), str(error)
    return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))


def each(found: Any, change: Callable[[Any], Any]) -> Any:
    """The results, each changed."""
    return tuple(map(change, found)) if isinstance(found, tuple) else change(found)


def sliced(call: Call, made: Any) -> Any:
    """All points, of which the call leaves out some."""
    every, ndim = call.options["every"], call.case.ndim
    steps = (every,) * ndim if isinstance(every, int) else every
    return each(made, lambda one: one[(..., *(slice(None, None, step) for step in steps))])


def ways(rng: Random, call: Call, wanted: Any) -> dict[str, Callable[[], Any]]:
    """Every way to do the call."""
    stencil, options = call.stencil, dict(call.options)
    given, rest = call.positional(99)
    few, more = call.positional(rng.randint(0, 3))
    shuffled = list(more.items())
    rng.shuffle(shuffled)
    fields = {name: call.arrays[name] for name in call.fields}
    one = rng.choice(call.fields)
    ndim = call.case.ndim

    def by_name(every: Any = None, **changed: Any) -> Any:
        return stencil(**call.values(changed), **options | ({"every": every} if every else {}))

    def computed(made: Any) -> Any:
        return each(made, lambda one: one.compute(**({} if lazy(one) else {"scheduler": "sync"})))

    def lazy(value: Any) -> bool:
        return isinstance(value, npt.Lazy)

    found = {
        "again": lambda: stencil(*given, **rest, **options),
        "once more": lambda: stencil(*given, **rest, **options),
        "by name": lambda: by_name(),
        "mixed": lambda: stencil(*few, **dict(shuffled), **options),
        "lazy": lambda: computed(by_name(**{one: npt.lazy(fields[one])})),
        "all lazy": lambda: computed(by_name(**{n: npt.lazy(v) for n, v in fields.items()})),
        "pickled": lambda: pickle.loads(pickle.dumps(stencil))(*given, **rest, **options),
        "copies": lambda: by_name(**{n: np.array(v, order="C") for n, v in fields.items()}),
    }
    if "every" in options and isinstance(wanted[0], np.ndarray):
        found["sliced"] = lambda: sliced(call, by_name(every=1))
    if call.staged is not None:
        found["staged"] = lambda: call.staged(*given, **rest, **options)
        found["staged again"] = found["staged"]
    if "threads" not in options:
        found["threads"] = lambda: stencil(*given, **rest, **options, threads=2)
    whole = {n: v for n, v in fields.items() if v.ndim == max(map(np.ndim, fields.values()))}
    lead = whole[call.fields[0]].ndim - ndim if call.fields[0] in whole else -1
    # Other places have other mistakes to tell of.
    if lead >= 0 and not {"axes", "dims", "out"}.intersection(options):
        found |= _placed(rng, call, whole, lead, by_name, computed)
    if isinstance(wanted[0], np.ndarray):
        found |= _into(rng, call, wanted)
    return found


def _placed(
    rng: Random, call: Call, whole: dict[str, Any], lead: int, by_name: Any, computed: Any
) -> dict[str, Callable[[], Any]]:
    """Stacks, axes, and arrays of other kinds."""
    ndim, shape = call.case.ndim, call.arrays[call.fields[0]].shape
    ends = tuple(range(-ndim, 0))
    front = tuple(range(ndim))
    turned = front[::-1]

    def moved(to: tuple[int, ...]) -> Callable[[], Any]:
        """The core axes where no call expects them."""
        others = {n: v for n, v in call.arrays.items() if n in call.fields and n not in whole}
        if others:
            return lambda: by_name()
        arrays = {n: np.moveaxis(v, ends, to) for n, v in whole.items()}
        back = {**call.options, "axes": to}
        return lambda: each(
            call.stencil(**call.values(arrays), **back), lambda one: np.moveaxis(one, to, ends)
        )

    def chunked(sizes: Any) -> Callable[[], Any]:
        made = {
            n: da.from_array(np.ascontiguousarray(v), chunks=tuple(map(sizes, v.shape)))
            for n, v in whole.items()
        }
        return lambda: computed(by_name(**made))

    found = {
        "a stack": lambda: each(
            by_name(**{n: np.stack([v, v]) for n, v in whole.items()}), lambda one: one[1]
        ),
        "axes": lambda: call.stencil(**call.values({}), **{**call.options, "axes": ends}),
        "axes in front": moved(front),
        "axes turned": moved(turned),
    }
    if 0 not in shape:
        found |= {
            "one chunk": chunked(lambda n: n),
            "chunks of one": chunked(lambda n: 1 if n < 4 else 2),
            "chunks": chunked(lambda n: rng.randint(1, n)),
        }
    own = [call.arrays[name] for name in call.fields]
    if all(array.shape == shape for array in own):
        dims = [f"d{k}" for k in range(lead + ndim)]
        labelled = {n: xr.DataArray(v, dims=dims) for n, v in whole.items()}
        found["xarray"] = lambda: by_name(**labelled)
        found["dims"] = lambda: call.stencil(
            **call.values(labelled), **{**call.options, "dims": tuple(dims[lead:])}
        )
    return found


def _into(rng: Random, call: Call, wanted: tuple[np.ndarray, ...]) -> dict[str, Callable[[], Any]]:
    """Outputs that are given, and a step in time."""
    outs = [np.empty(one.shape, one.dtype) for one in wanted]
    wide = [np.empty(one.shape[::-1], one.dtype).T for one in wanted]
    given, rest = call.positional(99)

    def into(arrays: list[np.ndarray]) -> Callable[[], Any]:
        out = tuple(arrays) if len(arrays) > 1 else arrays[0]
        return lambda: call.stencil(*given, **rest, **call.options, out=out)

    found = {"out": into(outs), "out again": into(outs), "out in another order": into(wide)}
    names = call.fields[: len(wanted)]
    states = [call.arrays[name] for name in names]
    plain = {"boundary", "cval", "threads"}
    if (
        len(states) == len(wanted)
        and set(call.options) <= plain
        and all(v.shape == states[0].shape for v in (*wanted, *states))
        and all(call.arrays[n].ndim <= states[0].ndim for n in call.fields)
        and all(a.dtype.newbyteorder("=") == b.dtype for a, b in zip(states, wanted, strict=True))
        and "valid" not in str(call.options.get("boundary", call.decorated.get("boundary")))
        and not any(np.ndim(v) for v in call.scalars.values())
    ):
        found["a step"] = lambda: call.stencil.iterate(*given, **rest, **call.options, steps=1)
    return found


def on_a_gpu(call: Call) -> dict[str, Callable[[], Any]]:
    """Arrays that lie on a GPU, and arrays that are sent there."""
    import cupy

    given, rest = call.positional(99)
    own = {n: v for n, v in call.arrays.items() if n in call.fields}
    # A GPU's arrays have their bytes in its order.
    native = {n: v.astype(v.dtype.newbyteorder("="), copy=False) for n, v in own.items()}
    there = {n: cupy.asarray(v) for n, v in native.items()}

    def brought(found: Any) -> Any:
        return each(found, cupy.asnumpy)

    return {
        "on a GPU": lambda: brought(call.stencil(**call.values(there), **call.options)),
        "sent": lambda: call.stencil(*given, **rest, **call.options, device="cuda"),
    }


def same(made: Any, wanted: Any, loose: tuple[bool, ...]) -> bool:
    """Whether two outcomes are alike; floats that may be added in another order nearly."""
    if isinstance(made[0], type) or isinstance(wanted[0], type):
        return bool(made[0] is wanted[0] and made[1] == wanted[1])
    if [(a.dtype, a.shape) for a in made] != [(b.dtype, b.shape) for b in wanted]:
        return False
    for a, b, free in zip(made, wanted, loose, strict=True):
        if free and a.dtype.kind in "fc":
            scale = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
            close = 2e-3 if a.dtype.itemsize <= 4 or a.dtype == "complex64" else 1e-8
            if not np.allclose(a, b, rtol=close, atol=close * scale, equal_nan=True):
                return False
        elif not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
            return False
    return True


def check(seed: int, through_gpu: bool = False) -> str:
    """Check one seed; whether the call gave "arrays" or was "refused".

    Raises
    ------
    AssertionError
        Where two ways differ.
    """
    call = drawn(seed)
    given, rest = call.positional(99)
    wanted = outcome(lambda: call.stencil(*given, **rest, **call.options))
    for name, way in ways(Random(seed), call, wanted).items():
        made = outcome(way)
        assert same(made, wanted, call.case.approximate), (
            f"seed {seed}, {name}, {call.options}, {call.decorated}:\n{call.case}"
            f"\n{made}\ninstead of\n{wanted}"
        )
    for name, way in (on_a_gpu(call) if through_gpu else {}).items():
        made = outcome(way)
        if made[0] is npt.StencilError and "[gpu-general]" in made[1]:
            continue
        # Functions may differ in the last places.
        assert same(made, wanted, (True,) * len(call.case.outputs)), (
            f"seed {seed}, {name}, {call.options}, {call.decorated}:\n{call.case}"
            f"\n{made}\ninstead of\n{wanted}"
        )
    return "refused" if isinstance(wanted[0], type) else "arrays"


def main(first: int, last: int, step: int = 0) -> None:
    """Check many seeds, every `step`-th of them through a GPU, and say which differ."""
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(first, last):
        try:
            counts[check(seed, bool(step) and seed % step == 0)] += 1
        except AssertionError as error:
            wrong.append(seed)
            print(error, "\n", flush=True)
    print(f"{dict(counts)}; wrong: {wrong}")


if __name__ == "__main__":
    with bounds.interpreted():
        main(*map(int, sys.argv[1:]))
