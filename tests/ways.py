"""Every way to run a program, each as a text that leaves its results in `found`.

    wanted(program)      the definition: `debug`, again and again for steps
    first(program)       an ordinary call
    ways(program, ...)   all others

A text uses the names of `Program.text`, so that what fails can be printed below it and run.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from dask._task_spec import convert_legacy_graph

from drawing import Program

DEBUG = ("threads", "out", "device")


@dataclass(frozen=True, slots=True)
class Way:
    """A name, the target that docs/refusals.md knows it by, and what is run.

    The results are those of an ordinary call: to the bit, or where `like` says so "nearly".
    """

    name: str
    target: str
    text: str
    like: str = "first"


def wanted(program: Program) -> Way:
    """The definition; of what is loose inside, calls one by one."""
    left_out = [name for name in DEBUG if name in program.options]
    given = f"options = {{n: v for n, v in options.items() if n not in {left_out}}}\n"
    if not program.defined and program.kind in ("kernel", "ufunc"):
        return first(program)
    if program.kind != "steps":
        call = "program.debug" if program.defined else "calls"
        text = f"{program.apart if call == 'calls' else ''}"
        if left_out and call != "calls":
            text += given
        return Way("the definition", "definition", f"{text}found = {call}(**named, **options)")
    each = "{" + ", ".join(f"{n!r}: {text}" for n, text in program.each.items()) + "}"
    call = "program.debug" if program.defined else "program"
    # Options are written again for each step, so that functions are asked for that step.
    text = f"""\
state = dict(fields)
found = [state[name] for name in program.fields[:{len(program.loose)}]]
found = [one.astype(one.dtype.newbyteorder('=')) for one in found]
for START in range({program.steps}):
    found = listed({call}(**state, **tables, **{each}, **options))
    state |= zip(program.fields, found)
