"""Random programs, as text: a kernel, a pipeline, steps in time, or a function of numbers.

`draw(kind, seed)` gives a `Program`: a module's text that defines the stencil `program`, its
arguments and its options.  All of it can be printed (`Program.text`), so that a seed which fails
is a file that can be run.  `kernels.py` writes the kernels; this module gives them everything
around: borders with rules, values, slopes and functions; decorators; stages; arrays that lie in
memory in any order, broadcast in any way; and now and then a mistake.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

import kernels
import unlucky

KINDS = ("kernel", "pipeline", "steps", "ufunc")

# A kernel made by a function is indented.
HEAD = re.compile(r"(?m)^( *)def kernel\((.*)\):\n")

IMPORTS = """\
import math
import pickle

import dask
import dask.array as da
import ml_dtypes
import numpy as np
import xarray as xr
from numpy import inf, nan

import ninepoint as npt

START = 0  # of the steps that functions at the border are asked for


def listed(made):
    return list(made) if isinstance(made, tuple | list) else [made]


"""


@dataclass(frozen=True, slots=True)
class Given:
    """An argument: its values, and the expression in `a` that lays them out in memory."""

    values: Any
    lies: str = "a"

    def made(self) -> Any:
        a = self.values.copy() if isinstance(self.values, np.ndarray) else self.values
        return eval(self.lies, {"np": np, "a": a})

    def __str__(self) -> str:
        if not isinstance(self.values, np.ndarray):
            return repr(self.values)
        items, shape = self.values.ravel().tolist(), self.values.shape
        a = f"np.array({items}, {str(self.values.dtype)!r}).reshape({shape})"
        return a if self.lies == "a" else f"(lambda a: {self.lies})({a})"


@dataclass(frozen=True, slots=True)
class Program:
    """A stencil with arguments and options, all of them as text but the arrays.

    `staged` is the same with a stage before each field, and `apart` a text that defines `calls`,
    which makes the calls of a pipeline one by one.  `each` are the scalars of step number `START`.
    Results that are `loose` may differ in the last places from what NumPy would compute; a
    program that is not `defined` has such numbers where it decides, and no definition to compare
    with but calls one by one.
    """

    kind: str
    seed: int
    source: str
    ndim: int
    fields: Mapping[str, Given]
    tables: Mapping[str, Given]
    scalars: Mapping[str, str]
    options: Mapping[str, str]
    positional: tuple[str, ...]
    loose: tuple[bool, ...]
    staged: str = ""
    apart: str = ""
    each: Mapping[str, str] = field(default_factory=dict)
    steps: int = 0
    defined: bool = True
    others: tuple[Mapping[str, Given], ...] = ()

    @property
    def shape(self) -> tuple[int, ...] | None:
        """That to which the fields broadcast."""
        try:
            return np.broadcast_shapes(*(np.shape(one.values) for one in self.fields.values()))
        except ValueError:
            return None

    def text(self) -> str:
        """All that stands before a call."""
        return "\n".join([IMPORTS + self.source, *self._arguments(str), ""])

    def names(self) -> dict[str, Any]:
        """What this text defines; the arrays are laid out, not written."""
        names = kernels.executed(IMPORTS + self.source)
        names["_made"] = made = []

        def held(one: Given) -> str:
            made.append(one.made())
            return f"_made[{len(made) - 1}]"

        # Functions at the border ask these names which step it is.
        exec("\n".join(self._arguments(held)), names)
        return names

    def _arguments(self, text: Callable[[Given], str]) -> list[str]:
        parts = {"fields": self.fields, "tables": self.tables}
        lines = [f"{name} = {_dict(part, text)}" for name, part in parts.items()]
        lines += [f"scalars = {_dict(self.scalars, str)}", f"options = {_dict(self.options, str)}"]
        return [*lines, "named = {**fields, **tables, **scalars}"]


def _dict(values: Mapping[str, Any], text: Callable[[Any], str]) -> str:
    return "{" + ", ".join(f"{name!r}: {text(one)}" for name, one in values.items()) + "}"


def draw(kind: str, seed: int) -> Program:
    """The program of this kind and seed."""
    rng = Random(f"{kind} {seed}")
    made = {"kernel": _kernel, "pipeline": _pipeline, "steps": _steps, "ufunc": _ufunc}[kind]
    return made(rng, seed)


def _case(rng: Random, **options: Any) -> kernels.Case:
    """A kernel all of whose fields are read; some have unlucky names."""
    while True:
        case = kernels.random_kernel(rng, **options)
        read = all(f"{name}[" in case.source for name in case.fields)
        if read or options.get("pointwise"):
            renamed = unlucky.renamed(rng, case) if rng.random() < 0.3 else case
            # The first parameter of a method has such a name, and a stencil is none.
            return case if next(iter(renamed.fields)) in ("self", "cls") else renamed


def _kernel(rng: Random, seed: int) -> Program:
    # In a loop that nobody knows the end of, now and then.
    general, outputs = rng.random() < 0.15, rng.choice([0, 0, 1])
    case = _case(rng, size=rng.randint(1, 4), outputs=outputs, general=general)
    mistake = rng.choice(["none"] * 6 + ["scalar", "option"])
    decorated = _table_names(case) | _scheduled(schedule(rng, 0.4))
    if rng.random() < 0.3:
        decorated["boundary"] = repr(rules(rng, case))
    if rng.random() < 0.1:
        decorated["cval"] = "1"
    if mistake == "none" and rng.random() < 0.2:
        decorated |= _stored(rng, case)
    given = _options(rng, case, mistake)
    core = kernels.random_shape(rng, case.ndim)
    if mistake == "none" and rng.random() < 0.15:
        # Of two mistakes either may be told.
        given = {"boundary": conditions(rng, core, _kinds(case)), "cval": "1"}
    elif mistake == "none" and rng.random() < 0.25:
        name = rng.choice(["every", "every", "upsample"])
        where = decorated if rng.random() < 0.3 else given
        where[name] = repr(rng.choice([2, tuple(rng.randint(1, 4) for _ in core)]))
    shape = (*rng.choice([(), (), (), (1,), (2,), (2, 1), (3,)]), *core)
    scalars = _scalars(rng, case, mistake == "scalar")
    return Program(
        "kernel",
        seed,
        f"{case.source}program = npt.stencil({_named(decorated)})(kernel)\n",
        case.ndim,
        arrays(rng, case, shape),
        tables(rng, case),
        scalars,
        given,
        _positional(case),
        case.approximate,
        staged=_staged(case, decorated),
        defined=_plain(scalars),
        others=(arrays(rng, case, (*core[::-1], *core)), arrays(rng, case, core)),
    )


def _staged(case: kernels.Case, decorated: Mapping[str, str]) -> str:
    """The kernel, whose fields are what a stage made of them that changes nothing."""
    zeros = ", ".join("0" * case.ndim)
    before = [f"def alike(x):\n    return x[{zeros}]\n\n"]
    lines = []
    for k, (name, dtype) in enumerate(case.fields.items()):
        before.append(f"alike_{k} = npt.stencil(dtype={dtype!r})(alike)\n")
        lines.append(f"{name} = alike_{k}({name})")
    source = _inserted(case, lines, None)
    return "".join(before) + source + f"program = npt.stencil({_named(decorated)})(kernel)\n"


def _inserted(case: kernels.Case, lines: list[str], parameters: str | None) -> str:
    """The kernel's text with lines before its own, and perhaps with other parameters."""
    found = HEAD.search(case.source)
    assert found, case.source
    head = f"{found[1]}def kernel({found[2] if parameters is None else parameters}):\n"
    inner = "".join(f"{found[1]}    {line}\n" for line in lines)
    return case.source[: found.start()] + head + inner + case.source[found.end() :]


