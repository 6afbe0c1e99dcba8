"""Random kernels, as Python source: everything a kernel may say, except stages.

`random_kernel(rng)` writes a program, `random_arrays(rng, case)` fields for it, and
`random_boundary(rng, ndim)` a border rule; `rng` is a `random.Random`, and the same seed
gives the same text for ever.  Programs are built from typed expressions, so every one of
them is valid and nothing is filtered away:

* the two sides of a choice have one type, and what is chosen is never a bare literal;
* what floats may compute differently in another order (`approximate`) reaches neither a
  comparison nor an integer, so it stays within a small tolerance.
"""

from __future__ import annotations

import hashlib
import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import ml_dtypes  # noqa: F401  NumPy then knows bfloat16
import numpy as np

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
FLOATS = ("float32", "float64", "float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
# the type in which the elements of a field compute
TAGS = {"bool": "bool", "uint64": "uint", "float32": "f32", "float64": "f64"}
TAGS |= {"float16": "f32", "bfloat16": "f32"}
TAGS |= {"complex64": "c64", "complex128": "c128"}
CASTS = {"f32": "np.float32", "f64": "np.float64", "c64": "np.complex64", "c128": "np.complex128"}
CASTS |= {"int": "int", "bool": "bool", "uint": "np.uint64", "weak": "float"}
_AVERAGES = ("mean", "median", "std", "var", "percentile", "entropy", "trimmed_mean")
_EXACT = ("min", "max", "ptp", "argmin", "argmax", "mode")
RULES = ("fill", "keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap")


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, what it takes, and what kind of numbers come out."""

    source: str
    function: Callable[..., Any]
    ndim: int
    fields: dict[str, str]  # name -> dtype
    standard: dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype and shape
    scalars: dict[str, Any]  # values to pass; parameters left out take their default
    outputs: tuple[str, ...]  # bool int uint weak f32 f64 c64 c128
    approximate: tuple[bool, ...]  # per output: floats that may differ in the last places
    averages: bool  # takes the mean or the like of integers: keep them well below 2**53
    options: dict[str, Any] = field(default_factory=dict)  # for @stencil

    def __str__(self) -> str:
        return f"{self.source}# {self.fields} {self.standard} {self.scalars}"


@dataclass(frozen=True, slots=True)
class Text:
    """An expression: its text, its type, and what one must not do with it."""

    text: str
    tag: str
    approximate: bool = False
    literal: bool = False


def random_kernel(
    rng: Random,
    *,
    numbers: str = "",
    ndim: int = 0,
    njit: bool = False,
    approximate: bool = True,
    outputs: int = 0,
    size: int = 0,
    general: bool = False,
    pointwise: bool = False,
) -> Case:
    """A random program.

    `numbers` is "int", "float", "complex" or "mixed"; `ndim` 1 to 3; `njit` allows helpers
    decorated with `numba.njit`; without `approximate` every result is exact to the bit.
    A `general` one stands in a `while` that runs once, so that it takes the general path.  A
    `pointwise` one is a function of numbers, for `npt.ufunc`.  What is not given is drawn.
    """
    numbers = numbers or rng.choice(["int", "int", "float", "float", "mixed", "complex"])
    writer = _Writer(rng, numbers, ndim or rng.choice([1, 2, 2, 2, 3]), njit, approximate)
    writer.general = general
    writer.pointwise = pointwise
    return writer.case(outputs or rng.choice([1, 1, 1, 2, 3]), size or rng.randint(1, 5))


def compiled(
    source: str, name: str = "kernel", names: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Run `source`, known to `linecache`, beside `names`, and give the function `name` in it."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    filename = f"<random kernel {digest}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": f"random_kernel_{digest}", **(names or {})}
    exec(compile(source, filename, "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def random_shape(rng: Random, ndim: int) -> tuple[int, ...]:
    """Small core shapes, some smaller than a footprint, of size 1 and of size 0."""
    sizes = [0, 1, 1, 2, 3, 4, 5, 6, 7, 8] if ndim < 3 else [0, 1, 2, 3, 4, 4, 5]
    empty = rng.random() < 0.05
    return tuple(rng.choice(sizes if empty else sizes[1:]) for _ in range(ndim))


def random_boundary(rng: Random, ndim: int, *, rules: tuple[str, ...] = RULES) -> Any:
    """One rule, one for each axis, or one for each side."""
    if rng.random() < 0.5:
        return rng.choice(rules)

    def entry() -> Any:
        if rng.random() < 0.5:
            return rng.choice(rules)
        one_sided = [rule for rule in rules if rule != "wrap"] or ["wrap"]
        return (rng.choice(one_sided), rng.choice(one_sided))

    return tuple(entry() for _ in range(ndim))


def random_arrays(
    rng: Random, case: Case, shape: tuple[int, ...] | None = None
) -> dict[str, np.ndarray]:
    """The fields and small arrays of `case`: any order, stride, byte order; some broadcast."""
    if shape is None:
        stack = rng.choice([(), (), (), (1,), (2,), (2, 1)])
        shape = (*stack, *random_shape(rng, case.ndim))
    arrays = {}
    for position, (name, dtype) in enumerate(case.fields.items()):
        own = shape
        if position and rng.random() < 0.2:  # the first field has the whole shape
            own = tuple(1 if rng.random() < 0.3 else n for n in shape)[
                rng.choice([0, 0, 1 % len(shape)]) :
            ]
        arrays[name] = laid_out(rng, values(rng, dtype, own, case.averages))
    for name, (dtype, own) in case.standard.items():
        arrays[name] = values(rng, dtype, own, True)
    return arrays


def values(rng: Random, dtype: str, shape: tuple[int, ...], small: bool) -> np.ndarray:
    """Numbers of a type; integers reach its ends, unless they are to be small."""
    generator = np.random.default_rng(rng.getrandbits(32))
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        if rng.random() < (0.0 if small and kind.itemsize == 8 else 0.2):
            ends = [info.min, info.min + 1, 0, 1, 2, 63, 64, info.max - 1, info.max]
            ends += [-1, -2] if kind.kind == "i" else [info.max // 2, info.max // 2 + 1]
            return np.asarray(generator.choice(np.array(ends, kind), shape))
        if rng.random() < (0.0 if small and kind.itemsize == 8 else 0.4):
            return generator.integers(info.min, info.max, shape, kind, endpoint=True)
        least, greatest = max(info.min, -100), min(info.max, 100)
        return generator.integers(least, greatest, shape, kind, endpoint=True)
    values = np.asarray(generator.integers(-64, 65, shape) / 8)
    values = values + np.asarray(generator.choice([0, 1 / 3], shape))
    values = np.asarray(values)
    if rng.random() < 0.15:
        values[generator.random(shape) < 0.2] = np.nan
    if kind.kind == "c":
        return (values + 1j * generator.integers(-9, 10, shape) / 4).astype(kind)
    return values.astype(kind)


def laid_out(rng: Random, values: np.ndarray) -> np.ndarray:
    """The same values in another order, with gaps or backwards, sometimes read-only."""
    way = rng.randrange(8)
    if way == 1:
        values = np.asfortranarray(values)
    elif way == 2:
        values = np.flip(np.flip(values).copy())
    elif way == 3:
        wide = np.zeros([2 * n + 1 for n in values.shape], values.dtype)
        part = wide[tuple(slice(1, None, 2) for _ in values.shape)]
        part[...] = values
        values = part
    elif way == 4:
        values = values.astype(values.dtype.newbyteorder())
    elif way == 5:
        values = values.copy()
        values.flags.writeable = False
    return values


class _Writer:
    """Writes one program; the state is what has been written so far."""

    def __init__(
        self, rng: Random, numbers: str, ndim: int, njit: bool, approximate: bool
    ) -> None:
        self.rng, self.numbers, self.ndim = rng, numbers, ndim
        self.njit, self.loose = njit, approximate
        self.globals: list[str] = []
        self.closure: list[str] = []
        self.body: list[str] = []
        self.locals: dict[str, Text] = {}
        self.loops: list[tuple[str, int, int]] = []  # variable, least, greatest value
        self.count = 0
        self.averages = False
        self.general = False
        self.pointwise = False
        kinds = {"int": INTEGERS, "float": FLOATS, "complex": COMPLEX}
        kinds["mixed"] = INTEGERS + FLOATS
        chosen = [rng.choice(kinds[numbers]) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
        self.fields = dict(zip("xyz", chosen, strict=False))
        self.standard: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.parameters: dict[str, tuple[Any, Text]] = {}
        self.used: set[str] = set()
        self.mentioned: set[str] = set()  # so that few locals are written in vain
        # most footprints lie around the point, some to one side, some far off
        way = rng.random()
        reach = (
            (-2, 2) if way < 0.6 else (0, 2) if way < 0.75 else (-3, -1) if way < 0.9 else (1, 4)
        )
        self.reach = [reach if rng.random() < 0.8 else (-1, 1) for _ in range(ndim)]

    # The program.

    def case(self, outputs: int, size: int) -> Case:
        rng = self.rng
        if rng.random() < 0.4:
            self.scalar("gain", rng.choice([2, -3, 5]))
        if self.numbers != "int" and rng.random() < 0.4:
            self.scalar("rate", rng.choice([0.5, 1.25, -2.0]))
        if rng.random() < 0.15:
            self.parameters["flag"] = (rng.random() < 0.5, Text("flag", "bool"))
        if rng.random() < 0.2:
            dtype = "int64" if self.numbers == "int" else rng.choice(["float64", "float32"])
            self.standard["w"] = (dtype, (3,) * rng.choice([1, self.ndim]))
        tags = tuple(self.output_tag() for _ in range(outputs))
        for _ in range(size):
            self.statement()
        approximate = [False] * outputs
        if rng.random() < 0.2:
            condition = self.condition(1)
            self.line(f"if {condition.text}:")
            self.line("    return " + self.returned(tags, approximate))
        self.line("return " + self.returned(tags, approximate))
        missing = [name for name in self.fields if name not in self.used]
        for name in missing:
            del self.fields[name]
        if not self.fields:
            self.fields = {"x": rng.choice(INTEGERS if self.numbers == "int" else FLOATS)}
            here = "" if self.pointwise else f"[{', '.join('0' * self.ndim)}]"
            self.body = [f"return x{here}"]
            tags = (TAGS.get(self.fields["x"], "int"),)
            approximate = [False]
            self.standard, self.parameters = {}, {}
        text, given = self.text()
        return Case(
            source=text,
            function=compiled(text),
            ndim=self.ndim,
            fields=self.fields,
            standard=self.standard,
            scalars=given,
            outputs=tags,
            approximate=tuple(approximate),
            averages=self.averages,
            options={"standard_indexing": tuple(self.standard)} if self.standard else {},
        )

    def text(self) -> tuple[str, dict[str, Any]]:
        rng, given, bare, named = self.rng, {}, [], []
        for name, (value, _) in self.parameters.items():
            if rng.random() < 0.5:
                named.append(f"{name}={value!r}")
                if rng.random() < 0.5:
                    given[name] = type(value)(value + 1) if name != "flag" else not value
            else:
                bare.append(name)
                given[name] = value
        bare += self.standard if self.pointwise else []
        standard = () if self.pointwise else self.standard
        star = ["*"] if bare else []
        header = ", ".join([*self.fields, *standard, *star, *bare, *named])
        body = (
            ["while True:", *("    " + line for line in self.body)] if self.general else self.body
        )
        kernel = [f"def kernel({header}):", *("    " + line for line in body)]
        imports = ["import math", "import numpy as np", "import ninepoint as npt"]
        if any("numba" in line for line in self.globals):
            imports.append("import numba")
        if self.closure:
            inner = ["def make():", *("    " + line for line in (*self.closure, *kernel))]
            kernel = [*inner, "    return kernel", "", "kernel = make()"]
        return "\n".join([*imports, "", *self.globals, "", *kernel]) + "\n", given

    def returned(self, tags: tuple[str, ...], approximate: list[bool]) -> str:
        results = []
        for k, tag in enumerate(tags):
            value = self.expression(self.rng.randint(1, 3))
            for _ in range(2):
                if any(name not in self.mentioned for name in self.locals):
                    value = self.binary(self.rng.choice("+-"), value, self.leaf())
            result = self.coerced(value, tag)
            approximate[k] = approximate[k] or result.approximate
            results.append(result.text)
        return ", ".join(results)

    def output_tag(self) -> str:
        own = [TAGS.get(dtype, "int") for dtype in self.fields.values()]
        if self.numbers == "int":
            return self.rng.choice([*own, "int", "int", "f64"])
        if self.numbers == "complex":
            return self.rng.choice([*own, "c128"])
        return self.rng.choice([*own, "f64"])

    def line(self, text: str) -> None:
        self.body.append(text)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def scalar(self, name: str, value: Any) -> None:
        self.parameters[name] = (value, Text(name, "int" if isinstance(value, int) else "weak"))

    def outside(self, value: str) -> str:
        """A constant in the module, or around the kernel."""
        name = self.fresh("K")
        (self.closure if self.rng.random() < 0.4 else self.globals).append(f"{name} = {value}")
        return name

    # Statements.

    def statement(self) -> None:
        ways = [self.assign, self.assign, self.augment, self.unpack, self.branch, self.loop]
        self.rng.choice(ways)()

    def assign(self) -> None:
        name = self.fresh("t")
        value = self.chosen(self.expression(2))
        self.line(f"{name} = {value.text}")
        self.locals[name] = Text(name, value.tag, value.approximate)

    def augment(self) -> None:
        if not self.locals:
            return self.assign()
        name, held = self.rng.choice(sorted(self.locals.items()))
        if held.tag == "bool":
            return self.assign()
        value = self.coerced(self.expression(1), held.tag)
        symbol = self.rng.choice("+-*")
        self.line(f"{name} {symbol}= {value.text}")
        tag = _made(symbol, held, value)
        self.locals[name] = Text(name, tag, held.approximate or value.approximate)
        return None

    def unpack(self) -> None:
        first, second = self.fresh("t"), self.fresh("t")
        tag = self.output_tag()
        a, b = (self.coerced(self.expression(1), tag) for _ in range(2))
        approximate = a.approximate or b.approximate
        self.line(f"{first}, {second} = {a.text}, {b.text}")
        if self.rng.random() < 0.4:
            self.line(f"{first}, {second} = {second}, {first}")
        for name in (first, second):
            self.locals[name] = Text(name, tag, approximate)

    def branch(self) -> None:
        name, tag, approximate = self.fresh("t"), self.output_tag(), False
        before = self.rng.random() < 0.4
        if before:
            value = self.typed(self.expression(1), tag)
            approximate = value.approximate
            self.line(f"{name} = {value.text}")
        words = ["if"] + ["elif"] * self.rng.choice([0, 0, 1])
        for word in words:
            condition = self.condition(1)
            value = self.typed(self.expression(2), tag)
            approximate = approximate or value.approximate
            self.line(f"{word} {condition.text}:")
            self.line(f"    {name} = {value.text}")
        if not before or self.rng.random() < 0.5:
            value = self.typed(self.expression(1), tag)
            approximate = approximate or value.approximate
            self.line("else:")
            self.line(f"    {name} = {value.text}")
        self.locals[name] = Text(name, tag, approximate)

    def loop(self) -> None:
        rng = self.rng
        name, tag = self.fresh("s"), self.output_tag()
        if tag == "bool":
            tag = "int"
        zero = "0" if self.numbers == "int" and tag == "int" else f"{CASTS[tag]}(0)"
        self.line(f"{name} = {zero}")
        depth = rng.choice([1, 1, min(2, self.ndim)])
        indent = ""
        for axis in range(depth):
            variable, (lo, hi) = "ijk"[axis], self.reach[axis]
            lo = max(lo, hi - 2)
            ways = [f"range({lo}, {hi + 1})", repr(tuple(range(lo, hi + 1)))]
            ways += [f"range({hi}, {lo - 1}, -1)"]
            self.line(f"{indent}for {variable} in {rng.choice(ways)}:")
            self.loops.append((variable, lo, hi))
            indent += "    "
        term = self.coerced(self.product(self.read()), tag)
        # A known number of uint64 is a literal, which only the branch would make a uint64.
        if rng.random() < 0.3 and tag != "uint":
            self.line(f"{indent}if {self.read_condition()}:")
            indent += "    "
        self.line(f"{indent}{name} += {term.text}")
        self.loops.clear()
        self.locals[name] = Text(name, tag, term.approximate)

    def product(self, term: Text) -> Text:
        """The term of a loop, weighted by something that depends on the loop."""
        if term.tag == "uint":
            # With a weight it is a uint64 in one turn, and an int64 in the next.
            term = Text(f"int({term.text})", "int")
        variable, lo, hi = self.rng.choice(self.loops)
        way = self.rng.random()
        if way < 0.3:
            weights = tuple(self.rng.randint(-3, 3) for _ in range(hi - lo + 1))
            name = self.outside(repr(weights))
            return self.binary(
                "*", term, Text(f"{name}[{_shifted(variable, -lo)}]", "int", literal=True)
            )
        if way < 0.5:
            return self.binary("*", term, Text(f"({variable} + 5)", "int", literal=True))
        if way < 0.7 and self.standard and hi - lo <= 2:
            dtype, shape = self.standard["w"]
            index = ", ".join([_shifted(variable, -lo), *("1" * (len(shape) - 1))])
            return self.binary("*", term, Text(f"w[{index}]", TAGS.get(dtype, "int")))
        return term

    def read_condition(self) -> str:
        read = self.read()
        if read.tag in ("c64", "c128"):
            return f"{read.text} != 1"
        return f"{read.text} > {self.rng.randint(0, 3)}"

    # Expressions.

    def expression(self, depth: int) -> Text:
        rng = self.rng
        if depth <= 0:
            return self.leaf()
        ways: list[Callable[[int], Text]] = [self.arithmetic] * 5
        ways += [self.choice, self.function, self.function, self.window, self.window, self.leaf_at]
        if self.numbers != "complex":
            ways += [self.extreme, self.cast, self.helper]
        if self.numbers in ("int", "mixed"):
            ways += [self.bits, self.bits, self.counted]
        return rng.choice(ways)(depth)

    def leaf_at(self, depth: int) -> Text:
        return self.leaf()

    def leaf(self) -> Text:
        rng = self.rng
        known = [text for text in self.locals.values() if text.tag != "bool"]
        known += [text for _, text in self.parameters.values() if text.tag != "bool"]
        waiting = [text for text in known if text.text not in self.mentioned]
        if known and rng.random() < (0.6 if waiting else 0.25):
            found = rng.choice(waiting or known)
            self.mentioned.add(found.text)
            return found
        if self.standard and rng.random() < 0.2:
            dtype, shape = self.standard["w"]
            index = ", ".join(str(rng.randrange(3)) for _ in shape)
            return Text(f"w[{index}]", TAGS.get(dtype, "int"))
        if rng.random() < 0.04:
            return self.length()
        if rng.random() < 0.05:
            return self.position()
        return self.read()

    def length(self) -> Text:
        """How large the whole array is."""
        if self.pointwise:
            return self.read()
        name, axis = self.field()[0], self.rng.randint(-self.ndim, self.ndim - 1)
        ways = [f"len({name})", f"{name}.shape[{axis}]", f"np.shape({name})[{axis}]",
                f"{name}.size", f"np.size({name})", f"({name}.ndim + len({name}))"]  # fmt: skip
        return self.plain_number(self.rng.choice(ways))

    def plain_number(self, text: str) -> Text:
        """A number of Python's; beside floats one of a type of its own."""
        return Text(text, "int") if self.numbers == "int" else Text(f"np.float64({text})", "f64")

    def position(self) -> Text:
        """Where in the whole array the point is."""
        if self.pointwise:
            return self.read()
        found = f"npt.index({self.field()[0]})"
        if self.ndim > 1:
            found += f"[{self.rng.randint(-self.ndim, self.ndim - 1)}]"
        ways = [found, found, f"({found} % {self.rng.choice([2, 3])})"]
        return self.plain_number(self.rng.choice(ways))

    def literal(self) -> Text:
        rng = self.rng
        if self.numbers == "int" or rng.random() < 0.5:
            value = rng.choice([1, 2, 3, 5, 7, 9, -1, -4])
            if rng.random() < 0.08:
                value = rng.choice([2**31, 2**32, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), -1])
            text = self.outside(str(value)) if rng.random() < 0.2 else str(value)
            return Text(text if value > 0 else f"({text})", "int", literal=True)
        return Text(rng.choice(["0.5", "1.5", "0.1", "2.0", "(-0.25)"]), "weak", literal=True)

    def large(self, beside: Text) -> Text:
        """A number that int64 does not hold, beside one that can take it; else any literal."""
        rng = self.rng
        if beside.tag == "uint":
            value = rng.choice([2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1])
        elif beside.tag in ("f32", "f64", "weak") and not beside.literal:
            value = rng.choice([2**63, 2**64, 2**64 + 1, 10**20, -(2**63) - 1])
        else:
            return self.literal()
        text = self.outside(str(value)) if rng.random() < 0.3 else str(value)
        return Text(text if value > 0 else f"({text})", "int", literal=True)

    def field(self) -> tuple[str, str]:
        name = self.rng.choice(list(self.fields))
        self.used.add(name)
        return name, TAGS.get(self.fields[name], "int")

    def offset(self, axis: int) -> str:
        rng = self.rng
        lo, hi = self.reach[axis]
        if axis < len(self.loops) and rng.random() < 0.8:
            return self.loops[axis][0]
        return str(rng.randint(lo, hi))

    def read(self) -> Text:
        rng = self.rng
        name, tag = self.field()
        if self.pointwise:
            return Text(name, tag)
        index = [self.offset(axis) for axis in range(self.ndim)]
        constant = not any(part.isalpha() for part in index)
        if constant and rng.random() < 0.1:
            return Text(f"{name}[{self.outside('(' + ', '.join(index) + ',)')}]", tag)
        if rng.random() < 0.1:
            index[0] = f"{index[0]} + {self.outside('0')}"
        return Text(f"{name}[{', '.join(index)}]", tag)

    def number(self, text: Text) -> Text:
        """An operand of arithmetic: a truth value becomes an integer."""
        return Text(f"int({text.text})", "int") if text.tag == "bool" else text

    def exact(self, text: Text) -> Text:
        """Something that may be compared or truncated."""
        return self.read() if text.approximate else text

    def arithmetic(self, depth: int) -> Text:
        rng = self.rng
        left = self.number(self.expression(depth - 1))
        right = self.literal() if rng.random() < 0.3 else self.number(self.expression(depth - 1))
        ways = ["+", "+", "-", "-", "*", "*"]
        if self.numbers == "complex":
            ways += ["/"] if self.loose else []
        else:
            ways += ["/", "//", "%"]
        symbol = rng.choice(ways)
        if symbol in ("%", "/", "//") and rng.random() < 0.1:
            left = self.number(self.exact(left))
            right = self.large(left)
        if rng.random() < 0.1:
            return self.unary(left)
        if right.literal and symbol in "+-*" and rng.random() < 0.3:
            left, right = right, left
        return self.binary(symbol, left, right)

    def unary(self, text: Text) -> Text:
        return Text(f"(-{text.text})", _signed_tag(text.tag), text.approximate)

    def binary(self, symbol: str, left: Text, right: Text) -> Text:
        left, right = self.number(left), self.number(right)
        if symbol in ("//", "%"):
            left, right = self.number(self.exact(left)), self.number(self.exact(right))
        tag = _made(symbol, left, right)
        if symbol in ("/", "//", "%") and right.tag in ("f32", "f64") and not _is_read(right):
            # Which zero a minimum or a sum is, is not said: the quotient's infinity would tell.
            right = replace(right, text=f"({right.text} + 0.0)")
        if symbol == "/" and tag in ("int", "uint"):
            tag = "f64"
        approximate = left.approximate or right.approximate or (symbol == "/" and tag[0] == "c")
        return Text(f"({left.text} {symbol} {right.text})", tag, approximate)

    def bits(self, depth: int) -> Text:
        rng = self.rng
        left = self.whole(self.expression(depth - 1))
        way = rng.randrange(10)
        if way == 0:
            return Text(f"({left.text} << {rng.choice([*range(6), 31, 63, 64, 70])})", left.tag)
        if way == 1:
            return Text(f"({left.text} >> {rng.choice([*range(6), 63, 64, 70])})", left.tag)
        if way == 7:
            digits = rng.choice([-1, -1, -2, -3, 0, 2])
            return Text(f"{rng.choice(['round', 'np.round'])}({left.text}, {digits})", left.tag)
        if way == 8:
            divisor = rng.choice([3, -1, -7, 2**31])
            text = f"divmod({left.text}, {divisor})[{rng.randrange(2)}]"
            return Text(text, left.tag if divisor > 0 else "int")
        if way == 9:
            count = self.whole(self.expression(depth - 1))
            return Text(f"({left.text} {rng.choice(['<<', '>>'])} {count.text})", left.tag)
        if way == 2:
            return Text(f"({left.text} ** {rng.randint(0, 3)})", left.tag)
        if way == 3:
            return Text(f"(~{left.text})", left.tag)
        right = self.whole(self.expression(depth - 1))
        if way == 4:
            return Text(f"({left.text} << ({right.text} & 3))", left.tag)
        return Text(f"({left.text} {rng.choice('&|^')} {right.text})", _promoted(left, right))

    def whole(self, text: Text) -> Text:
        text = self.exact(text)
        return text if text.tag in ("int", "uint") else Text(f"int({text.text})", "int")

    def counted(self, depth: int) -> Text:
        """Truth values count as 0 or 1."""
        pair = [f"({self.read_condition()})" for _ in range(2)]
        return Text(f"({pair[0]} {self.rng.choice('+-*')} {pair[1]})", "int")

    def condition(self, depth: int) -> Text:
        rng = self.rng
        if rng.random() < 0.3 and depth > 0:
            parts = [self.condition(depth - 1).text for _ in range(2)]
            return Text(f"({parts[0]} {rng.choice(['and', 'or'])} {parts[1]})", "bool")
        if rng.random() < 0.1:
            return Text(f"(not {self.condition(depth - 1).text})", "bool")
        if "flag" in self.parameters and rng.random() < 0.3:
            return Text("flag", "bool")
        if rng.random() < 0.15:
            return self.truths(depth)
        left = self.exact(self.number(self.expression(depth - 1)))
        right = self.literal() if rng.random() < 0.5 else self.exact(self.leaf())
        if rng.random() < 0.1 and self.numbers != "complex":
            right = self.large(left)
            symbol = rng.choice(["<", "<=", ">", ">=", "==", "!="])
            return Text(f"({left.text} {symbol} {right.text})", "bool")
        if self.numbers == "complex":
            return Text(f"({left.text} {rng.choice(['==', '!='])} {right.text})", "bool")
        symbol = rng.choice(["<", "<=", ">", ">=", "==", "!="])
        if rng.random() < 0.15:
            return Text(f"({left.text} {symbol} {right.text} <= {self.read().text})", "bool")
        return Text(f"({left.text} {symbol} {right.text})", "bool")

    def truths(self, depth: int) -> Text:
        """`~`, `&`, `|` and `^` of truth values, each a comparison or an element."""
        rng = self.rng
        parts = [f"({self.read_condition()})" for _ in range(2)]
        fields = [name for name, dtype in self.fields.items() if dtype == "bool"]
        if fields:
            name = rng.choice(fields)
            self.used.add(name)
            here = "" if self.pointwise else f"[{', '.join('0' * self.ndim)}]"
            parts[0] = f"{name}{here}"
        parts = [f"(~{part})" if rng.random() < 0.5 else part for part in parts]
        return Text(f"({parts[0]} {rng.choice('&|^')} {parts[1]})", "bool")

    def choice(self, depth: int) -> Text:
        rng = self.rng
        then, other = self.alike(self.expression(depth - 1), self.expression(depth - 1))
        approximate = then.approximate or other.approximate
        way = rng.random()
        if way < 0.25:
            condition = self.condition(1).text
            return Text(
                f"np.where({condition}, {then.text}, {other.text})", _strong(then.tag), approximate
            )
        if way < 0.4 and not approximate:
            return Text(f"({then.text} {rng.choice(['and', 'or'])} {other.text})", then.tag)
        condition = self.condition(1).text
        return Text(f"({then.text} if {condition} else {other.text})", then.tag, approximate)

    def alike(self, left: Text, right: Text) -> tuple[Text, Text]:
        """Both in one type, and none a bare literal."""
        left, right = self.number(left), self.number(right)
        tag = _promoted(left, right)
        return self.typed(left, tag), self.typed(right, tag)

    def typed(self, text: Text, tag: str) -> Text:
        """In a type whatever the numbers of the call are, which may be wider than drawn here.

        A name has one type in all branches; debug goes on with that of the branch it took.
        """
        text = self.chosen(self.coerced(text, tag))
        known = tag in ("int", "uint", "bool") or (_is_read(text) and not self.pointwise)
        return text if known else Text(f"{CASTS[tag]}({text.text})", tag, text.approximate)

    def chosen(self, text: Text) -> Text:
        return Text(f"{CASTS[text.tag]}({text.text})", text.tag) if text.literal else text

    def coerced(self, text: Text, tag: str) -> Text:
        if text.tag == tag and not text.literal:
            return text
        if tag in ("int", "uint", "bool"):
            text = self.exact(text)
            if text.tag == tag:
                return text
        if tag[0] != "c" and text.tag[0] == "c":
            return Text(f"{CASTS[tag]}({text.text}.real)", tag, text.approximate)
        return Text(f"{CASTS[tag]}({text.text})", tag, text.approximate)

    def extreme(self, depth: int) -> Text:
        rng = self.rng
        way = rng.random()
        if way < 0.3:
            a, b = (self.number(self.expression(depth - 1)) for _ in range(2))
            name = rng.choice(["np.minimum", "np.maximum"])
            tag = _strong(_promoted(a, b))
            if tag == "uint" and name == "np.minimum" and any(map(_signed, (a, b))):
                tag = "int"
            return Text(f"{name}({a.text}, {b.text})", tag, a.approximate or b.approximate)
        if way < 0.45:
            a = self.chosen(self.number(self.expression(depth - 1)))
            return Text(f"np.clip({a.text}, -2, 9)", _strong(a.tag), a.approximate)
        a, b = self.alike(self.expression(depth - 1), self.expression(depth - 1))
        items = [a.text, b.text]
        if rng.random() < 0.3:
            items.append(self.coerced(self.read(), a.tag).text)
        name = rng.choice(["min", "max"])
        return Text(f"{name}({', '.join(items)})", a.tag, a.approximate or b.approximate)

    def cast(self, depth: int) -> Text:
        rng = self.rng
        inner = self.chosen(self.expression(depth - 1))
        if self.numbers == "float":
            ways = ["float", "np.float32", "np.float64", "abs", "np.float16"]
        else:
            ways = ["int", "np.int8", "np.uint8", "np.int32", "np.int64", "round", "abs"]
            ways += ["np.float64", "np.float32", "np.float16"] if self.numbers == "mixed" else []
        way = rng.choice(ways)
        tags = {"float": "weak", "np.float32": "f32", "np.float64": "f64"}
        if way == "abs":
            inner = self.number(inner)
            return Text(f"abs({inner.text})", inner.tag, inner.approximate)
        if way == "np.float16":
            return Text(f"np.float16({self.exact(inner).text})", "f32")
        if way in tags:
            return Text(f"{way}({inner.text})", tags[way], inner.approximate)
        inner = self.exact(self.number(inner))
        if inner.tag == "uint" and way in ("int", "round"):
            return inner
        return Text(f"{way}({inner.text})", "int")

    def function(self, depth: int) -> Text:
        rng = self.rng
        inner = self.chosen(self.number(self.expression(depth - 1)))
        floating = "f64" if inner.tag in ("int", "uint", "weak") else inner.tag
        if self.numbers == "complex":
            return Text(f"({inner.text}).conjugate()", inner.tag, inner.approximate)
        way = rng.random()
        if way < 0.3:
            name = rng.choice(["np.sqrt", "math.sqrt"])
            tag = floating if name == "np.sqrt" else "weak"
            return Text(f"{name}(abs({inner.text}))", tag, inner.approximate)
        if way < 0.5 and not inner.approximate:
            name = rng.choice(["np.floor", "np.ceil", "np.trunc"])
            return Text(f"{name}({inner.text})", _strong(inner.tag))
        if 0.5 < way < 0.6 and not inner.approximate and self.numbers != "float":
            tag = "uint" if inner.tag == "uint" else "int"
            return Text(f"{rng.choice(['math.floor', 'math.ceil'])}({inner.text})", tag)
        if way < 0.7:
            return Text(f"np.abs({inner.text})", _strong(inner.tag), inner.approximate)
        if not self.loose:
            return inner
        name = rng.choice(["np.sin", "np.cos", "np.arctan", "np.tanh", "math.sin", "math.atan"])
        tag = floating if name.startswith("np") else "weak"
        bounded = Text(f"np.clip({inner.text}, -50, 50)", _strong(inner.tag), inner.approximate)
        return Text(f"{name}({bounded.text})", tag, True)

    def helper(self, depth: int) -> Text:
        """A call of a plain function, a lambda, or a compiled function."""
        rng = self.rng
        name = self.fresh("h")
        body = rng.choice(["a + b", "a - 2 * b", "a * b + 1", "a if a > b else b", "abs(a - b)"])
        way = rng.random()
        if way < 0.3:
            self.globals.append(f"{name} = lambda a, b: {body}")
        else:
            lines = [f"def {name}(a, b):", f"    c = {body}", "    return c"]
            if way < 0.5:
                lines[1:] = ["    if a > b:", "        return a - b", f"    return {body}"]
            if self.njit and rng.random() < 0.5:
                lines.insert(0, "@numba.njit")
            self.globals += lines
        a, b = self.alike(self.exact(self.expression(depth - 1)), self.exact(self.leaf()))
        a, b = self.coerced(self.exact(a), a.tag), self.coerced(self.exact(b), b.tag)
        if a.tag != b.tag:
            b = Text(f"{CASTS[a.tag]}({b.text})", a.tag)
        made = f"{name}({a.text}, {b.text})"
        # Of numbers of uint64 one branch is a uint64, and another an int64.
        return Text(f"int({made})", "int") if a.tag == "uint" else Text(made, a.tag)

    # Windows.

    def window(self, depth: int) -> Text:
        """A window, perhaps with arithmetic, and its reduction."""
        if self.pointwise:
            return self.leaf()
        rng = self.rng
        name, tag = self.field()
        spans = [self.span(axis) for axis in range(self.ndim)]
        if not any(isinstance(span, tuple) for span in spans):
            spans[-1] = (0, 2)
        shape = tuple(span[1] - span[0] for span in spans if isinstance(span, tuple))
        inner = self.window_text(name, spans)
        way, plain = rng.random(), True
        if tag == "bool":
            way = 1.0
        if way < 0.25:
            weights = self.weights(shape)
            values = np.ravel(weights).tolist()
            whole = self.numbers == "int" or rng.random() < 0.5
            dtype = "" if whole else ", np.float32" if tag in ("f32", "c64") else ", float"
            constant = self.outside(f"np.array({np.reshape(values, shape).tolist()}{dtype})")
            pair = [inner, constant] if rng.random() < 0.5 else [constant, inner]
            inner, plain = f"({pair[0]} * {pair[1]})", False
            other = Text("", "int" if whole else "f32" if "32" in dtype else "f64")
            other = replace(other, literal=whole and min(values) >= 0)
            tag = _made("*", Text("", tag), other)
        elif way < 0.35:
            second, other_tag = self.field()
            if other_tag != "bool":
                symbol = rng.choice("+-*")
                inner, plain = f"({inner} {symbol} {self.window_text(second, spans)})", False
                tag = _made(symbol, Text("", tag), Text("", other_tag))
        elif way < 0.5:
            scalar = self.number(self.exact(self.leaf()))
            symbol = rng.choice("+-*")
            inner, plain = f"({inner} {symbol} {scalar.text})", False
            tag = _made(symbol, Text("", tag), scalar)
        elif way < 0.6 and tag[0] != "c":
            inner = f"({inner} > {rng.randint(0, 4)})"
            reduction = rng.choice(["any", "all", "sum"])
            return Text(f"{inner}.{reduction}()", "int" if reduction == "sum" else "bool")
        elif way < 0.65 and "w" in self.standard and self.standard["w"][1] == shape:
            other = Text("", TAGS.get(self.standard["w"][0], "int"))
            inner, plain = f"({inner} * w)", False
            tag = _made("*", Text("", tag), other)
        size = int(np.prod(shape))
        if rng.random() < 0.2:
            mask = [rng.random() < 0.6 for _ in range(size)]
            mask[rng.randrange(size)] = True
            constant = self.outside(f"np.array({np.reshape(mask, shape).tolist()})")
            inner, size = f"{inner}[{constant}]", sum(mask)
        return self.reduced(inner, tag, plain, size)

    def reduced(self, inner: str, tag: str, plain: bool, size: int) -> Text:
        rng = self.rng
        whole = tag in ("int", "uint", "bool")
        if self.loose and rng.random() < 0.25:
            return self.without_nan(inner, tag, plain)
        if self.loose and plain and rng.random() < 0.1:
            return self.partly(inner, tag)
        ways = ["min", "max", "ptp"] if tag[0] != "c" else []
        if plain and tag[0] != "c":
            ways += ["argmin", "argmax"]
            ways += ["median"] if size % 2 else []
        ways += ["sum", "sum"] if whole or self.loose else []
        if self.loose and (plain or not whole):
            ways += ["mean"]
        if self.loose and plain and tag[0] != "c":
            ways += ["mean", "std", "var", "median", "percentile", "entropy", "trimmed_mean"]
        if plain and tag[0] != "c":
            ways += ["mode"]
        if not ways:
            return self.leaf()
        name = rng.choice(ways)
        result = tag
        if name in ("argmin", "argmax"):
            result = "int"
        elif whole and name in _AVERAGES:
            result = "f64"
            self.averages = True
        elif tag == "bool" and name in ("sum", "ptp"):
            result = "int"
        exact = name in _EXACT or (name == "sum" and whole)
        approximate = not exact and not (name == "median" and size % 2)
        if name in ("mode", "entropy", "trimmed_mean"):
            cut = f", {rng.choice([0, 0.1, 0.3])}" if name == "trimmed_mean" else ""
            return Text(f"npt.{name}({inner}{cut})", result, approximate)
        if name == "percentile":
            return Text(
                f"np.percentile({inner}, {rng.choice([0, 10, 25, 50, 90, 100])})", result, True
            )
        if rng.random() < 0.3 or name == "median":
            return Text(f"np.{name}({inner})", result, approximate)
        return Text(f"{inner}.{name}()", result, approximate)

    def without_nan(self, inner: str, tag: str, plain: bool) -> Text:
        """A reduction that leaves NaN out, or a count."""
        whole = tag in ("int", "uint", "bool")
        ways = ["nansum", "count_nonzero"]
        if plain or not whole:
            ways += ["nanmean"]
        if tag[0] != "c":
            ways += ["nanmin", "nanmax"] + (["nanvar", "nanstd"] if plain else [])
        if tag[0] != "c" and plain:
            ways += ["nanmedian", "nanquantile"]
        name = self.rng.choice(ways)
        result, exact = tag, name in ("nanmin", "nanmax") or (whole and name == "nansum")
        if name == "count_nonzero" or (tag == "bool" and name == "nansum"):
            result, exact = "int", True
        elif whole and name in ("nanmean", "nanvar", "nanstd", "nanmedian", "nanquantile"):
            result, self.averages = "f64", True
        if name == "nanquantile":
            return Text(f"np.{name}({inner}, {self.rng.choice([0, 0.2, 0.75, 1])})", result, True)
        return Text(f"np.{name}({inner})", result, not exact)

    def partly(self, inner: str, tag: str) -> Text:
        """A reduction of those elements of a window that a mask takes."""
        whole = tag in ("int", "uint", "bool")
        ways = ["sum", "mean"] + (
            ["min", "max", "var", "nansum", "nanmean"] if tag[0] != "c" else []
        )
        name = self.rng.choice(ways)
        test = (
            f"({inner} > {self.rng.randint(0, 4)})" if tag[0] != "c" else f"({inner} == {inner})"
        )
        if self.rng.random() < 0.3:
            test = self.read_condition()
        extreme = name in ("min", "max")
        initial = f", initial={self.rng.randint(0, 3)}" if extreme else ""
        result, exact = tag, extreme or (whole and "sum" in name)
        if whole and name in ("mean", "var", "nanmean"):
            result, self.averages = "f64", True
        elif tag == "bool":
            result = "int"
        return Text(f"np.{name}({inner}, where={test}{initial})", result, not exact)

    def span(self, axis: int) -> Any:
        """The offsets along one axis: a pair, as Python slices go, or one number."""
        lo, hi = self.reach[axis]
        if self.rng.random() < 0.15:
            return self.rng.randint(lo, hi)
        start = self.rng.randint(lo, hi)
        longest = 3 if self.ndim < 3 else 2
        stop = min(hi, start + self.rng.randint(0, longest)) + 1
        return (start, stop)

    def window_text(self, name: str, spans: list[Any]) -> str:
        parts = [f"{s[0]}:{s[1]}" if isinstance(s, tuple) else str(s) for s in spans]
        return f"{name}[{', '.join(parts)}]"

    def weights(self, shape: tuple[int, ...]) -> Any:
        values = [self.rng.choice([0, 0, 1, 2, -1, 4]) for _ in range(int(np.prod(shape)))]
        if not any(values):
            values[0] = 1
        return np.reshape(values, shape).tolist()