START = 0
"""
    return Way("the definition, step by step", "definition", text)


def first(program: Program) -> Way:
    """An ordinary call, by name."""
    return Way("the first call", "call", f"found = {_call(program)}")


def _call(program: Program, arguments: str = "**named", more: str = "") -> str:
    if program.kind == "steps":
        return f"program.iterate({arguments}, steps={program.steps}, **options{more})"
    return f"program({arguments}, **options{more})"


def ways(program: Program, results: list[np.ndarray] | None, most: int = 0) -> list[Way]:
    """All other ways, or `most` of them; `results` are what the first call gave, if any."""
    rng = Random(f"ways of {program.kind} {program.seed}")
    groups = [(4, _again(rng, program)), (1, _others(program)), (1, _lazily(rng, program))]
    kinds = [_one_by_one(rng, program)]
    if not {"axes", "dims", "out"} & set(program.options):
        # Other places have other mistakes to tell of.
        kinds += [_chunked(rng, program), _labelled(rng, program), _placed(rng, program)]
    on_dask: list[Way] = []
    for some in map(list, kinds):
        on_dask += [way for way in some if "Dask" in way.name]
        groups.append((2, [way for way in some if "Dask" not in way.name]))
    groups.append((3, on_dask))
    if results is not None:
        groups += [(3, _into(rng, program, results))]
        if program.kind == "steps":
            groups += [(1, _in_parts(rng, program))]
        if program.kind == "kernel":
            groups += [(2, [*_one_step(program, results), *_all_points(program)])]
    found = [way for count, alike in groups for way in _some(rng, count, alike)]
    if program.staged and rng.random() < 0.4:
        found.append(Way("staged", "stage", f"{program.staged}\nfound = {_call(program)}"))
    return rng.sample(found, most) if 0 < most < len(found) else found


def _some(rng: Random, count: int, alike: Iterable[Way]) -> list[Way]:
    """A few of those ways that have most of their path in common, in their order."""
    ways = list(alike)
    return [ways[k] for k in sorted(rng.sample(range(len(ways)), min(count, len(ways))))]


def _again(rng: Random, program: Program) -> Iterator[Way]:
    names = [*program.fields, *program.tables, *program.scalars]
    leading: list[str] = []
    for name in program.positional:
        if name not in names:
            break
        leading.append(name)

    def positional(count: int) -> str:
        own, rest = leading[:count], [n for n in names if n not in leading[:count]]
        rng.shuffle(rest)
        return f"*[named[n] for n in {own}], **{{n: named[n] for n in {rest}}}"

    yield Way("again", "call", f"found = {_call(program)}")
    yield Way("by position", "call", f"found = {_call(program, positional(99))}")
    yield Way("by position again", "call", f"found = {_call(program, positional(99))}")
    yield Way("mixed", "call", f"found = {_call(program, positional(rng.randint(0, 3)))}")
    # An array without axes is a number, but not one of Python.
    arrays = [n for n, one in program.fields.items() if isinstance(one.values, np.ndarray)]
    copies = f"**(named | {{n: np.array(fields[n], order='C') for n in {arrays}}})"
    yield Way("copies", "call", f"found = {_call(program, copies)}")
    if "threads" not in program.options:
        text = f"found = {_call(program, positional(99), ', threads=2')}"
        yield Way("threads", "call", text)
    pickled = _call(program).replace("program", "pickle.loads(pickle.dumps(program))", 1)
    yield Way("pickled", "call", f"found = {pickled}")


def _others(program: Program) -> Iterator[Way]:
    for k, others in enumerate(program.others):
        made = "{" + ", ".join(f"{n!r}: {one}" for n, one in others.items()) + "}"
        other = _call(program, f"**(named | {made})")
        text = f"try:\n    {other}\nexcept (IndexError, TypeError, ValueError):\n    pass\n"
        yield Way(f"after another shape, {k}", "call", f"{text}found = {_call(program)}")


def _one_by_one(rng: Random, program: Program) -> Iterator[Way]:
    """The stages of a pipeline as calls."""
    if not program.apart or not program.defined:
        return
    call = "calls(**(named | {given}), **options)"
    yield Way("one by one", "apart", f"{program.apart}\nfound = calls(**named, **options)")
    names = [n for n, one in program.fields.items() if np.ndim(one.values)]
    given = f"{{n: npt.lazy(fields[n]) for n in {names}}}"
    text = f"{program.apart}\nmade = listed({call.format(given=given)})\n"
    yield Way("one by one, lazy", "apart", f"{text}found = listed(npt.compute(*made))")
    given = _on_dask(rng, program, "chunks", alone=True)
    text = f"{program.apart}\nmade = listed({call.format(given=given)})\n{COMPUTED}"
    yield Way("one by one, on Dask", "apart", text)


def _lazily(rng: Random, program: Program) -> Iterator[Way]:
    # One without axes is a number, and a lazy one is a field.
    names = [n for n, one in program.fields.items() if np.ndim(one.values)]
    if not names:
        return
    one = rng.choice(names)
    some = f"**(named | {{{one!r}: npt.lazy(fields[{one!r}])}})"
    every = f"**(named | {{n: npt.lazy(fields[n]) for n in {names}}})"
    for name, arguments in {"lazy": some, "all lazy": every}.items():
        text = f"made = listed({_call(program, arguments)})\nfound = listed(npt.compute(*made))"
        yield Way(name, "lazy", text)


# An array is cut into so many chunks at most: more would go the same ways.
MOST_CHUNKS = 16


def cuts(rng: Random, shape: tuple[int, ...], how: str = "chunks") -> tuple[tuple[int, ...], ...]:
    """The chunks of an array along each axis: one, single elements, or any, with empty ones."""
    found = [_cut(rng, n, how) for n in shape]
    while math.prod(map(len, found)) > MOST_CHUNKS:
        k = rng.choice([k for k, one in enumerate(found) if len(one) > 1])
        found[k] = _cut(rng, shape[k], "chunks" if len(found[k]) > 3 else "one chunk")
    return tuple(found)


def _cut(rng: Random, n: int, how: str) -> tuple[int, ...]:
    # An axis of one element has one chunk: Dask's own arithmetic fails on empty ones beside it.
    if how == "one chunk" or n < 2:
        return (n,)
    if how == "chunks of one":
        return (1,) * n
    if rng.random() < 0.2:
        return (n,)
    ends = sorted(rng.randint(0, n) for _ in range(rng.randint(1, 3)))
    return tuple(b - a for a, b in zip([0, *ends], [*ends, n], strict=True))


def in_any_order(graph: Any, keys: Any, **options: Any) -> Any:
    """A scheduler of Dask's: any of the tasks that can be done is the next."""
    if not isinstance(graph, Mapping):
        graph = graph.__dask_graph__()
    tasks = convert_legacy_graph(graph)
    rng, done = Random(len(tasks)), {}
    needed = {key: set(task.dependencies) for key, task in tasks.items()}
    after: dict[Any, list[Any]] = {key: [] for key in tasks}
    for key, others in needed.items():
        for other in others:
            after[other].append(key)
    ready = [key for key, others in needed.items() if not others]
    while ready:
        k = rng.randrange(len(ready))
        ready[k], ready[-1] = ready[-1], ready[k]
        key = ready.pop()
        done[key] = tasks[key](done)
        for other in after[key]:
            needed[other].discard(key)
            if not needed[other]:
                ready.append(other)

    def taken(keys: Any) -> Any:
        return tuple(map(taken, keys)) if isinstance(keys, list) else done[keys]

    return taken(keys)


