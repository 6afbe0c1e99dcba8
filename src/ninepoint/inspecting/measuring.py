"""What is asked about, and how fast it is: beside a copy of the same arrays, by other schedules.

explain("uint8", r=0.5)     ->     the call with r=0.5, and one uint8 for each field

A time alone says little: it depends on the machine and on what else it does.  So a call and a
copy take turns, A B B A, and what counts is the ratio of their medians.  Compiling is done
before, and has a time of its own.  Bytes are counted once in and once out.

    arrays of NumPy              beside a copy that is shared among as many threads
    arrays of a GPU              a call of their own, beside a copy on the GPU
    arrays of NumPy, device=     there and back, beside a copy on the CPU

On a GPU a sample ends when the GPU is done.

Tuning measures other schedules than the chosen one, and keeps what is faster:

    choices     other values of fields of the schedule, one after the other
    measured    in turn with the best so far, after the results were compared to the bit

Each choice is tried with the best values of those before it.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ..arrays.accepted import (
    Arrays,
    as_field,
    check_dtype,
    is_chunked,
    is_cupy,
    is_device,
    is_xarray,
    listed,
    native,
)
from ..arrays.executable import SPLIT_POINTS
from ..backends.compiled import Compiled
from ..backends.cuda import driver
from ..backends.threads import run_parallel, thread_count
from ..base.frozen import frozen
from ..language.ir import RANKED, Reduce
from ..language.signature import counted, many, table, time_text
from ..lowering.schedule import Schedule
from ..program.definition import Call, Definition
from ..program.graph import Node
from ..program.options import CALL_OPTIONS, PLACE, ByName, Place
from ..program.program import Plan, Program, beside, plan, program_of, typed


@frozen
class Asked:
    """A call, the types of its fields, these or arrays that have them, and the call's options."""

    call: Call
    types: tuple[np.dtype, ...]
    given: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def program(self) -> Program:
        """The calls of which it consists, and which of their values are the results."""
        return program_of(self.call, self.types)

    @property
    def plan(self) -> Plan:
        """Which calls are done together."""
        return plan(self.program)

    @property
    def kernels(self) -> list[Compiled]:
        """What each pass is compiled to."""
        return [(group.chain or group.nodes[0]).compiled for group in self.plan.groups]

    @property
    def last(self) -> Node:
        """What gives the results."""
        return self.program.last

    @property
    def is_single(self) -> bool:
        """Whether it is one kernel, which calls no other stencils."""
        return not self.call.definition.calls()

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """What the call on the arrays is given, by position and by name."""
        values = {**dict(zip(self.call.fields, self.given, strict=True)), **self.call.scalars}
        args, named = self.call.definition.arguments.given(values)
        return args, named | self.options


def asked(definition: Definition, given: Arrays = (), named: ByName | None = None) -> Asked:
    """The call on fields of these types, or on arrays of them; float64 if there are none.

    The type of one field serves for all.  Where there is something for each array, small arrays
    stand among the fields as in a call.  A scalar that is neither in `named` nor has a default
    is 0.
    """
    fields, small = definition.fields, definition.options.standard_indexing
    named = dict(named or {})
    arrays = [n for n in definition.parameters if n in fields or n in small]
    if len(fields) < len(given) == len(arrays):
        values = dict(zip(arrays, given, strict=True))
        given = [values.pop(name) for name in fields]
        for name, value in values.items():
            if isinstance(value, str | type | np.dtype):
                raise TypeError(
                    f"'{name}' is indexed absolutely, so its shape counts: give an array, such as "
                    f"numpy.zeros(256, {np.dtype(value).name!r}), not a dtype."
                )
        named = values | named
    options, own = _split(named, CALL_OPTIONS)
    if not own.keys() <= {*definition.parameters}:
        # Raises, and says which there are.
        definition.arguments.bound((), own)
    given = tuple(given) or ("float64",)
    types = [native(_dtype(one)) for one in given]
    if len(types) not in (1, len(fields)):
        raise ValueError(
            f"'{definition.name}' has {many(len(fields), 'field')} ({', '.join(fields)}), "
            f"but {many(len(types), 'type')} were given."
        )
    each = len(fields) // len(types)
    defaults = definition.defaults
    scalars = {n: own.get(n, defaults.get(n, 0)) for n in definition.scalars}
    # What coordinates would give is some float.
    call = call_of(definition, scalars, options, given).spaced()
    return Asked(call, tuple(types) * each, given * each, options)