def _shifted(variable: str, by: int) -> str:
    return variable if by == 0 else f"{variable} + {by}" if by > 0 else f"{variable} - {-by}"


def _strong(tag: str) -> str:
    """The type that NumPy's functions give: they know no weak floats."""
    return "f64" if tag == "weak" else tag


def _signed(text: Text) -> bool:
    """Whether an integer might be negative, or is one of the text that is."""
    return text.tag == "int" and (not text.literal or text.text.startswith("("))


def _signed_tag(tag: str) -> str:
    return "int" if tag == "uint" else tag


def _is_read(text: Text) -> bool:
    """Whether this is a number that stands there, or an element of a field, and nothing more."""
    return text.literal or re.fullmatch(r"\w+\[[^\[\]]*\]", text.text) is not None


def _made(symbol: str, left: Text, right: Text) -> str:
    """The type of arithmetic; an int64 where a uint64 meets what may be negative."""
    tag = _promoted(left, right)
    if symbol == "-":
        return _signed_tag(tag)
    if tag == "uint" and any(map(_signed, (left, right))):
        return "uint" if symbol == "%" and right.tag == "uint" else "int"
    return tag


def _promoted(left: Text, right: Text) -> str:
    """The type in which two numbers are alike."""
    tags = {left.tag, right.tag}
    whole = tags & {"int", "uint", "bool"}
    floats = tags - whole
    if not floats:
        return "uint" if "uint" in whole else "int"
    if "weak" in floats and whole and floats == {"weak"}:
        literal = left.literal if left.tag != "weak" else right.literal
        return "weak" if literal else "f64"
    floats -= {"weak"}
    if not floats:
        return "weak"
    double = floats & {"f64", "c128"}
    if any(tag[0] == "c" for tag in floats):
        return "c128" if double else "c64"
    return "f64" if double else "f32"
