"""Every way to run a program, each as a text that leaves its results in `found`.

    wanted(program)      the definition: `debug`, again and again for steps
    first(program)       an ordinary call
    ways(program, ...)   others: of those that have most of their path in common, a few
    on_a_gpu(program)    those on a GPU

A text uses the names of `Program.text`, so that what fails can be printed below it and run.
"""

import ast
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import convert_legacy_graph

from drawing import Program

# Options that the definition does not know, and those of other places: these have mistakes of
# their own to tell of.
DEBUG = ("threads", "out", "device")
PLACES = {"axes", "dims", "out"}

# An array is cut into so many chunks at most: more would go the same ways.
MOST_CHUNKS = 16


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
    if not program.defined and program.kind in ("kernel", "ufunc"):
        return first(program)
    if program.kind != "steps" and not program.defined:
        text = f"{program.apart}found = calls(**named, **options)"
        return Way("the definition", "definition", text)
    if program.kind != "steps":
        given = f"{{n: v for n, v in options.items() if n not in {left_out}}}"
        text = f"found = program.debug(**named, **{given if left_out else 'options'})"
        return Way("the definition", "definition", text)
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


def called(program: Program, arguments: str = "**named", more: str = "") -> str:
    if program.kind == "steps":
        return f"program.iterate({arguments}, steps={program.steps}, **options{more})"
    return f"program({arguments}, **options{more})"


def first(program: Program) -> Way:
    """An ordinary call, by name."""
    return Way("the first call", "call", f"found = {called(program)}")


def ways(program: Program, results: list[np.ndarray] | None, most: int = 0) -> list[Way]:
    """Other ways, or `most` of them; `results` are what the first call gave, if any."""
    rng = Random(f"ways of {program.kind} {program.seed}")
    every = _Ways(rng, program)
    groups = [(2, every.again()), (0.6, every.after_others()), (1, every.lazily())]
    groups += [(0.2, every.staged()), (0.6, every.one_by_one())]
    if not PLACES & set(program.options):
        groups += [(2, every.in_chunks()), (1, every.labelled()), (1, every.placed())]
    if results is not None:
        groups += [(2, every.into(results)), (2, every.steps(results))]
    found, on_dask = [], []
    for count, some in [(count, list(some)) for count, some in groups]:
        on_dask += [way for way in some if "Dask" in way.name]
        some = [way for way in some if "Dask" not in way.name]
        count = min(len(some), count if count >= 1 else int(rng.random() < count))
        found += [some[k] for k in sorted(rng.sample(range(len(some)), int(count)))]
    found += rng.sample(on_dask, min(rng.choice([1, 2]), len(on_dask)))
    return rng.sample(found, most) if 0 < most < len(found) else found


COMPUTED = """\
from ways import as_told, in_any_order
found = listed(dask.compute(*map(as_told, found), scheduler=in_any_order))
"""


def as_told(lazy: Any) -> Any:
    """The same array, each chunk of which is seen to have the shape that was told."""

    def look(block: Any, block_info: Any = None) -> Any:
        assert np.shape(block) == block_info[None]["chunk-shape"], block_info
        return block

    return lazy.map_blocks(look, dtype=lazy.dtype) if isinstance(lazy, da.Array) else lazy


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


def cuts(rng: Random, shape: tuple[int, ...], how: str = "chunks") -> tuple[tuple[int, ...], ...]:
    """The chunks of an array along each axis: one, single elements, or any, with empty ones."""

    def cut(n: int, how: str) -> tuple[int, ...]:
        # With one element there is one: Dask's own arithmetic fails on empty ones beside it.
        if how == "one chunk" or n < 2 or (how == "chunks" and rng.random() < 0.2):
            return (n,)
        if how == "chunks of one":
            return (1,) * n
        ends = sorted(rng.randint(0, n) for _ in range(rng.randint(1, 3)))
        return tuple(b - a for a, b in zip([0, *ends], [*ends, n], strict=True))

    found = [cut(n, how) for n in shape]
    while math.prod(map(len, found)) > MOST_CHUNKS:
        k = rng.choice([k for k, one in enumerate(found) if len(one) > 1])
        found[k] = cut(shape[k], "chunks" if len(found[k]) > 3 else "one chunk")
    return tuple(found)


