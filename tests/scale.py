"""Random programs on arrays in stores, in any chunks, saved or computed, while workers are killed.

    python tests/scale.py FIRST LAST [--kind KIND] [--workers] [--kills] [--limit SECONDS]

A program of `drawing.py`, with longer axes and more steps, is called with arrays of NumPy.  Then
some of its fields lie in stores of Zarr or in files, in pieces and shards of any lengths, and are
opened in chunks of any lengths; its results are computed, or saved in any pieces, by parts, and
after an interruption.  Threads do that, or two workers, of which one is killed at any moment in a
quarter of the programs (in all with `--kills`).  What it gives is what the call gives, to the bit,
and it is refused alike.  One that takes longer than the limit ends the process, which shows what
it waits for.
"""

import argparse
import contextlib
import faulthandler
import itertools
import math
import os
import signal
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import dask.array as da
import h5py
import numpy as np
import zarr

import agree
import drawing
import ninepoint as npt
import seams
import ways
from drawing import Program
from ways import Way

KINDS = ("kernel", "pipeline", "steps")

# How much longer axes are at most, by how many the kernel works along.
LONGER = (60, 20, 8)

# Workers run generated code as plain Python, also those that come after others were killed.
PRELOAD = "import seams\nseams.kept = seams.interpreted()\nseams.kept.__enter__()\n"

# A program that takes longer [s] as plain Python in one process is left out.
SLOW = 4.0

_numbers = itertools.count()
_killing = threading.Event()
killed = Counter[str]()


class Stop(Exception):
    """Somebody interrupts what is saved."""


@lru_cache
def _room() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=".ninepoint-scale-")


def path(suffix: str) -> Path:
    """A name that is new."""
    return Path(_room().name, f"{next(_numbers)}{suffix}")


def opened(array: np.ndarray, how: str, pieces: Any, shards: Any, chunks: Any) -> Any:
    """The array, stored in such pieces and opened in such chunks."""
    name = path(f".{how}")
    if how == "npy":
        np.save(name, array)
    elif how == "h5":
        with h5py.File(name, "w") as file:
            file.create_dataset("data", data=np.array(array), chunks=pieces)
    else:
        native = array.astype(array.dtype.newbyteorder("="))
        store = zarr.create_array(
            name, shape=array.shape, dtype=native.dtype, chunks=pieces, shards=shards
        )
        store[...] = native
    return da.from_zarr(str(name)) if how == "zarr3" else npt.open(name, chunks=chunks)


def saved(
    array: Any, suffix: str, stop: float, parts: list[int], memory: int = 0, **cut: Any
) -> np.ndarray:
    """What is read back of an array that was saved, perhaps after an interruption at `stop`."""
    name, array = path(suffix), slowed(array)
    if memory:
        cut["memory"] = enough(array, name, memory, **cut)

    def interrupt(done: int, total: int) -> None:
        if done >= stop * total:
            raise Stop

    if stop < 1:
        with contextlib.suppress(Stop):
            npt.save(array, name, progress=interrupt, **cut)
        cut["resume"] = True
    for number in parts:
        if memory:
            given = cut | {"part": (0, len(parts))}
            cut["memory"] = enough(array, name, given.pop("memory"), **given)
        npt.save(array, name, part=(number, len(parts)), **cut)
    if not parts:
        npt.save(array, name, **cut)
    if suffix == ".h5":
        with h5py.File(name) as file:
            # NetCDF has numbers in the place of bools.
            return np.asarray(file["data"][...].astype(array.dtype))
    return np.load(name) if suffix == ".npy" else np.asarray(zarr.open_array(name)[...])


def enough(array: Any, name: Path, memory: int, **cut: Any) -> int:
    """The least memory of some, each twice the one before, with which an array can be saved."""
    cut |= {"resume": True, "dry": True}
    while True:
        try:
            npt.save(array, name, **(cut | {"memory": memory}))
            return memory
        except MemoryError:
            memory *= 2


def slowed(array: Any) -> Any:
    """The same, in tasks that take a while where a worker is to be killed."""

    def pause(block: np.ndarray) -> np.ndarray:
        time.sleep(0.02)
        return block

    # Without a step an array of NumPy is given as it is.
    slow = _killing.is_set() and isinstance(array, da.Array)
    return array.map_blocks(pause, dtype=array.dtype) if slow else array