def _on_dask(rng: Random, program: Program, how: str, alone: bool) -> str:
    """The fields as Dask arrays; where `alone` is allowed one may stay as it is."""
    made = []
    names = [n for n, one in program.fields.items() if np.ndim(one.values)]
    taken = [n for n in names if not alone or rng.random() < 0.7] or names[:1]
    for name in taken:
        chunks = cuts(rng, program.fields[name].values.shape, how)
        made.append(f"{name!r}: da.from_array(fields[{name!r}], chunks={chunks})")
    return "{" + ", ".join(made) + "}"


COMPUTED = """\
from ways import in_any_order
made = dask.compute(*made, scheduler=in_any_order)
found = listed(made)"""


def _chunked(rng: Random, program: Program) -> Iterator[Way]:
    for how in ("one chunk", "chunks of one", "chunks"):
        held = _on_dask(rng, program, how, alone=how == "chunks")
        if held == "{}":
            return
        text = f"made = listed({_call(program, f'**(named | {held})')})\n{COMPUTED}"
        yield Way(f"on Dask, {how}", "Dask", text)


def _labelled(rng: Random, program: Program) -> Iterator[Way]:
    """Objects of xarray, which broadcast by names: all axes are there and as long as any."""
    shape = program.shape
    first = next(iter(program.fields.values())).values
    if shape is None or np.shape(first) != shape:
        return
    for one in program.fields.values():
        own = np.shape(one.values)
        if not own or own != shape[len(shape) - len(own) :]:
            return
    dims = [f"d{k}" for k in range(len(shape))]

    def arrays(chunks: bool) -> str:
        made = []
        for name, one in program.fields.items():
            own = dims[len(dims) - one.values.ndim :]
            held = f"da.from_array(fields[{name!r}], chunks={cuts(rng, one.values.shape)})"
            held = held if chunks else f"fields[{name!r}]"
            made.append(f"{name!r}: xr.DataArray({held}, dims={own})")
        return "**(named | {" + ", ".join(made) + "})"

    taken = "\nfound = [one.transpose(*DIMS).values for one in made]".replace("DIMS", f"{dims}")
    text = f"made = listed({_call(program, arrays(False))})"
    yield Way("xarray", "xarray", text + taken)
    if 0 < program.ndim <= len(shape):
        named = f", dims={dims[len(dims) - program.ndim :]}"
        if program.kind != "steps":
            text = f"made = listed({_call(program, arrays(False), named)})"
            yield Way("xarray, dims", "xarray", text + taken)
        text = f"made = listed({_call(program, arrays(True))})"
        yield Way("xarray on Dask", "xarray", f"{text}\n{COMPUTED}{taken}")