def _split(named: ByName, known: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is given by name, as options of those that are known, and all else."""
    options = {name: value for name, value in named.items() if name in known}
    return options, {name: value for name, value in named.items() if name not in known}


def call_of(definition: Definition, values: ByName, options: ByName, given: Arrays = ()) -> Call:
    """The call with these values and options, for fields of this kind."""
    place, others = _split(options, PLACE)
    Place(**place).check(given)
    return Call.of(definition, values, **others)


def called_with(
    definition: Definition,
    args: tuple[Any, ...],
    named: ByName,
    known: Collection[str] = CALL_OPTIONS,
) -> tuple[Call, list[Any], dict[str, Any]]:
    """The call with these arguments, what its fields are given, and its options of those known."""
    options, own = _split(named, known)
    values = dict(zip(definition.parameters, definition.arguments.bound(args, own), strict=True))
    call = call_of(definition, values, options)
    call.check_spaced()
    return call, [values[name] for name in call.fields], options


def _dtype(given: Any) -> np.dtype:
    """The dtype of an array, or what stands for one."""
    if isinstance(given, str | type | np.dtype):
        return np.dtype(given)
    found = getattr(given, "dtype", None)
    dtype: np.dtype = as_field(given).dtype if found is None else np.dtype(found)
    check_dtype(dtype)
    return dtype


def no_array(what: str, name: str, value: Any) -> TypeError:
    """What is said of a value in the place of an array of NumPy, with what to give instead."""
    kind, cure = f"of type {type(value).__name__}", "give an array, as np.asarray(x) makes it"
    if is_chunked(value):
        kind, cure = "a Dask array", "give one chunk of it, as x.blocks[0].compute() makes it"
    elif is_xarray(value):
        cure = "give its array, x.values"
    return TypeError(f"{what} and '{name}' is {kind}; {cure}.")


# Measuring.

# A sample takes at least so long [s]: 40 times what a clock that counts microseconds misses.
_SAMPLE = 2e-3


@dataclass(frozen=True, slots=True, repr=False)
class Measurement:
    """What `Stencil.bench` measured; prints as one line.

    Attributes
    ----------
    name : str
        The stencil's.
    arrays : str
        Shapes and dtypes of the fields.
    points : int
        Points of a result.
    bytes : int
        Bytes of the fields and of the results, each counted once.
    seconds, lower, upper : float
        A call: the median of the samples, and their quartiles [s].
    samples : int
        How many samples there are.
    copy_bytes : int
        Bytes of the copy: the fields, counted once in and once out.
    copy_seconds : float
        The median of a copy of the fields, taken in turn with the calls [s].
    threads : int
        Threads that a call of so many points may use; the copy used as many.  On a GPU none did.
    preparation : str
        What was needed before the first call: "compiled", "loaded from the cache" or "already
        compiled".
    preparation_seconds : float
        How long that took [s]; it is in no other time.
    device : str
        The GPU that computed; empty where threads did.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil
    ... def difference(x):
    ...     return x[1] - x[-1]
    >>> found = difference.bench(np.zeros(1000), repeat=3)
    >>> found.name, found.copy_bytes, found.copy_ratio > 0
    ('difference', 16000, True)
    """

    name: str
    arrays: str
    points: int
    bytes: int
    seconds: float
    lower: float
    upper: float
    samples: int
    copy_bytes: int
    copy_seconds: float
    threads: int
    preparation: str
    preparation_seconds: float
    device: str = ""

    @property
    def points_per_second(self) -> float:
        """Points of a result that a call makes in a second."""
        return self.points / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes that a call reads and writes in a second."""
        return self.bytes / self.seconds

    @property
    def copy_bytes_per_second(self) -> float:
        """Bytes that the copy reads and writes in a second."""
        return self.copy_bytes / self.copy_seconds

    @property
    def copy_ratio(self) -> float:
        """Bytes a second of a call over those of the copy: 1 is as fast as memory allows."""
        return self.bytes_per_second / self.copy_bytes_per_second

    @property
    def _facts(self) -> tuple[tuple[str, str], ...]:
        """What was measured, in words, with labels."""
        by = self.device or ("1 thread" if self.threads == 1 else f"{self.threads} threads")
        before = self.preparation
        if before != "already compiled":
            before = f"{before} in {time_text(self.preparation_seconds)}"
        quartiles = f"{time_text(self.lower)} .. {time_text(self.upper)}"
        copy = counted(self.copy_bytes_per_second, "B/s")
        return (
            ("a call", f"{time_text(self.seconds)} ({quartiles}, {self.samples} samples)"),
            ("points", counted(self.points_per_second, "point/s")),
            ("memory", counted(self.bytes_per_second, "B/s")),
            ("of a copy", f"{self.copy_ratio:.2f} of a copy ({copy})"),
            ("computed by", by),
            ("before", before),
        )

    def __str__(self) -> str:
        *texts, before = (text for _, text in self._facts)
        return f"{self.name}({self.arrays}): {', '.join(texts)}; before: {before}"

    # A prompt shows what print() does.
    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Give a table for a notebook."""
        return table(f"{self.name}({self.arrays})", self._facts)


def real(
    definition: Definition,
    args: tuple[Any, ...],
    named: ByName,
    what: str,
    gpu: bool = False,
) -> Asked:
    """What is asked about by a call on real arrays with something in them.

    The arrays may lie on a GPU where `gpu` says so.

    Raises
    ------
    TypeError
        If a field is no array of NumPy, nor one of a GPU where that is computed on.
    ValueError
        If one is empty.
    """
    call, given, options = called_with(definition, args, named)
    if options.get("device") is not None and not gpu:
        raise TypeError(f"{what} measures the CPU; leave device= out.")
    names = call.fields
    there = gpu and _on_gpu(given, options)
    kinds = "arrays of NumPy, or of a GPU," if there else "arrays of NumPy,"
    for array, name in zip(given, names, strict=True):
        if not isinstance(array, np.ndarray) and not (there and is_device(array)):
            raise no_array(f"{what} measures {kinds}", name, array)
    fields, types = typed(names, given)
    for field, name in zip(fields, names, strict=True):
        if not field.size:
            raise ValueError(f"{what} needs points to compute; '{name}' is empty.")
    return Asked(call, tuple(types), tuple(fields), options)


def _on_gpu(given: Arrays, options: ByName) -> bool:
    return options.get("device") is not None or any(map(is_device, given))


def measured(call: Any, one: Asked, repeat: int, limit: float) -> Measurement:
    """Measure what is asked about, on the arrays that were given for it.

    `call` is the stencil, or what takes arguments as it does.
    """
    fields, options = one.given, one.options
    args, named = one.arguments()

    def run(**out: Any) -> Any:
        return call(*args, **(named | out))

    threads, device, kernels, wait = 0, "", [], _at_once
    with beside(fields):
        if _on_gpu(fields, options):
            device = driver.name(driver.current())
            wait = partial(driver.wait_for, driver.current_stream())
        else:
            many = max(field.size for field in fields) >= SPLIT_POINTS
            threads = thread_count(options.get("threads")) if many else 1
            kernels = [kernel for kernel in one.kernels if not kernel.ready]
        known = set(map(id, driver.known()))
        begin = perf_counter()
        for kernel in kernels:
            # The call may use other forms of it only.
            _ = kernel.loaded
        out = run()
        wait()
        first = perf_counter() - begin
        made = [not kernel.loaded.from_disk for kernel in kernels]
        made += [text.made for text in driver.known() if id(text) not in known]
        copy = _copying(fields, max(1, threads))
        calls, copies = in_turn(lambda: run(out=out), copy, repeat, limit, wait)
    lower, middle, upper = np.quantile(calls, (0.25, 0.5, 0.75)).tolist()
    inside = sum(array.nbytes for array in fields)
    results = listed(out)
    words = "compiled" if any(made) else "loaded from the cache"
    return Measurement(
        name=one.call.definition.name,
        arrays=", ".join(f"{'x'.join(map(str, a.shape))} {a.dtype}" for a in fields),
        points=max(array.size for array in results),
        bytes=inside + sum(array.nbytes for array in results),
        seconds=middle,
        lower=lower,
        upper=upper,
        samples=len(calls),
        copy_bytes=2 * inside,
        copy_seconds=float(np.median(copies)),
        threads=threads,
        preparation=words if made else "already compiled",
        preparation_seconds=max(0.0, first - middle) if made else 0.0,
        device=device,
    )


def _at_once() -> None:
    """Wait for nothing: threads are done when a call ends."""


def _copying(fields: Arrays, threads: int) -> Callable[[], None]:
    """What copies arrays, each of which is shared among threads along its longest axis."""
    tasks: list[Callable[[], object]] = []
    for source in fields:
        if is_cupy(source):
            tasks.append(
                partial(operator.setitem, driver.empty(source.shape, source.dtype), ..., source)
            )
            continue
        axis = int(np.argmax(source.shape))
        both = (np.array_split(one, threads, axis) for one in (np.zeros_like(source), source))
        tasks += [partial(np.copyto, *pair) for pair in zip(*both, strict=True)]
    return lambda: run_parallel(tasks, threads)


def in_turn(
    call: Callable[[], object],
    other: Callable[[], object],
    repeat: int,
    limit: float = math.inf,
    wait: Callable[[], object] = _at_once,
) -> tuple[list[float], list[float]]:
    """Seconds of two calls that take turns; `wait` waits for what they began.

    Ends after `repeat` samples of each, or once `limit` seconds are over and there are three.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    rows = []
    for work, samples in zip((call, other), taken, strict=True):
        # The first time takes longer than others.
        once = min(_seconds(work, 1, wait) for _ in range(2))
        rows.append((work, max(1, round(_SAMPLE / max(once, 1e-7))), samples))
    begin = perf_counter()
    while len(taken[0]) < repeat and (len(taken[0]) < 3 or perf_counter() - begin < limit):
        for work, count, samples in rows:
            if count > 1:
                work()  # brings back into cache what the other drove out, as in a loop
            samples.append(_seconds(work, count, wait))
        # Each is as often the first, should what runs second find something in cache.
        rows.reverse()
    return taken


def _seconds(work: Callable[[], object], count: int, wait: Callable[[], object]) -> float:
    begin = perf_counter()
    for _ in range(count):
        work()
    wait()
    return (perf_counter() - begin) / count


# Tuning.

# A call by a schedule: what tells its code from others', and the call itself.
Variant: TypeAlias = Callable[[Schedule], tuple[Hashable, Callable[[], Any]]]

# Samples of a call and of the best one in turn.
_SAMPLES = 7

# Less than this is noise: two cores of a virtual machine differ by 2 % from run to run.
_GAIN = 0.97


@frozen
class Trial:
    """One schedule, and how long a call took beside the best one at that time [s]."""

    schedule: Schedule
    seconds: float
    best: float


@dataclass(frozen=True, slots=True, repr=False)
class Tuning:
    """What tuning found.

    Attributes
    ----------
    schedule : Schedule
        The fastest one.
    gain : float
        How many times faster it is than what the compiler chose.
    trials : tuple of Trial
        What was measured, in order.
    path : Path
        The file that keeps the schedule for this machine.
    """

    schedule: Schedule
    gain: float
    trials: tuple[Trial, ...]
    path: Path | None = None

    @property
    def _facts(self) -> list[tuple[str, str]]:
        """What was tried, with how long it took."""
        facts = [
            (_difference(one.schedule), f"{time_text(one.seconds)} against {time_text(one.best)}")
            for one in self.trials
        ]
        best = f"{_difference(self.schedule)}, {self.gain:.2f} times as fast"
        return [*facts, ("best", best)]

    def __str__(self) -> str:
        """Tell what was tried, a line for each."""
        return "\n".join(map(": ".join, self._facts))

    # A prompt shows what print() does.
    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Give a table for a notebook, with a row for each trial."""
        return table("What was tried", self._facts)


def _difference(schedule: Schedule) -> str:
    """The fields that are not the default's."""
    default = asdict(Schedule())
    names = [name for name, value in asdict(schedule).items() if value != default[name]]
    return ", ".join(f"{name}={getattr(schedule, name)!r}" for name in names) or "as chosen"


def tuned(stencil: Any, args: tuple[Any, ...], named: ByName, seconds: float) -> Tuning:
    """Measure a call with other schedules, and keep the fastest."""
    if stencil.definition.options.schedule != Schedule():
        raise ValueError(
            f"'{stencil.__name__}' was decorated with a schedule; leave schedule= out to tune."
        )
    one = real(stencil.definition, args, named, "tune()")
    # All write to the same arrays: to make new ones would take a part of the time.
    out = stencil(*args, **named)

    def tried(schedule: Schedule) -> tuple[Hashable, Callable[[], Any]]:
        definition = stencil.definition.with_schedule(one.types, schedule)
        other = replace(one, call=replace(one.call, definition=definition))
        together = any(len(group.nodes) > 1 for group in other.plan.groups)
        code = tuple(kernel.module.text for kernel in other.kernels)
        call = partial(type(stencil)(definition), *args, **{"out": out, **named})
        return (code, together and schedule.tile), call

    found = search(Schedule(), _choices(one), tried, seconds)
    return replace(found, path=stencil.definition.tune(one.types, found.schedule))


def _choices(one: Asked) -> list[dict[str, Any]]:
    """What can be tried: other values of fields of a schedule."""
    if not one.is_single:
        names = [node.label for group in one.plan.groups for node in group.nodes[:-1]]
        return [
            *(
                {"stages": ((name, how),)}
                for name in (*one.plan.whole, *names)
                for how in ("rows", "inline", "whole")
            ),
            *({"tile": columns} for columns in (256, 512, 1024, 2048, 4096)),
        ]
    forms = one.last.compiled.forms
    if forms is None:
        return []
    values: dict[str, Sequence[Any]] = {"shared": (1, 20, math.inf)}
    windows = [a.value for a in forms.stored.body if isinstance(a.value, Reduce)]
    # Of the windows that give other bits in another order of adding.
    added = [one for one in windows if one.kind not in _ORDERLESS]
    if all(x.kind in ("sum", "prod", "mean") and x.result.dtype.is_integer for x in added):
        values |= {
            "direct": (4, 16),
            "radix": (2, 8),
            "sorted_columns": (9,),
        }
    return [{name: value} for name, some in values.items() for value in some]


# What reductions give whatever the order of their operations.
_ORDERLESS = frozenset(("min", "max", "any", "all", "argmin", "argmax", *RANKED))


def search(
    base: Schedule, choices: Sequence[dict[str, Any]], variant: Variant, limit: float
) -> Tuning:
    """Try each choice, for about `limit` seconds.

    The calls of `variant` may all write to the same arrays.
    """
    begin = perf_counter()
    best = base
    key, best_call = variant(base)
    wanted = _bits(best_call())
    seen = {key}
    trials: list[Trial] = []
    gain = 1.0
    for choice in choices:
        if perf_counter() - begin > limit:
            break
        # What it says of other stages stays.
        stages = dict(best.stages) | dict(choice.get("stages", ()))
        schedule = replace(best, **choice | {"stages": tuple(stages.items())})
        key, call = variant(schedule)
        if key in seen:
            continue
        seen.add(key)
        if _bits(call()) != wanted:
            continue
        seconds, reference = map(statistics.median, in_turn(call, best_call, _SAMPLES))
        trials.append(Trial(schedule, seconds, reference))
        if seconds < _GAIN * reference:
            best, best_call = schedule, call
            gain *= reference / seconds
    return Tuning(best, gain, tuple(trials))


def _bits(result: Any) -> list[tuple[np.dtype, bytes]]:
    """All bits of results."""
    return [(one.dtype, np.asarray(one).tobytes()) for one in listed(result)]