@contextlib.contextmanager
def killing(after: float) -> Iterator[None]:
    """Kill one of the workers after so many seconds, or before anything else."""
    import distributed

    mine = sorted(distributed.get_client().run(os.getpid).values())[0]

    def kill() -> None:
        os.kill(mine, signal.SIGKILL)
        killed["killed"] += 1

    timer = threading.Timer(after, kill)
    timer.start()
    _killing.set()
    if not after:
        timer.join()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        _killing.clear()


def drawn(rng: Random, program: Program, kills: float) -> tuple[Way, Way, agree.Running]:
    """A call with arrays of NumPy, and the same with what lies in stores."""
    running, arguments, before, after = agree.Running(program), "**named", "", ""
    if program.kind == "steps" and rng.random() < 0.4:
        look = "looks.append(np.array(now[0]))"
        arguments += f", every={rng.randint(1, 30)}, callback=lambda step, *now: {look}"
        before, after = "looks = []\n", "found += looks\n"
    if program.kind == "steps" and rng.random() < 0.2:
        arguments += f", until={rng.choice([0, 1e-3, 2])}"
    call = f"found = listed({ways.called(program, arguments)})\n"
    first = Way("the call", "call", before + call + after)
    right = running(first)
    if program.kind == "steps" and rng.random() < 0.4:
        arguments += f", snapshots={rng.choice([0, 1, 5])}"
    lines = [f"found = listed({ways.called(program, arguments)})", _ended(rng, program, right)]
    if rng.random() < kills:
        seconds = rng.choice([0, 0.5]) * rng.random()
        lines = [f"with scale.killing({seconds:.3f}):", *(f"    {one}" for one in lines)]
    ratio, held = rng.choice(["np.inf", "0.0", "1.6"]), rng.choice([0, 10**9])
    limits = f"decoded_ratio={ratio}, held_bytes={held}, window_units={rng.randint(1, 9)}"
    around = f"with seams.limits({limits}):\n"
    lines = [f"named |= {_in_stores(rng, program)}", *lines]
    text = "".join(f"    {line}\n" for one in lines for line in one.split("\n"))
    text = f"import scale, seams\n{before}{around}{text}{after}"
    return first, Way("at scale", "Dask", text), running


def longer(rng: Random, program: Program) -> Program:
    """The same with longer axes and more steps, where its border and its scalars allow it."""
    steps, shape = program.steps, program.shape
    if program.kind == "steps" and not any("[" in one for one in program.scalars.values()):
        steps = rng.choice([steps, 20, 70])
    # To read a pickle of bfloat16 in another byte order changes the type itself, of all arrays.
    plain = {
        name: replace(one, lies="a") if np.asarray(one.values).dtype.kind == "V" else one
        for name, one in program.fields.items()
    }
    program = replace(program, steps=steps, fields=plain)
    if not shape or 0 in shape or "np.array" in str(program.options) or rng.random() < 0.2:
        return program
    core = len(shape) - program.ndim
    most = LONGER[program.ndim - 1]
    grown = [n + rng.randint(0, most if axis >= core else 2) for axis, n in enumerate(shape)]
    values, fields = np.random.default_rng(program.seed), {}
    for name, one in program.fields.items():
        old = np.asarray(one.values)
        pairs = list(zip(shape, grown, strict=True))[len(shape) - old.ndim :]
        own = [new if n == whole else n for n, (whole, new) in zip(old.shape, pairs, strict=True)]
        # Of the same numbers: sums of them are exact where those were.
        made = old.ravel()[values.integers(0, old.size, own)] if own else one.values
        fields[name] = replace(one, values=made)
    return replace(program, fields=fields)


def _in_stores(rng: Random, program: Program) -> str:
    """The fields as they are opened; some may stay as they are."""
    arrays = {n: one.made() for n, one in program.fields.items() if np.ndim(one.values)}
    made = []
    for name in [n for n in arrays if rng.random() < 0.7] or [*arrays][:1]:
        array, field = arrays[name], f"fields[{name!r}]"
        how = rng.choice(["npy", "h5", "zarr", "zarr", "zarr3", "dask"])
        if not array.size or array.dtype.kind not in ("biuf" if how == "h5" else "biufc"):
            how = "dask"
        if how == "dask":
            made.append(f"{name!r}: da.from_array({field}, {ways.cuts(rng, array.shape)})")
            continue
        pieces, shards = _cut(rng, array.shape)
        chunks = rng.choice([None, _lengths(rng, array.shape)])
        cut = f"{pieces}, {shards}, {chunks}"
        made.append(f"{name!r}: scale.opened({field}, {how!r}, {cut})")
    return "{" + ", ".join(made) + "}"