def _placed(rng: Random, program: Program) -> Iterator[Way]:
    """The same along other axes, and as one of a stack."""
    shape, ndim = program.shape, program.ndim
    if program.kind not in ("kernel", "pipeline") or shape is None or len(shape) < ndim:
        return
    whole = [n for n, one in program.fields.items() if one.values.ndim == len(shape)]
    if not whole:
        return
    text = f"named |= {{n: np.stack([fields[n], fields[n]]) for n in {whole}}}\n"
    taken = "\nfound = [one[1] for one in listed(found)]"
    yield Way("a stack", "call", f"{text}found = {_call(program)}{taken}")
    ends = tuple(range(-ndim, 0))
    yield Way("axes", "call", f"found = {_call(program, more=f', axes={ends}')}")
    if len(whole) < len(program.fields) or "[" in program.options.get("boundary", ""):
        return
    front, turned = tuple(range(ndim)), tuple(range(ndim))[::-1]
    for name, to in {"axes in front": front, "axes turned": turned}.items():
        text = f"named |= {{n: np.moveaxis(fields[n], {ends}, {to}) for n in {whole}}}\n"
        taken = f"\nfound = [np.moveaxis(one, {to}, {ends}) for one in listed(found)]"
        call = _call(program, more=f", axes={to}")
        yield Way(name, "call", f"{text}found = {call}{taken}")
    if not (shape and 0 in shape):
        held = []
        for n in whole:
            turned = np.moveaxis(program.fields[n].values, ends, front)
            made = f"np.moveaxis(fields[{n!r}], {ends}, {front})"
            held.append(f"{n!r}: da.from_array({made}, {cuts(rng, turned.shape)})")
        text = f"named |= {{{', '.join(held)}}}\n"
        call = _call(program, more=f", axes={front}")
        taken = f"\nfound = [np.moveaxis(one, {front}, {ends}) for one in found]"
        yield Way("axes in front, on Dask", "Dask",
                  f"{text}made = listed({call})\n{COMPUTED}{taken}")  # fmt: skip


def _into(rng: Random, program: Program, results: list[np.ndarray]) -> Iterator[Way]:
    """Results that are written to arrays that are given; these may overlap a field."""
    shapes = [(one.shape, str(one.dtype)) for one in results]

    def into(made: str) -> str:
        given = "tuple(out)" if len(results) > 1 else "out[0]"
        native = "found = [one.astype(one.dtype.newbyteorder('=')) for one in out]"
        return f"out = {made}\n{_call(program, more=f', out={given}')}\n{native}"

    fresh = f"[np.empty(shape, dtype) for shape, dtype in {shapes}]"
    yield Way("out", "out", into(fresh))
    yield Way("out again", "out", into(fresh))
    turned = f"[np.empty(shape[::-1], dtype).T for shape, dtype in {shapes}]"
    yield Way("out in another order", "out", into(turned))
    gaps = f"[np.empty((*shape, 2), dtype)[..., 0] for shape, dtype in {shapes}]"
    yield Way("out with gaps", "out", into(gaps))
    states = [one.values for one in program.fields.values()][: len(results)]
    if len(states) < len(results) or not results[0].ndim:
        return
    for values, result in zip(states, results, strict=True):
        if not isinstance(values, np.ndarray):
            return
        if (values.shape, values.dtype) != (result.shape, result.dtype):
            return
    names = list(program.fields)[: len(results)]
    over = f"named |= {{n: np.array(fields[n]) for n in {names}}}\n"
    yield Way("over the fields", "out", over + into(f"[named[n] for n in {names}]"))
    shifted = (
        f"held = {{n: np.concatenate([fields[n][:1], fields[n]]) for n in {names}}}\n"
        f"named |= {{n: held[n][1:] for n in {names}}}\n"
    )
    if results[0].shape[0]:
        text = shifted + into(f"[held[n][:-1] for n in {names}]")
        yield Way("over a part of the fields", "out", text)