def _positional(case: kernels.Case) -> tuple[str, ...]:
    """The parameters that can be given by position."""
    found = HEAD.search(case.source)
    assert found, case.source
    before = found[2].partition("*")[0]
    return tuple(one.partition("=")[0].strip() for one in before.split(",") if one.strip())


def _table_names(case: kernels.Case) -> dict[str, str]:
    return {name: repr(value) for name, value in case.options.items()}


def _named(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _kinds(case: kernels.Case) -> set[str]:
    # NumPy has no letter for the floats of other packages.
    return {np.dtype(dtype).kind.replace("V", "f") for dtype in case.fields.values()}


def schedule(rng: Random, often: float = 1.0) -> dict[str, Any]:
    """Choices nobody would make, so that every algorithm is met on small windows."""
    choices = {
        "unrolled": [0, 3, 130], "network": [0, 4, 50], "sorted_columns": [0, 9, 49],
        "direct": [0, 2, 8], "radix": [0, 2, 3, 4], "shared": [-2, 1, 6], "rows": [1, 2, 3, 4],
        "gain": [0.95, 99.0],
    }  # fmt: skip
    chosen = {name: rng.choice(some) for name, some in choices.items()}
    return chosen if rng.random() < often else {}


def _scheduled(chosen: Mapping[str, Any]) -> dict[str, str]:
    return {"schedule": f"npt.Schedule(**{chosen})"} if chosen else {}


def _stored(rng: Random, case: kernels.Case) -> dict[str, str]:
    """What happens where a type does not hold a result; no rounded float becomes an integer."""
    found = {"overflow": repr(rng.choice(["wrap", "saturate"]))}
    if rng.random() < 0.5:
        types = ["float64"] if any(case.approximate) else ["int16", "uint8", "float64"]
        found["dtype"] = repr((rng.choice(types),) * len(case.outputs))
    return found


def rules(rng: Random, case: kernels.Case) -> Any:
    """A border of names; "keep" needs a field for each result."""
    keep = len(case.outputs) <= len(case.fields)
    names = tuple(rule for rule in kernels.RULES if keep or rule != "keep")
    return kernels.random_boundary(rng, case.ndim, rules=names)


def conditions(
    rng: Random, core: tuple[int, ...], kinds: set[str], valid: bool = True, arrays: bool = True
) -> str:
    """A border of values, slopes, mixes and names, for fields of these kinds.

    Each value is a number, or with `arrays` an array along the edge or a function.
    """
    names = [rule for rule in kernels.RULES if rule not in ("wrap", "keep")]
    if not valid:
        names.remove("valid")
    floats = kinds <= {"f", "c"}

    def value(axis: int) -> str:
        def number() -> Any:
            return rng.choice([0, 1, 2, -3, 0.5, 1.25]) if floats else rng.randrange(2)

        way = rng.randrange(4)
        if way == 3 or not arrays:
            return repr(number())
        edge = [n for k, n in enumerate(core) if k != axis]
        values = np.array([number() for _ in range(int(np.prod(edge)))]).reshape(edge)
        text = f"np.array({values.ravel().tolist()}, {values.dtype.str!r}).reshape({edge})"
        if way == 0:
            return text
        if way == 1:
            return f"{text}[:1]" if edge else text
        return f"lambda step, *places: {text}[places] * ((step + START) % 2 == 0)"

    def side(axis: int) -> str:
        way = rng.randrange(6) if floats else rng.randrange(2)
        dx = rng.choice([1.0, 0.5])
        match way:
            case 0:
                return repr(rng.choice(names))
            case 1:
                return f'npt.dirichlet({value(axis)}, at="cell")'
            case 2:
                return f"npt.dirichlet({value(axis)})"
            case 3:
                return f"npt.neumann({value(axis)}, dx={dx})"
            case 4:
                return f"npt.extrapolate({rng.randrange(max(1, min(4, core[axis])))})"
        a, b = rng.choice([0.0, 1.5, 2]), rng.choice([1, 0.25])
        return f"npt.robin({a}, {b}, {value(axis)}, dx={dx})"

    def entry(axis: int) -> str:
        if rng.random() < 0.2:
            return repr(rng.choice(["wrap", "nearest", "constant"]))
        return f"({side(axis)}, {side(axis)})"

    if not arrays and rng.random() < 0.2:
        return f"npt.dirichlet({value(0)})"
    return "(" + "".join(f"{entry(axis)}, " for axis in range(len(core))) + ")"


def _options(rng: Random, case: kernels.Case, mistake: str) -> dict[str, str]:
    """Options of a call; one may be a mistake, and then few are given: either may be told."""
    found: dict[str, Any] = {}
    if mistake == "none" or rng.random() < 0.7:
        found["boundary"] = rules(rng, case)
    if mistake == "option":
        found |= rng.choice(_wrong(case))
    elif mistake == "none":
        if rng.random() < 0.5:
            found["cval"] = rng.choice([0, 1, -1, 7, 0.5, 300, True, np.float32(2.5), -0.0, 2**33])
        if rng.random() < 0.2:
            types = ["float32", "int64", "uint8", "complex128", "bool", "int16"]
            kept = ["float64", "complex128"] if any(case.approximate) else types
            found["dtype"] = rng.choice(kept)
        if rng.random() < 0.2:
            found["overflow"] = rng.choice(["wrap", "saturate"])
    return {name: repr(value) for name, value in found.items()}


def _wrong(case: kernels.Case) -> list[dict[str, Any]]:
    return [
        {"boundary": "reflekt"}, {"boundary": ("wrap",) * (case.ndim + 1)}, {"boundary": 5},
        {"boundary": (("wrap", "fill"),) * case.ndim}, {"boundary": ()}, {"boundary": "keep"},
        {"cval": "a"}, {"cval": [0, 0]}, {"cval": 1j}, {"cval": float("nan")},
        {"cval": 2**70}, {"dtype": "object"}, {"dtype": "nothing"}, {"dtype": ("int8",) * 5},
        {"dtype": "int8"}, {"overflow": "clip"}, {"overflow": 5}, {"every": 0}, {"every": 1.5},
        {"every": (2,) * (case.ndim + 1)}, {"every": ()}, {"upsample": 0}, {"upsample": "2"},
        {"every": 2, "upsample": 2}, {"threads": 0}, {"threads": "two"}, {"threads": 1.5},
        {"threads": True}, {"axes": 1.5}, {"axes": (0,) * (case.ndim + 1)}, {"dims": "t"},
        {"out": 5}, {"out": [None]},
    ]  # fmt: skip


def _scalars(rng: Random, case: kernels.Case, wrong: bool) -> dict[str, str]:
    """Numbers of several types; one of them is none, if any shall be wrong."""
    found: dict[str, Any] = dict(case.scalars)
    for name, value in case.scalars.items():
        if isinstance(value, bool):
            found[name] = rng.choice([value, value, np.bool_(value)])
        elif isinstance(value, int):
            found[name] = rng.choice([value, value, value, np.int64(value), np.uint8(7)])
        else:
            found[name] = rng.choice([value] * 8 + [np.float32(value), np.float64(value)])
    if wrong and found and rng.random() < 0.7:
        name = rng.choice(list(found))
        found[name] = rng.choice([None, "a", 2**70, np.datetime64("2020"), [[1, "b"]]])
        if rng.random() < 0.3:
            del found[name]
    elif wrong:
        found["no_such_name"] = 1
    return {name: repr(value) for name, value in found.items()}


def _plain(scalars: Mapping[str, str]) -> bool:
    """Whether no float has a type of its own: the sides of a choice would not be of one type."""
    return not any("float" in text for text in scalars.values())


def _core(rng: Random, ndim: int, most: tuple[int, int, int]) -> tuple[int, ...]:
    """The lengths of axes, up to some number; now and then of larger ones."""
    longest = most[ndim - 1] * (2 if rng.random() < 0.05 else 1)
    return tuple(rng.randint(1, longest) for _ in range(ndim))


def arrays(
    rng: Random, case: kernels.Case, shape: tuple[int, ...], whole: int = 0, least: int = 0
) -> dict[str, Given]:
    """The fields: of any order, stride and byte order, and broadcast in any way.

    Any of them may be shorter, the first as well, but for the first `whole`; all have so many
    axes at `least`.
    """
    found = {}
    for k, (name, dtype) in enumerate(case.fields.items()):
        own = shape
        if k >= whole and rng.random() < 0.25:
            own = tuple(1 if rng.random() < 0.3 else n for n in shape)
            own = own[min(rng.choice([0, 0, 1]), len(shape) - least) :]
        values = kernels.values(rng, dtype, own, case.averages)
        found[name] = Given(values, kernels.lies(rng, values))
    return found


def tables(rng: Random, case: kernels.Case) -> dict[str, Given]:
    """The small arrays of coefficients."""
    return {
        name: Given(kernels.values(rng, dtype, own, True))
        for name, (dtype, own) in case.standard.items()
    }


@dataclass
class _Stages:
    """The stages before a kernel, as they are drawn: their stencils, and the calls of them."""

    rng: Random
    ndim: int
    taken: set[str]
    loose: bool
    keeps: bool = False
    small: bool = False
    boundary: str = ""
    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    stages: list[str] = field(default_factory=list)
    open: dict[str, str] = field(default_factory=dict)
    averages: bool = False

    def value(self, dtype: str, depth: int) -> str:
        """The name of an array of this type: one that is given, or what a stage makes."""
        rng = self.rng
        known = [name for name, one in self.types.items() if one == dtype]
        if known and rng.random() < 0.4:
            self.read.add(name := rng.choice(known))
            return name
        if depth == 0 or dtype.startswith("c") or rng.random() < 0.2:
            name = self.name(f"given_{len(self.inputs)}", stage=False)
            self.inputs[name] = self.types[name] = dtype
            self.read.add(name)
            return name
        return self.stage(dtype, depth)

    def stage(self, dtype: str, depth: int) -> str:
        rng, number = self.rng, len(self.before)
        while True:
            numbers = rng.choice(["int", "float", "mixed"])
            case = _case(rng, numbers=numbers, ndim=self.ndim, outputs=1, size=rng.randint(1, 3),
                         approximate=self.loose)  # fmt: skip
            if not case.outputs[0].startswith("c"):
                break
        self.averages = self.averages or case.averages
        keep = self.keeps and np.can_cast(next(iter(case.fields.values())), dtype)
        names = tuple(r for r in kernels.RULES if r != "valid" and (keep or r != "keep"))
        border = self.boundary or repr(kernels.random_boundary(rng, self.ndim, rules=names))
        if not self.boundary and rng.random() < 0.1:
            border = conditions(rng, (1,) * self.ndim, _kinds(case), valid=False, arrays=False)
        decorated = _table_names(case) | _scheduled(schedule(rng, 0.4)) | {"boundary": border}
        decorated |= {"dtype": repr(dtype), "overflow": repr(rng.choice(["wrap", "saturate"]))}
        if rng.random() < 0.3 and not self.boundary:
            decorated["cval"] = "1"
        if self.small and rng.random() < 0.5:
            decorated |= rng.choice([{"boundary": "'valid'"}, {"every": "2"}, {"upsample": "2"}])
        # Some options stand at the call.
        called = {
            name: decorated.pop(name)
            for name in ("boundary", "cval", "dtype", "overflow", "every", "upsample")
            if name in decorated and rng.random() < 0.2 and "npt." not in decorated[name]
        }
        stencil = f"stencil_{number}"
        self.before.append(f"{case.source}{stencil} = npt.stencil({_named(decorated)})(kernel)\n")
        words = {n: self.value(d, depth - 1) for n, d in case.fields.items()}
        others = {n: repr(v) for n, v in case.scalars.items()}
        others |= {n: str(one) for n, one in tables(rng, case).items()}
        for name, one in others.items():
            words[name] = f"{name}_of_{number}"
            if self.keeps and name not in case.standard and rng.random() < 0.5:
                self.open[words[name]] = one
            else:
                self.before[number] += f"{words[name]} = {one}\n"
        made = self.name(f"stage_{number}", stage=True)
        self.lines.append(f"{made} = {stencil}({_named(words | called)})")
        self.types[made] = dtype
        self.stages.append(made)
        return made

    def name(self, plain: str, *, stage: bool) -> str:
        """A name that means nothing else, an unlucky one as likely as not."""
        found = unlucky.drawn(self.rng, self.taken, plain, stage)
        self.taken.add(found)
        return found


@dataclass(frozen=True)
class _Piped:
    """A kernel after stages: its texts, and what is given."""

    source: str
    apart: str
    fields: dict[str, str]
    scalars: dict[str, str]
    positional: tuple[str, ...]


def _piped(
    rng: Random, stages: _Stages, case: kernels.Case, depth: int, decorated: Mapping[str, str]
) -> _Piped | None:
    """The kernel with stages before it; None where there are none, or an input is not read."""
    of = {name: stages.value(dtype, depth) for name, dtype in case.fields.items()}
    if not stages.stages or not set(stages.inputs) <= stages.read:
        return None
    found = HEAD.search(case.source)
    assert found, case.source
    rest = [one for one in found[2].split(", ") if one.partition("=")[0] not in case.fields]
    given = [*stages.inputs, *stages.open]
    hows = [(name, rng.choice(["rows", "rows", "inline", "whole"])) for name in stages.stages]
    chosen = {"stages": tuple(hows), "tile": rng.choice([0, 0, 3, 7])}
    # The last call by itself adds floats in the same order.
    own = schedule(rng, 0.4)
    kept = chosen if rng.random() < 0.7 else {}
    lines = [*stages.lines, *(f"{name} = {array}" for name, array in of.items() if name != array)]
    piped = _inserted(case, lines, ", ".join([*given, *rest]))
    whole = {**decorated, **_scheduled({**own, **kept})}
    alone = {**decorated, **_scheduled(own)}
    ended = f"program = npt.stencil({_named(whole)})(kernel)\n"
    fields = ", ".join(f"{name!r}: {array}" for name, array in of.items())
    inner = "".join(f"    {line}\n" for line in stages.lines)
    apart = (
        f"{case.source}plain = npt.stencil({_named(alone)})(kernel)\n\n\n"
        f"def calls({', '.join(given)}, **others):\n{inner}"
        f"    return plain(**{{{fields}}}, **others)\n"
    )
    scalars = {name: repr(value) for name, value in case.scalars.items()} | stages.open
    bare = [one.partition("=")[0] for one in ", ".join(rest).partition("*")[0].split(", ") if one]
    positional = (*given, *bare)
    before = "\n".join(stages.before)
    return _Piped(f"{before}\n{piped}{ended}", apart, dict(stages.inputs), scalars, positional)


def _pipeline(rng: Random, seed: int) -> Program:
    while True:
        ndim, small = rng.choice([1, 2, 2, 2, 3]), rng.random() < 0.1
        loose = not small and rng.random() < 0.25
        case = _case(rng, numbers=rng.choice(["int", "float", "mixed"]), ndim=ndim,
                     outputs=rng.choice([1, 1, 2]), size=rng.randint(1, 3))  # fmt: skip
        stages = _Stages(rng, ndim, unlucky.words(case.source), loose, small=small)
        if rng.random() < 0.4:
            names = tuple(rule for rule in kernels.RULES if rule not in ("valid", "keep"))
            stages.boundary = repr(kernels.random_boundary(rng, ndim, rules=names))
        decorated = _table_names(case)
        piped = _piped(rng, stages, case, rng.choice([1, 1, 1, 2]), decorated)
        if piped is not None:
            break
    options = {"boundary": stages.boundary or repr(rules(rng, case))}
    if "keep" in options["boundary"] and (loose or len(case.outputs) > len(piped.fields)):
        options["boundary"] = "'fill'"
    core = _core(rng, ndim, (8, 6, 3))
    if rng.random() < 0.15 and not small:
        options["boundary"] = conditions(rng, core, _kinds(case), valid=False)
    options["cval"] = repr(rng.choice([0, 1]))
    if rng.random() < 0.1:
        options["every"] = "2"
    shape = (*rng.choice([(), (), (2,), (2, 1)]), *core)
    given = _inputs(case, piped.fields, stages.averages)
    return Program(
        "pipeline",
        seed,
        piped.source,
        ndim,
        # A call alone needs all its axes, which one with others may lack.
        arrays(rng, given, shape, least=given.ndim),
        tables(rng, case),
        piped.scalars,
        options,
        piped.positional,
        case.approximate,
        apart="" if "keep" in options["boundary"] or stages.small else piped.apart,
        defined=not loose,
        others=(arrays(rng, given, core[::-1]),),
    )


def _inputs(case: kernels.Case, inputs: dict[str, str], averages: bool) -> kernels.Case:
    """The kernel with these fields, to draw arrays for."""
    return replace(case, fields=inputs, averages=averages or case.averages)


def _steps(rng: Random, seed: int) -> Program:
    staged = rng.random() < 0.5
    while True:
        ndim, loose = rng.choice([1, 2, 2, 2, 3]), rng.random() < 0.25
        case = _case(rng, numbers=rng.choice(["int", "float", "mixed"]), ndim=ndim,
                     outputs=rng.choice([1, 1, 2]), approximate=loose,
                     size=rng.randint(1, 3))  # fmt: skip
        count = len(case.outputs)
        if count > len(case.fields):
            continue
        kinds = tuple(case.fields.values())[:count]
        if staged and any(dtype.startswith("c") for dtype in case.fields.values()):
            continue
        decorated = _table_names(case) | {"dtype": repr(kinds)}
        decorated["overflow"] = repr(rng.choice(["wrap", "saturate"]))
        chained = {"steps": rng.choice([0, 2, 3, 4])}
        if not staged:
            program = _named(decorated | _scheduled(schedule(rng, 0.4) | chained))
            piped = _Piped(f"{case.source}program = npt.stencil({program})(kernel)\n", "",
                           case.fields, {n: repr(v) for n, v in case.scalars.items()},
                           _positional(case))  # fmt: skip
            averages = case.averages
            break
        states = {f"state_{k}": dtype for k, dtype in enumerate(kinds)}
        stages = _Stages(rng, ndim, unlucky.words(case.source) | set(states), loose, keeps=True)
        stages.inputs, stages.types = dict(states), dict(states)
        made = _piped(rng, stages, case, rng.choice([1, 1, 2]), decorated)
        if made is not None:
            piped, averages = made, stages.averages
            break
    names = tuple(rule for rule in kernels.RULES if rule != "valid")
    options = {"boundary": repr(kernels.random_boundary(rng, ndim, rules=names))}
    core = _core(rng, ndim, (14, 9, 5))
    if rng.random() < 0.2:
        options["boundary"] = conditions(rng, core, _kinds(case), valid=False)
    options["cval"] = repr(rng.choice([0, 1]))
    shape = (*rng.choice([(), (), (2,), (2, 1)]), *core)
    steps, scalars, each = rng.randint(0, 6), dict(piped.scalars), dict(piped.scalars)
    for name, text in piped.scalars.items():
        if rng.random() < 0.3 and isinstance(value := ast.literal_eval(text), int | float):
            other = value if isinstance(value, bool) else type(value)(value / 2)
            # An empty list has no type: a whole number stands for it.
            if rng.random() < 0.5 or not steps:
                scalars[name] = f"lambda step: [{value}, {value}, {other}][step % 3]"
                each[name] = f"[{value}, {value}, {other}][START % 3]"
            else:
                values = [rng.choice([value, other]) for _ in range(steps)]
                scalars[name], each[name] = repr(values), f"{values}[START]"
    given = _inputs(case, dict(piped.fields), averages)
    return Program(
        "steps", seed, piped.source, ndim, arrays(rng, given, shape, whole=count),
        tables(rng, case), scalars, options, piped.positional, (False,) * count, each=each,
        steps=steps, defined=not loose, others=(arrays(rng, given, core[::-1], whole=count),),
    )  # fmt: skip


def _ufunc(rng: Random, seed: int) -> Program:
    general = rng.random() < 0.15
    case = _case(rng, ndim=1, pointwise=True, size=rng.randint(1, 4), general=general)
    decorated = _scheduled(schedule(rng, 0.3))
    if rng.random() < 0.2:
        decorated |= _stored(rng, case)
    sizes = [0, 1, 2, 3, 4, 5] if rng.random() < 0.05 else [1, 2, 3, 4, 5]

    def drawn() -> dict[str, Given]:
        shape = tuple(rng.choice(sizes) for _ in range(rng.choice([0, 1, 2, 2, 3])))
        found = {}
        for name, dtype in case.fields.items():
            own = shape
            if rng.random() < 0.4:
                own = tuple(1 if rng.random() < 0.4 else n for n in shape)
                own = own[rng.randint(0, len(shape)) :]
            values = kernels.values(rng, dtype, own or (1,), case.averages).reshape(own)
            if not own and rng.random() < 0.5:
                # A number of Python's that int64 does not hold means something beside others.
                plain = rng.random() < 0.5 and dtype != "uint64"
                found[name] = Given(values.item() if plain else values[()])
            else:
                found[name] = Given(values, kernels.lies(rng, values))
        return found

    options: dict[str, str] = {}
    if rng.random() < 0.2:
        options |= _stored(rng, case)
    # Of two mistakes either may be told.
    mistake = rng.choice(["none"] * 8 + ["scalar", "option"])
    if mistake == "option":
        options |= {n: repr(v) for n, v in rng.choice(_wrong(case)).items()}
    scalars = _scalars(rng, case, mistake == "scalar")
    return Program(
        "ufunc",
        seed,
        f"{case.source}program = npt.ufunc({_named(decorated)})(kernel)\n",
        0,
        drawn(),
        tables(rng, case),
        scalars,
        options,
        _positional(case),
        case.approximate,
        defined=_plain(scalars),
        others=(drawn(),),
    )