def _cut(rng: Random, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The pieces of a store, and perhaps its shards, each of whole pieces."""
    pieces = _lengths(rng, shape)
    return pieces, rng.choice([None, tuple(n * rng.randint(1, 3) for n in pieces)])


def _lengths(rng: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    lengths = [rng.randint(1, n) for n in shape]
    while math.prod(-(-n // one) for n, one in zip(shape, lengths, strict=True)) > 16:
        lengths = [min(n, one + 1) for n, one in zip(shape, lengths, strict=True)]
    return tuple(lengths)


def _ended(rng: Random, program: Program, right: agree.Outcome) -> str:
    """What becomes of results that are lazy: they are computed together, or saved one by one."""
    results = right[: len(program.loose)] if isinstance(right, list) else []
    if not results or rng.random() < 0.3 or any(one.dtype.kind == "V" for one in results):
        return "found = listed(dask.compute(*map(scale.slowed, found)))"
    made = []
    for k, one in enumerate(results):
        suffix = rng.choice([".zarr", ".zarr", ".npy", ".h5"])
        if one.dtype.name in ("float16", "complex64", "complex128") and suffix == ".h5":
            suffix = ".zarr"
        stop, parts, cut = 1.0, [], ""
        if one.size and suffix == ".zarr":
            pieces, shards = _cut(rng, one.shape)
            cut = f", chunks={pieces}, shards={shards}" if rng.random() < 0.7 else ""
            cut += f", memory={rng.choice([0, 1])}"
            stop = rng.choice([1.0, round(rng.random(), 2)])
            count = rng.choice([0, 0, 2, 3])
            parts = rng.sample(range(count), count)
        made.append(f"scale.saved(found[{k}], {suffix!r}, {stop}, {parts}{cut})")
    return f"found = [{', '.join(made)}]"


def check(kind: str, seed: int, kills: float) -> str:
    """Run one program both ways; how that went.

    Raises
    ------
    Disagreement
        Where they differ.
    """
    rng = Random(f"scale {kind} {seed}")
    program = longer(rng, drawing.draw(kind, seed))
    if ways.PLACES & set(program.options):
        return "left out"
    begun = time.monotonic()
    first, way, running = drawn(rng, program, kills)
    if time.monotonic() - begun > SLOW:
        return "too slow"
    right = running(first)
    try:
        made = running(way)
    except OSError as error:
        # What an iteration has left on a worker is gone with it.
        if "killing(" in way.text and "lay on a worker that is gone" in str(error):
            return "lost"
        raise
    if agree.refused("Dask", made) and made != right:
        return "by the table"
    if not agree.alike(made, right, "Dask", text=program.text()):
        raise running.disagreement(way, made, right, first)
    return "arrays" if isinstance(right, list) else "refused"


@contextlib.contextmanager
def workers() -> Iterator[Any]:
    """Two workers, a process each."""
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="2GB",
        silence_logs=50, preload=[PRELOAD],
    )  # fmt: skip
    try:
        with distributed.Client(cluster) as client:
            yield client
    finally:
        # Dask looks for a worker that came and went at once.
        with contextlib.suppress(KeyError):
            cluster.close()


def settle(client: Any) -> None:
    """Wait for two workers; Dask gives one up that ends while it starts."""
    try:
        client.wait_for_workers(2, timeout=20)
    except TimeoutError:
        client.cluster.scale(0)
        client.cluster.scale(2)
        client.wait_for_workers(2, timeout=40)


def main() -> None:
    """Check the seeds that are asked for, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--workers", action="store_true")
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds a program may take")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", npt.PerformanceWarning)
    kills = (1.0 if asked.kills else 0.25) * asked.workers
    counts, failed = Counter[str](), []
    with seams.interpreted(), workers() if asked.workers else contextlib.nullcontext() as client:
        for seed in range(asked.first, asked.last):
            for kind in asked.kind or KINDS:
                print(f"\r{kind} {seed} ", end="", flush=True)
                faulthandler.dump_traceback_later(asked.limit, exit=True)
                begun = time.monotonic()
                try:
                    counts[check(kind, seed, kills)] += 1
                except Exception as error:
                    failed.append(f"{kind} {seed}")
                    words = str(error) if isinstance(error, agree.Disagreement) else repr(error)
                    print(f"\n# {kind} {seed} differs or fails:\n{words}", flush=True)
                if time.monotonic() - begun > asked.limit / 4:
                    counts["slow"] += 1
                if client is not None:
                    settle(client)
        faulthandler.cancel_dump_traceback_later()
    print(f"\n{dict(counts + killed)}\nwrong: {failed}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    # The texts of ways import this module, and not what was started.
    import scale

    scale.main()