def _one_step(program: Program, results: list[np.ndarray]) -> Iterator[Way]:
    """A call is one step in time, where results can take the place of fields."""
    states = [one.values for one in program.fields.values()][: len(results)]
    if (
        len(states) == len(results)
        and set(program.options) <= {"boundary", "cval", "threads"}
        and all(v.shape == program.shape for v in (*results, *states))
        and all(a.dtype == b.dtype for a, b in zip(states, results, strict=True))
        and not any(word in program.source + str(program.options) for word in ("valid", "every"))
        and "upsample" not in program.source
    ):
        yield Way("a step", "iterate", "found = program.iterate(**named, **options, steps=1)")


def _all_points(program: Program) -> Iterator[Way]:
    """All points, of which the call leaves out some."""
    if "every" in program.options:
        every = ast.literal_eval(program.options["every"])
        steps = every if isinstance(every, tuple) else (every,) * program.ndim
        kept = ", ".join(f"::{step}" for step in steps)
        text = f"options['every'] = 1\nfound = {_call(program)}"
        yield Way(
            "all points", "call", f"{text}\nfound = [one[..., {kept}] for one in listed(found)]"
        )


def _in_parts(rng: Random, program: Program) -> Iterator[Way]:
    """Steps of parts that processes have, which are threads here."""
    shape = program.shape
    assert shape is not None
    whole = all(np.shape(one.values) == shape for one in program.fields.values())
    if "stencil_0" in program.source and not whole:
        # A call of a kernel looks at a smaller array as it is, and not as it is broadcast.
        return
    axis = len(shape) - program.ndim
    text = f"""\
from threads_comm import on_threads

def part(comm):
    own = {{n: npt.distribute(np.broadcast_to(v, {shape}), comm, axis={axis})
           for n, v in fields.items()}}
    return listed({_call(program, "**(named | own)", ", comm=comm")})

parts = on_threads({rng.choice([2, 2, 3])}, part)
found = [np.concatenate(one, {axis}) for one in zip(*parts)]
"""
    yield Way("in parts", "comm", text)


# What each target has from a library of its own: see "Numbers across targets" in docs/meaning.md.
_OWN = re.compile(r"sin|cos|tan|complex")


def on_a_gpu(program: Program) -> list[Way]:
    """Arrays that lie on a GPU, and arrays that are sent there; the stand-in looks closely."""
    names = [n for n, one in program.fields.items() if np.ndim(one.values)]
    if not names or {"out", "axes", "dims"} & set(program.options):
        return []
    limits = {"far_elements": 1} if program.seed % 8 == 5 else {}
    there = "cupy.asarray(fields[n].astype(fields[n].dtype.newbyteorder('=')))"
    # Beside these a number is one, and an array without axes would lie elsewhere.
    numbers = [n for n, one in program.fields.items() if np.shape(one.values) == ()]
    numbers = [n for n in numbers if isinstance(program.fields[n].values, np.ndarray)]
    given = f"{{n: {there} for n in {names}}} | {{n: fields[n][()] for n in {numbers}}}"
    given = f"**(named | {given})"
    like = "nearly" if _OWN.search(program.text()) else "first"

    def way(name: str, call: str, pages: str) -> Way:
        text = f"""\
import cupy
import seams
from on_gpu import strictly

with strictly({pages!r}), seams.limits(**{limits}):
    found = [cupy.asnumpy(one) for one in listed({call})]
"""
        return Way(name, "GPU", text, like)

    sent = _call(program, more=", device='cuda'")
    return [
        way("on a GPU", _call(program, given), ""),
        way("on a GPU again", _call(program, given), "end"),
        way("sent to a GPU", sent, "begin"),
    ]
