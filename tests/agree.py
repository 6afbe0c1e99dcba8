"""Run random programs in every way there is, and compare all results, and all errors.

    python tests/agree.py FIRST LAST [--kind KIND] [--compiled] [--gpu STEP]

`drawing.py` writes the programs, `ways.py` the ways.  What a program means is what
`stencil.debug` gives; an ordinary call gives that, and every other way gives what the call gives,
to the bit.  An error is the same in every way, its type and its words, but for what a target
refuses by itself: that stands in docs/refusals.md, and nowhere here.

Generated code is run as plain Python that looks at every index: about 15 kernels, 6 pipelines or
iterations and 40 functions of numbers a second and core.  With `--compiled` it is compiled.  Each
STEP-th program goes through a GPU too, or through the stand-in of tests/cuda for it.  A failure is
printed as a program that can be run, in this folder.
"""

import argparse
import contextlib
import faulthandler
import gc
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import drawing
import kernels
import ninepoint as npt
import on_gpu
import seams
import ways
from drawing import Program
from ways import Way

TESTS = Path(__file__).parent
REFUSALS = TESTS.parent / "docs" / "refusals.md"

# Programs whose texts for a GPU are built together.
TOGETHER = 50

# What a call gives, or how it is refused.
Outcome = list[np.ndarray] | tuple[type, str]


class Disagreement(AssertionError):
    """Two ways differ; its words are a program."""