class _Ways:
    """The other ways of a program, those together that have most of their path in common."""

    def __init__(self, rng: Random, program: Program) -> None:
        self.rng, self.program = rng, program
        self.shape, self.ndim = program.shape, program.ndim
        # What has no axes is a number, and a lazy one is a field.
        self.arrays = {n: f.values for n, f in program.fields.items() if np.ndim(f.values)}

    def way(
        self,
        name: str,
        arguments: str = "**named",
        more: str = "",
        *,
        before: str = "",
        after: str = "",
        target: str = "call",
    ) -> Way:
        """A call, with what is done before it and after."""
        call = called(self.program, arguments, more)
        if "Dask" in name:
            after = COMPUTED + after
        return Way(name, target, f"{before}found = listed({call})\n{after}")

    def again(self) -> Iterator[Way]:
        """In other words, and from other places in memory."""
        program, rng = self.program, self.rng
        names = [*program.fields, *program.tables, *program.scalars]
        known = [name in names for name in program.positional]
        leading = list(program.positional)[: [*known, False].index(False)]

        def positional(count: int) -> str:
            own, rest = leading[:count], [n for n in names if n not in leading[:count]]
            rng.shuffle(rest)
            return f"*[named[n] for n in {own}], **{{n: named[n] for n in {rest}}}"

        yield self.way("again")
        yield self.way("by position", positional(99))
        yield self.way("mixed", positional(rng.randint(0, 3)))
        # An array without axes is a number, but not one of Python.
        arrays = [n for n, one in program.fields.items() if isinstance(one.values, np.ndarray)]
        copies = f"{{n: np.array(fields[n], order='C') for n in {arrays}}}"
        yield self.way("copies", f"**(named | {copies})")
        if "threads" not in program.options:
            yield self.way("threads", positional(99), ", threads=2")
        pickled = "program = pickle.loads(pickle.dumps(program))\n"
        yield self.way("pickled", before=pickled)

    def after_others(self) -> Iterator[Way]:
        for others in self.program.others:
            made = "{" + ", ".join(f"{n!r}: {one}" for n, one in others.items()) + "}"
            call = called(self.program, f"**(named | {made})")
            text = f"try:\n    {call}\nexcept (IndexError, TypeError, ValueError):\n    pass\n"
            yield self.way("after another shape", before=text)

    def staged(self) -> Iterator[Way]:
        if self.program.staged:
            yield self.way("staged", before=f"{self.program.staged}\n", target="stage")

    def lazily(self) -> Iterator[Way]:
        lazy, computed = "npt.lazy(fields[n])", "found = listed(npt.compute(*found))\n"
        for name in ("lazy", "all lazy") if self.arrays else ():
            some = [self.rng.choice([*self.arrays])] if name == "lazy" else [*self.arrays]
            given = f"**(named | {{n: {lazy} for n in {some}}})"
            yield self.way(name, given, after=computed, target="lazy")

    def on_dask(self, how: str) -> str:
        """The fields as Dask arrays; some may stay as they are."""
        some = [n for n in self.arrays if how != "chunks" or self.rng.random() < 0.7]
        made = [
            f"{n!r}: da.from_array(fields[{n!r}], {cuts(self.rng, self.arrays[n].shape, how)})"
            for n in some or [*self.arrays][:1]
        ]
        return "**(named | {" + ", ".join(made) + "})"

    def in_chunks(self) -> Iterator[Way]:
        for how in ("one chunk", "chunks of one", "chunks") if self.arrays else ():
            yield self.way(f"on Dask, {how}", self.on_dask(how), target="Dask")

    def one_by_one(self) -> Iterator[Way]:
        """The stages of a pipeline as calls."""
        program = self.program
        lazy = f"**(named | {{n: npt.lazy(fields[n]) for n in {[*self.arrays]}}})"
        for name, given, after in (
            ("one by one", "**named", ""),
            ("one by one, lazy", lazy, "found = listed(npt.compute(*found))\n"),
            ("one by one, on Dask", self.on_dask("chunks"), COMPUTED),
        ):
            if program.apart and program.defined:
                text = f"{program.apart}\nfound = listed(calls({given}, **options))\n{after}"
                yield Way(name, "apart", text)

    def labelled(self) -> Iterator[Way]:
        """Objects of xarray, which broadcast by names: all axes are there and as long as any."""
        shapes = [np.shape(one.values) for one in self.program.fields.values()]
        shape = self.shape
        if shape is None or shapes[0] != shape or () in shapes:
            return
        if any(own != shape[len(shape) - len(own) :] for own in shapes):
            return
        dims = [f"d{k}" for k in range(len(shape))]
        after = f"found = [one.transpose(*{dims}).values for one in found]\n"

        def given(chunks: bool) -> str:
            made = []
            for name, array in self.arrays.items():
                held = f"fields[{name!r}]"
                if chunks:
                    held = f"da.from_array({held}, {cuts(self.rng, array.shape)})"
                own = dims[len(dims) - array.ndim :]
                made.append(f"{name!r}: xr.DataArray({held}, dims={own})")
            return "**(named | {" + ", ".join(made) + "})"

        yield self.way("xarray", given(False), after=after, target="xarray")
        if 0 < self.ndim <= len(shape):
            more = f", dims={dims[len(dims) - self.ndim :]}"
            if self.program.kind != "steps":
                yield self.way("xarray, dims", given(False), more, after=after, target="xarray")
            yield self.way("xarray on Dask", given(True), after=after, target="xarray")

    def placed(self) -> Iterator[Way]:
        """The same along other axes, and as one of a stack."""
        shape, ndim, fields = self.shape, self.ndim, self.program.fields
        if self.program.kind not in ("kernel", "pipeline") or shape is None or len(shape) < ndim:
            return
        whole = [n for n, one in self.arrays.items() if one.ndim == len(shape)]
        if not whole:
            return
        text = f"named |= {{n: np.stack([fields[n], fields[n]]) for n in {whole}}}\n"
        yield self.way("a stack", before=text, after="found = [one[1] for one in found]\n")
        ends = tuple(range(-ndim, 0))
        yield self.way("axes", more=f", axes={ends}")
        if len(whole) < len(fields) or "[" in self.program.options.get("boundary", ""):
            return
        front = tuple(range(ndim))
        for name, to in {"axes in front": front, "axes turned": front[::-1]}.items():
            after = f"found = [np.moveaxis(one, {to}, {ends}) for one in found]\n"
            text = f"named |= {{n: np.moveaxis(fields[n], {ends}, {to}) for n in {whole}}}\n"
            yield self.way(name, more=f", axes={to}", before=text, after=after)
            if 0 not in shape:
                shapes = {n: np.moveaxis(self.arrays[n], ends, to).shape for n in whole}
                held = [
                    f"{n!r}: da.from_array(named[{n!r}], {cuts(self.rng, own)})"
                    for n, own in shapes.items()
                ]
                text += f"named |= {{{', '.join(held)}}}\n"
                yield self.way(f"{name}, on Dask", more=f", axes={to}", before=text, after=after,
                               target="Dask")  # fmt: skip

    def into(self, results: list[np.ndarray]) -> Iterator[Way]:
        """Results that are written to arrays that are given; these may overlap a field."""
        shapes = [(one.shape, str(one.dtype)) for one in results]
        native = "found = [one.astype(one.dtype.newbyteorder('=')) for one in out]\n"
        more = ", out=tuple(out)" if len(results) > 1 else ", out=out[0]"

        def into(name: str, made: str, before: str = "") -> Way:
            text, after = f"{before}out = {made}\n", native
            if "gaps" in name:
                # Nothing is written between.
                after += "assert not any(one.base[..., 1].any() for one in out)\n"
            return self.way(name, more=more, before=text, after=after, target="out")

        for name, made in {
            "out": "np.empty(shape, dtype)",
            "out again": "np.empty(shape, dtype)",
            "out in another order": "np.empty(shape[::-1], dtype).T",
            "out backwards": "np.flip(np.empty((*shape, 1), dtype))[..., 0]",
            "out with gaps": "np.zeros((*shape, 2), dtype)[..., 0]",
            "out of other bytes": "np.empty(shape, np.dtype(dtype).newbyteorder())",
            "out at an odd place": "np.ndarray(shape, dtype, bytearray(10**6), 1)",
        }.items():
            yield into(name, f"[{made} for shape, dtype in {shapes}]")
        if self.states_are(results) and results[0].ndim:
            names = list(self.program.fields)[: len(results)]
            text = f"named |= {{n: np.array(fields[n]) for n in {names}}}\n"
            yield into("over the fields", f"[named[n] for n in {names}]", text)
            yield into("over the fields, turned", f"[named[n][::-1] for n in {names}]", text)
            text = (
                f"held = {{n: np.concatenate([fields[n][:1], fields[n]]) for n in {names}}}\n"
                f"named |= {{n: held[n][1:] for n in {names}}}\n"
            )
            if results[0].shape[0]:
                yield into("over a part of the fields", f"[held[n][:-1] for n in {names}]", text)

    def states_are(self, results: list[np.ndarray]) -> bool:
        """Whether results can take the place of the first fields."""
        states = [np.asarray(one.values) for one in self.program.fields.values()][: len(results)]
        return [(a.shape, a.dtype) for a in states] == [(a.shape, a.dtype) for a in results]

    def steps(self, results: list[np.ndarray]) -> Iterator[Way]:
        """One call is a step; all points, of which it may leave out some; steps in processes."""
        program, every = self.program, self.program.options.get("every")
        text = program.source + str(program.options)
        if (
            program.kind == "kernel"
            and self.states_are(results)
            and results[0].shape == self.shape
            and set(program.options) <= {"boundary", "cval", "threads"}
            and not any(word in text for word in ("valid", "every", "upsample"))
        ):
            call = "found = program.iterate(**named, **options, steps=1)"
            yield Way("a step", "iterate", call)
        if program.kind == "kernel" and every:
            steps = ast.literal_eval(every)
            steps = steps if isinstance(steps, tuple) else (steps,) * self.ndim
            kept = ", ".join(f"::{step}" for step in steps)
            after = f"found = [one[..., {kept}] for one in found]\n"
            yield self.way("all points", before="options['every'] = 1\n", after=after)
        # A call of a kernel looks at a smaller array as it is, and not as it is broadcast.
        whole = all(np.shape(one.values) == self.shape for one in program.fields.values())
        if program.kind == "steps" and (whole or "stencil_0" not in program.source):
            assert self.shape is not None
            axis = len(self.shape) - self.ndim
            text = f"""\
from own_process import on_threads

def part(comm):
    own = {{n: npt.distribute(np.broadcast_to(v, {self.shape}), comm, axis={axis})
           for n, v in fields.items()}}
    return listed({called(program, "**(named | own)", ", comm=comm")})

parts = on_threads({self.rng.choice([2, 2, 3])}, part)
found = [np.concatenate(one, {axis}) for one in zip(*parts)]
"""
            yield Way("in parts", "comm", text)


# What each target has of its own: see "Numbers across targets" in docs/meaning/numbers.md.
_OWN = re.compile(r"sin|cos|tan|complex")


def on_a_gpu(program: Program) -> list[Way]:
    """Arrays that lie on a GPU, and arrays that are sent there; the stand-in looks closely."""
    names = [n for n, one in program.fields.items() if np.ndim(one.values)]
    if not names or PLACES & set(program.options):
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

    return [
        way("on a GPU", called(program, given), ""),
        way("on a GPU again", called(program, given), "end"),
        way("sent to a GPU", called(program, more=", device='cuda'"), "begin"),
    ]