@lru_cache
def refusals() -> list[tuple[str, re.Pattern[str]]]:
    """The targets and the words of docs/refusals.md, where "..." stands for anything."""
    found = []
    for line in REFUSALS.read_text(encoding="utf-8").splitlines():
        cells = [one.strip() for one in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[2].startswith("`"):
            words = cells[2].strip("`").strip().replace("\\|", "|")
            parts = map(re.escape, words.split("..."))
            found.append((cells[1], re.compile(".*".join(parts), re.DOTALL)))
    return found


def refused(target: str, outcome: Outcome) -> bool:
    """Whether the table says that this target refuses this in these words."""
    if isinstance(outcome, list):
        return False
    return any(where == target and words.search(outcome[1]) for where, words in refusals())


class Running:
    """A program that is there: what its text defines, and what it was given."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = program.names()
        self.before = {n: np.array(v) for n, v in self.names["fields"].items()}

    def __call__(self, way: Way) -> Outcome:
        """What this way leaves in `found`, or how it is refused."""
        names = self.names
        kept = dict(names)
        names["named"], names["options"] = dict(names["named"]), dict(names["options"])
        try:
            kernels.executed(way.text, names)
            found = [np.asarray(one) for one in names["listed"](names["found"])]
        except on_gpu.REFUSED as error:
            return type(error), str(error)
        finally:
            names.clear()
            names.update(kept)
        for name, values in self.before.items():
            if not alike([values], [np.array(names["fields"][name])]):
                raise self.disagreement(way, f"{name!r} was changed", "")
        return found

    def disagreement(
        self, way: Way, made: object, right: object, first: Way | None = None
    ) -> Disagreement:
        """The failure as a program; what is right is what the `first` call gives."""
        program = self.program
        definition = first or ways.first(program)
        if way.like == "nearly" or way.name == "the first call":
            definition = ways.wanted(program)
        again = "named, options = map(dict, kept)"
        lines = [
            f"# {program.kind} {program.seed}, {way.name}: run this in the folder tests",
            program.text(),
            "kept = named, options",
            f"# {definition.name}",
            again,
            definition.text,
            "print(listed(found))",
            *(f"# {line}" for line in f"gives {right}".splitlines()),
            "",
            f"# {way.name}",
            again,
            way.text,
            "print(listed(found))",
            *(f"# {line}" for line in f"gives {made}".splitlines()),
        ]
        return Disagreement("\n".join(map(str, lines)))


def alike(
    made: Outcome, right: Outcome, target: str = "call", loose: Sequence[bool] = (), text: str = ""
) -> bool:
    """Whether two outcomes are alike, to the bit but for the signs of zeros and kinds of NaN.

    Floats that are `loose` may differ in the last places of the types in the program's text.
    """
    if isinstance(made, tuple) or isinstance(right, tuple):
        return told(made, target) == told(right, target)
    if [(a.dtype, a.shape) for a in made] != [(b.dtype, b.shape) for b in right]:
        return False
    single = any(word in text for word in ("32", "float16", "complex64"))
    bound = 1e-2 if "bfloat16" in text else 2e-4 if single else 1e-9
    for k, (a, b) in enumerate(zip(made, right, strict=True)):
        floats = a.dtype.kind in "fcV"
        if loose and loose[k] and floats:
            largest = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
            found = np.allclose(a, b, rtol=bound, atol=bound * largest, equal_nan=True)
        else:
            found = np.array_equal(a, b, equal_nan=floats)
        if not found:
            return False
    return True


def told(outcome: Outcome, target: str) -> Any:
    """How something is refused, without what another program or another shape has otherwise."""
    if isinstance(outcome, list):
        return None
    kind, words = outcome
    words = re.sub(r"\([\d, ]*\)", "(shape)", words)
    words = re.sub(r'<random program \w+>", line \d+\n +\d+', "<random program>", words)
    return kind, re.sub(r"'\w+'", "'name'", words) if target in ("stage", "apart") else words


def check(program: Program, *, most: int = 0, gpu: bool = False) -> Counter[str]:
    """Run a program in every way, or in `most` of them; how many gave arrays, or were refused.

    Raises
    ------
    Disagreement
        Where two ways differ.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", npt.PerformanceWarning)
        return _check(program, most, gpu)


def _check(program: Program, most: int, gpu: bool) -> Counter[str]:
    running, counts = Running(program), Counter[str]()
    text = program.text()
    right, way = running(ways.wanted(program)), ways.first(program)
    made = running(way)
    if program.kind == "steps" and not program.steps and isinstance(made, tuple):
        # A kernel is looked at before there is a step; the definition looks at one in its step.
        right = running(ways.wanted(replace(program, steps=1)))
    # What the definition does not know, it does not refuse.
    known = isinstance(made, list) or not set(ways.DEBUG) & set(program.options)
    if not program.defined and isinstance(right, tuple):
        # Calls one by one are refused in words of their own, or for themselves.
        known = isinstance(made, list) and not refused("apart", right)
    # A field of a stage may lack axes even where no step is done.
    table = refused(way.target, made) or refused("stage", made)
    if known and not table and not alike(made, right, loose=program.loose, text=text):
        raise running.disagreement(way, made, right)
    results = made if isinstance(made, list) else None
    counts["arrays" if results is not None else "refused"] += 1
    if refused("stage", made):
        # Ways that name the axes of the fields know where they belong.
        counts["by the table"] += 1
        return counts
    some = [*ways.ways(program, results, most), *(ways.on_a_gpu(program) if gpu else [])]
    for way in some:
        found = running(way)
        if refused(way.target, found) and found != made:
            counts["by the table"] += 1
            continue
        counts["ways"] += 1
        if way.target == "apart" and results is None:
            continue
        # A GPU's functions may differ in the last places.
        loose = [way.like == "nearly"] * len(program.loose)
        if not alike(found, made, way.target, loose, text):
            raise running.disagreement(way, found, made)
    return counts


def many(
    kind: str, seeds: range, *, compiled: bool = False, most: int = 0, gpu: int = 0
) -> tuple[Counter[str], list[str]]:
    """Check many programs, every `gpu`-th through a GPU too; what they gave, and what differs."""
    counts, wrong = Counter[str](), []
    with contextlib.nullcontext() if compiled else seams.interpreted():
        through = {seed: drawing.draw(kind, seed) for seed in seeds if gpu and seed % gpu == 0}
        with on_gpu.prepared(asking(through.values())) if through else contextlib.nullcontext():
            for seed in seeds:
                try:
                    program = through.get(seed) or drawing.draw(kind, seed)
                    counts += check(program, most=most, gpu=seed in through)
                except Disagreement as error:
                    wrong.append(str(error))
                except Exception as error:
                    words = "".join(traceback.format_exception(error))
                    wrong.append(f"# {kind} {seed} failed\n{words}")
    return counts, wrong


def asking(programs: Iterable[Program]) -> Iterator[Callable[[], Outcome]]:
    """What asks for all texts of these programs."""
    for program in programs:
        running = Running(program)
        asking = [way for way in ways.on_a_gpu(program) if not way.name.endswith("again")]
        yield from (partial(running, way) for way in asking)


def main() -> None:
    """Check the seeds that are asked for, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--kind", choices=drawing.KINDS, action="append")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--most", type=int, default=0, help="ways of each program; 0 for all")
    parser.add_argument("--gpu", type=int, default=0, metavar="STEP")
    asked = parser.parse_args()
    if asked.gpu:
        on_gpu.stand_in()
        # What touches memory that it must not ends the process.
        faulthandler.enable()
    # Programs come and go; what is imported stays.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    failed = []
    for kind in asked.kind or drawing.KINDS:
        counts = Counter[str]()
        for seed in range(asked.first, asked.last, TOGETHER):
            some = range(seed, min(seed + TOGETHER, asked.last))
            more, wrong = many(kind, some, compiled=asked.compiled,
                               most=asked.most, gpu=asked.gpu)  # fmt: skip
            counts += more
            for one in wrong:
                failed += re.findall(r"^# (\w+ \d+)", one)
                print(one, flush=True)
        print(f"{kind}: {dict(counts)}", flush=True)
    print(f"wrong: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
