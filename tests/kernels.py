"""Random kernels, as Python source: everything a kernel may say, except stages.

`random_kernel(rng)` writes a program, and `random_boundary(rng, ndim)` a border rule; `rng` is a
`random.Random`, and the same seed gives the same text for ever.  Programs are built from typed
expressions, so every one of them is valid and nothing is filtered away:

* the two sides of a choice have one type, and what is chosen is never a bare literal;
* what floats may compute differently in another order (`approximate`) reaches neither a
  comparison nor an integer, so it stays within a small tolerance.
"""

import hashlib
import linecache
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from types import CodeType
from typing import Any

import ml_dtypes  # noqa: F401  NumPy then knows bfloat16
import numpy as np

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
FLOATS = ("float32", "float64", "float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
KINDS = {"int": INTEGERS, "float": FLOATS, "complex": COMPLEX, "mixed": INTEGERS + FLOATS}
# The type in which the elements of a field compute: bool int uint weak f32 f64 c64 c128.
TAGS = {"bool": "bool", "uint64": "uint", "float32": "f32", "float64": "f64"}
TAGS |= {"float16": "f32", "bfloat16": "f32", "complex64": "c64", "complex128": "c128"}
CASTS = {"f32": "np.float32", "f64": "np.float64", "c64": "np.complex64", "c128": "np.complex128"}
CASTS |= {"int": "int", "bool": "bool", "uint": "np.uint64", "weak": "float"}
WHOLE = ("int", "uint", "bool")
_AVERAGES = "mean median std var percentile entropy trimmed_mean nanmean nanvar nanstd".split()
_AVERAGES += ["nanmedian", "nanquantile"]
_EXACT = ("min", "max", "ptp", "argmin", "argmax", "mode", "nanmin", "nanmax")
_COUNTS = ("argmin", "argmax", "count_nonzero")
RULES = ("fill", "keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap")


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, what it takes, and what kind of numbers come out."""

    source: str
    ndim: int
    fields: dict[str, str]  # name -> dtype
    standard: dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype and shape
    scalars: dict[str, Any]  # values to pass; parameters left out take their default
    outputs: tuple[str, ...]  # tags
    approximate: tuple[bool, ...]  # per output: floats that may differ in the last places
    averages: bool  # takes the mean or the like of integers: keep them well below 2**53
    options: dict[str, Any] = field(default_factory=dict)  # for @stencil


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
    approximate: bool = True,
    outputs: int = 0,
    size: int = 0,
    general: bool = False,
    pointwise: bool = False,
) -> Case:
    """A random program.

    `numbers` is "int", "float", "complex" or "mixed"; `ndim` 1 to 3; without `approximate` every
    result is exact to the bit.  A `general` one stands in a `while` that runs once, and has loops
    whose turns differ from point to point, with ways out of them, and arrays of its own.  A
    `pointwise` one is a function of numbers, for `npt.ufunc`.  What is not given is drawn.
    """
    numbers = numbers or rng.choice(["int", "int", "float", "float", "mixed", "complex"])
    writer = _Writer(rng, numbers, ndim or rng.choice([1, 2, 2, 2, 3]))
    writer.loose, writer.general, writer.pointwise = approximate, general, pointwise
    return writer.case(outputs or rng.choice([1, 1, 1, 2, 3]), size or rng.randint(1, 5))


def executed(text: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a text whose source can be found, beside `names`; gives all that it defines."""
    code = _code(text)
    if names is None:
        names = {"__name__": re.sub(r"\W", "_", code.co_filename[1:-1])}
    exec(code, names)
    return names


@lru_cache
def _code(text: str) -> CodeType:
    filename = f"<random program {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    return compile(text, filename, "exec")


def compiled(
    text: str, name: str = "kernel", names: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Run a text beside `names`, and give the function `name` in it."""
    function: Callable[..., Any] = executed(
        text, {"__name__": "kernels_of_texts", **(names or {})}
    )[name]
    return function


def random_shape(rng: Random, ndim: int) -> tuple[int, ...]:
    """Small core shapes, some smaller than a footprint, of size 1 and of size 0."""
    sizes = [0, 1, 1, 2, 3, 4, 5, 6, 7, 8] if ndim < 3 else [0, 1, 2, 3, 4, 4, 5]
    empty = rng.random() < 0.05
    return tuple(rng.choice(sizes if empty else sizes[1:]) for _ in range(ndim))


def random_boundary(rng: Random, ndim: int, *, rules: tuple[str, ...] = RULES) -> Any:
    """One rule, one for each axis, or one for each side."""
    one_sided = [rule for rule in rules if rule != "wrap"] or ["wrap"]

    def entry() -> Any:
        pair = (rng.choice(one_sided), rng.choice(one_sided))
        return rng.choice(rules) if rng.random() < 0.5 else pair

    return rng.choice(rules) if rng.random() < 0.5 else tuple(entry() for _ in range(ndim))


def values(rng: Random, dtype: str, shape: tuple[int, ...], small: bool) -> np.ndarray:
    """Numbers of a type; integers reach its ends, unless they are to be small."""
    generator = np.random.default_rng(rng.getrandbits(32))
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        info, way = np.iinfo(kind), 1.0 if small and kind.itemsize == 8 else rng.random()
        if way < 0.2:
            ends = [info.min, info.min + 1, 0, 1, 2, 63, 64, info.max - 1, info.max]
            ends += [-1, -2] if kind.kind == "i" else [info.max // 2, info.max // 2 + 1]
            return np.asarray(generator.choice(np.array(ends, kind), shape))
        ends = (info.min, info.max) if way < 0.5 else (max(info.min, -100), min(info.max, 100))
        return generator.integers(*ends, shape, kind, endpoint=True)
    made = np.asarray(generator.integers(-64, 65, shape) / 8)
    made = np.asarray(made + generator.choice([0, 1 / 3], shape))
    if rng.random() < 0.15:
        made[generator.random(shape) < 0.2] = np.nan
    if kind.kind == "c":
        made = made + 1j * generator.integers(-9, 10, shape) / 4
    return made.astype(kind)


def lies(rng: Random, values: np.ndarray) -> str:
    """How an array lies in memory, as an expression in `a`."""
    ndim = values.ndim
    ways = ["a", "a", "a.astype(a.dtype.newbyteorder())"]
    if ndim:
        order = tuple(rng.sample(range(ndim), ndim))
        back = tuple(map(int, np.argsort(order)))
        ways += [
            "np.asfortranarray(a)",
            "np.flip(np.flip(a).copy())",
            "np.repeat(np.repeat(a, 2, 0), 2, -1)[::2][..., ::2]",
            f"a.transpose({order}).copy().transpose({back})",
            # Colours innermost, as images have them.
            "np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 0, -1)), -1, 0)",
            # At no multiple of the size of an element, and read-only.
            "np.ndarray(a.shape, a.dtype, b'.' + a.tobytes(), 1)",
        ]
    return rng.choice(ways)


class _Writer:
    """Writes one program; the state is what has been written so far."""

    general = pointwise = averages = False
    loose = True
    count = 0

    def __init__(self, rng: Random, numbers: str, ndim: int) -> None:
        self.rng, self.numbers, self.ndim = rng, numbers, ndim
        self.globals: list[str] = []
        self.closure: list[str] = []
        self.body: list[str] = []
        self.locals: dict[str, Text] = {}
        self.loops: list[tuple[str, int, int]] = []  # variable, least, greatest value
        chosen = [rng.choice(KINDS[numbers]) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
        self.fields = dict(zip("xyz", chosen, strict=False))
        self.standard: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.parameters: dict[str, tuple[Any, Text]] = {}
        self.used: set[str] = set()
        self.mentioned: set[str] = set()  # so that few locals are written in vain
        # Most footprints lie around the point, some to one side, some far off.
        reach = rng.choices([(-2, 2), (0, 2), (-3, -1), (1, 4)], [60, 15, 15, 10])[0]
        self.reach = [reach if self.chance(0.8) else (-1, 1) for _ in range(ndim)]

    def chance(self, often: float) -> bool:
        return self.rng.random() < often

    # The program.

    def case(self, outputs: int, size: int) -> Case:
        rng = self.rng
        if self.chance(0.4):
            self.scalar("gain", rng.choice([2, -3, 5]))
        if self.numbers != "int" and self.chance(0.4):
            self.scalar("rate", rng.choice([0.5, 1.25, -2.0]))
        if self.chance(0.15):
            self.parameters["flag"] = (self.chance(0.5), Text("flag", "bool"))
        if self.chance(0.2):
            dtype = "int64" if self.numbers == "int" else rng.choice(["float64", "float32"])
            self.standard["w"] = (dtype, (3,) * rng.choice([1, self.ndim]))
        self.tags = tags = tuple(self.output_tag() for _ in range(outputs))
        self.approximate = approximate = [False] * outputs
        ways = [self.assign, self.assign, self.augment, self.unpack, self.branch, self.loop]
        ways += [self.turns, self.turns, self.array] * self.general
        for number in range(size):
            rng.choice(ways[-3:] if self.general and number == 0 else ways)()
        if self.chance(0.2):
            self.body.append(f"if {self.condition(1)}:")
            self.body.append("    return " + self.returned())
        self.body.append("return " + self.returned())
        self.fields = {name: self.fields[name] for name in self.fields if name in self.used}
        if not self.fields:
            self.fields = {"x": rng.choice(INTEGERS if self.numbers == "int" else FLOATS)}
            self.body = [f"return {self.here('x')}"]
            tags, approximate = (TAGS.get(self.fields["x"], "int"),), [False]
            self.standard, self.parameters = {}, {}
        text, given = self.text()
        return Case(
            source=text,
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
        given, bare, named = {}, [], []
        for name, (value, _) in self.parameters.items():
            default = self.chance(0.5)
            (named if default else bare).append(f"{name}={value!r}" if default else name)
            if not default:
                given[name] = value
            elif self.chance(0.5):
                given[name] = type(value)(value + 1) if name != "flag" else not value
        bare += self.standard if self.pointwise else []
        standard = () if self.pointwise else self.standard
        header = ", ".join([*self.fields, *standard, *["*"][: len(bare)], *bare, *named])
        body = self.body
        if self.general:
            body = ["while True:", *("    " + line for line in body)]
        kernel = [f"def kernel({header}):", *("    " + line for line in body)]
        imports = ["import math", "import numpy as np", "import ninepoint as npt"]
        if self.closure:
            inner = ["def make():", *("    " + line for line in (*self.closure, *kernel))]
            kernel = [*inner, "    return kernel", "", "kernel = make()"]
        return "\n".join([*imports, "", *self.globals, "", *kernel]) + "\n", given

    def returned(self) -> str:
        results, approximate = [], self.approximate
        for k, tag in enumerate(self.tags):
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
        more = {"int": ["int", "int", "f64"], "complex": ["c128"]}.get(self.numbers, ["f64"])
        return self.rng.choice([*own, *more])

    def here(self, name: str) -> str:
        return name if self.pointwise else f"{name}[{', '.join('0' * self.ndim)}]"

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def scalar(self, name: str, value: Any) -> None:
        self.parameters[name] = (value, Text(name, "int" if isinstance(value, int) else "weak"))

    def outside(self, value: str) -> str:
        """A constant in the module, or around the kernel."""
        name = self.fresh("K")
        (self.closure if self.chance(0.4) else self.globals).append(f"{name} = {value}")
        return name

    # Statements.

    def assign(self) -> None:
        name, value = self.fresh("t"), self.chosen(self.expression(2))
        self.body.append(f"{name} = {value.text}")
        self.locals[name] = replace(value, text=name)

    def augment(self) -> None:
        known = [(name, held) for name, held in sorted(self.locals.items()) if held.tag != "bool"]
        if not known:
            return self.assign()
        name, held = self.rng.choice(known)
        value, symbol = self.coerced(self.expression(1), held.tag), self.rng.choice("+-*")
        self.body.append(f"{name} {symbol}= {value.text}")
        approximate = held.approximate or value.approximate
        self.locals[name] = Text(name, _made(symbol, held, value), approximate)
        return None

    def unpack(self) -> None:
        names, tag = [self.fresh("t"), self.fresh("t")], self.output_tag()
        pair = [self.coerced(self.expression(1), tag) for _ in names]
        self.body.append(f"{', '.join(names)} = {pair[0].text}, {pair[1].text}")
        if self.chance(0.4):
            self.body.append(f"{', '.join(names)} = {', '.join(names[::-1])}")
        for name in names:
            self.locals[name] = Text(name, tag, any(one.approximate for one in pair))

    def branch(self) -> None:
        name, tag, before = self.fresh("t"), self.output_tag(), self.chance(0.4)
        values = []

        def line(indent: str, depth: int) -> None:
            values.append(self.typed(self.expression(depth), tag))
            self.body.append(f"{indent}{name} = {values[-1].text}")

        if before:
            line("", 1)
        for word in ["if"] + ["elif"] * self.rng.choice([0, 0, 1]):
            self.body.append(f"{word} {self.condition(1)}:")
            line("    ", 2)
        if not before or self.chance(0.5):
            self.body.append("else:")
            line("    ", 1)
        self.locals[name] = Text(name, tag, any(one.approximate for one in values))

    def loop(self) -> None:
        name, tag, indent = self.fresh("s"), self.output_tag(), ""
        tag = "int" if tag == "bool" else tag
        zero = "0" if self.numbers == "int" and tag == "int" else f"{CASTS[tag]}(0)"
        self.body.append(f"{name} = {zero}")
        for axis in range(self.rng.choice([1, 1, min(2, self.ndim)])):
            variable, (lo, hi) = "ijk"[axis], self.reach[axis]
            lo = max(lo, hi - 2)
            ways = [f"range({lo}, {hi + 1})", repr(tuple(range(lo, hi + 1)))]
            ways += [f"range({hi}, {lo - 1}, -1)"]
            self.body.append(f"{indent}for {variable} in {self.rng.choice(ways)}:")
            self.loops.append((variable, lo, hi))
            indent += "    "
        term = self.coerced(self.product(self.read()), tag)
        # A known number of uint64 is a literal, which only the branch would make a uint64.
        if self.chance(0.3) and tag != "uint":
            self.body.append(f"{indent}if {self.read_condition()}:")
            indent += "    "
        self.body.append(f"{indent}{name} += {term.text}")
        self.loops.clear()
        self.locals[name] = Text(name, tag, term.approximate)

    def turns(self) -> None:
        """A loop whose turns differ from point to point, and ways out of it."""
        rng, name, turn, body = self.rng, self.fresh("s"), self.fresh("n"), self.body
        tag, most = self.output_tag(), rng.choice([4, 4, 10])
        tag = {"bool": "int", "uint": "int"}.get(tag, tag)
        body.append(f"{name}, {turn} = {CASTS[tag]}(0), 0")
        self.locals |= {name: Text(name, tag), turn: Text(turn, "int")}
        head = rng.choice([
            f"while {turn} < {most} and {self.condition(1)}:", f"for {turn} in range({most}):",
            f"for {turn} in range({self.index(most)}):",
        ])  # fmt: skip
        body += [head, f"    {turn} += 1"][: 1 + head.startswith("while")]
        ways = ["continue", "break", f"return {self.returned()}"]
        for way in rng.sample(ways, rng.choice([1, 2])):
            body += [f"    if {self.condition(1)}:", f"        {way}"]
        inner, step, indent = self.fresh("n"), rng.choice([-1, -2]), "    "
        if self.chance(0.3):
            body.append(f"    for {inner} in range({self.index(most)}, {turn}, {step}):")
            indent += "    "
        body.append(f"{indent}{name} += {self.coerced(self.exact(self.expression(1)), tag).text}")
        if self.chance(0.3):
            body += ["else:", f"    {name} -= 1"]

    def array(self) -> None:
        """An array of the kernel's own, with elements at places that are read."""
        rng, name, made = self.rng, self.fresh("a"), self.fresh("t")
        shape, (lo, hi) = rng.choice([(2,), (4,), (2, 3)]), self.reach[0]
        kinds = {"np.int64": "int", "bool": "bool"}
        kinds |= {} if self.numbers == "int" else {"np.float32": "f32"}
        dtype, tag = rng.choice(list(kinds.items()))

        def element() -> str:
            index = (rng.choice([self.index(n), f"{rng.randint(-n, n - 1)}"]) for n in shape)
            return f"{name}[{', '.join(index)}]"

        self.body.append(f"{name} = np.{rng.choice(['zeros', 'ones'])}({shape}, {dtype})")
        for head in (f"for i in range({lo}, {hi + 1}):", f"if {self.condition(1)}:"):
            self.loops = [("i", lo, hi)] * head.startswith("for")
            term = self.coerced(self.exact(self.expression(1)), tag)
            symbol = rng.choice(["", "+", "-"][: 3 - 2 * (tag == "bool")])
            self.body += [head, f"    {element()} {symbol}= {term.text}"]
        self.loops.clear()
        if self.chance(0.5):
            self.body.append(f"{element()}, {element()} = {element()}, {element()}")
        self.body.append(f"{made} = {self.number(Text(element(), tag)).text}")
        self.locals[made] = Text(made, "int" if tag == "bool" else tag)

    def index(self, size: int) -> str:
        """A number from 0 to so many, that is read."""
        return f"{self.coerced(self.exact(self.read()), 'int').text} % {size}"

    def product(self, term: Text) -> Text:
        """The term of a loop, weighted by something that depends on the loop."""
        if term.tag == "uint":
            # With a weight it is a uint64 in one turn, and an int64 in the next.
            term = Text(f"int({term.text})", "int")
        variable, lo, hi = self.rng.choice(self.loops)
        place = f"{variable} - {lo}" if lo > 0 else f"{variable} + {-lo}" if lo else variable
        way, literal = self.rng.random(), True
        if way < 0.3:
            weights = tuple(self.rng.randint(-3, 3) for _ in range(hi - lo + 1))
            weight, tag = f"{self.outside(repr(weights))}[{place}]", "int"
        elif way < 0.5:
            weight, tag = f"({variable} + 5)", "int"
        elif way < 0.7 and self.standard and hi - lo <= 2:
            dtype, shape = self.standard["w"]
            index, literal = [place, *("1" * (len(shape) - 1))], False
            weight, tag = f"w[{', '.join(index)}]", TAGS.get(dtype, "int")
        else:
            return term
        return self.binary("*", term, Text(weight, tag, literal=literal))

    # Conditions.

    def read_condition(self) -> str:
        read = self.read()
        least = "!= 1" if read.tag[0] == "c" else f"> {self.rng.randint(0, 3)}"
        return f"{read.text} {least}"

    def condition(self, depth: int) -> str:
        rng = self.rng
        if depth > 0 and self.chance(0.3):
            word = rng.choice(["and", "or"])
            return f"({self.condition(depth - 1)} {word} {self.condition(depth - 1)})"
        if self.chance(0.1):
            return f"(not {self.condition(depth - 1)})"
        if "flag" in self.parameters and self.chance(0.3):
            return "flag"
        if self.chance(0.15):
            return self.truths()
        left = self.exact(self.number(self.expression(depth - 1)))
        right = self.literal() if self.chance(0.5) else self.exact(self.leaf())
        if self.numbers == "complex":
            return f"({left.text} {rng.choice(['==', '!='])} {right.text})"
        if self.chance(0.1):
            right = self.large(left)
        symbol = rng.choice(["<", "<=", ">", ">=", "==", "!="])
        more = f" <= {self.read().text}" if self.chance(0.15) else ""
        return f"({left.text} {symbol} {right.text}{more})"

    def truths(self) -> str:
        """`~`, `&`, `|` and `^` of truth values, each a comparison or an element."""
        parts = [f"({self.read_condition()})" for _ in range(2)]
        fields = [name for name, dtype in self.fields.items() if dtype == "bool"]
        if fields:
            self.used.add(fields[0])
            parts[0] = self.here(fields[0])
        parts = [f"(~{part})" if self.chance(0.5) else part for part in parts]
        return f"({parts[0]} {self.rng.choice('&|^')} {parts[1]})"

    # Leaves.

    def leaf(self) -> Text:
        rng = self.rng
        given = [text for _, text in self.parameters.values()]
        known = [text for text in (*self.locals.values(), *given) if text.tag != "bool"]
        waiting = [text for text in known if text.text not in self.mentioned]
        if known and self.chance(0.6 if waiting else 0.25):
            found = rng.choice(waiting or known)
            self.mentioned.add(found.text)
            return found
        if self.standard and self.chance(0.2):
            dtype, shape = self.standard["w"]
            index = ", ".join(str(rng.randrange(3)) for _ in shape)
            return Text(f"w[{index}]", TAGS.get(dtype, "int"))
        return self.of_whole() if not self.pointwise and self.chance(0.09) else self.read()

    def of_whole(self) -> Text:
        """How large the whole array is, or where in it the point is."""
        name, axis = self.field()[0], self.rng.randint(-self.ndim, self.ndim - 1)
        place = f"npt.index({name})" + (f"[{axis}]" if self.ndim > 1 else "")
        lengths = [f"len({name})", f"{name}.shape[{axis}]", f"np.shape({name})[{axis}]",
                   f"{name}.size", f"np.size({name})", f"({name}.ndim + len({name}))"]  # fmt: skip
        text = self.rng.choice([*lengths, *[place] * 5, f"({place} % {self.rng.choice([2, 3])})"])
        # A number of Python's; beside floats one of a type of its own.
        return Text(text, "int") if self.numbers == "int" else Text(f"np.float64({text})", "f64")

    def literal(self) -> Text:
        if self.numbers != "int" and self.chance(0.5):
            text = self.rng.choice(["0.5", "1.5", "0.1", "2.0", "(-0.25)"])
            return Text(text, "weak", literal=True)
        value = self.rng.choice([1, 2, 3, 5, 7, 9, -1, -4])
        if self.chance(0.08):
            value = self.rng.choice([2**31, 2**32, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), -1])
        return self.constant(value)

    def large(self, beside: Text) -> Text:
        """A number that int64 does not hold, beside one that can take it; else any literal."""
        if beside.tag == "uint":
            return self.constant(self.rng.choice([2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]))
        if beside.tag in ("f32", "f64", "weak") and not beside.literal:
            return self.constant(self.rng.choice([2**63, 2**64, 2**64 + 1, 10**20, -(2**63) - 1]))
        return self.literal()

    def constant(self, value: int) -> Text:
        text = self.outside(str(value)) if self.chance(0.2) else str(value)
        return Text(text if value > 0 else f"({text})", "int", literal=True)

    def field(self) -> tuple[str, str]:
        name = self.rng.choice(list(self.fields))
        self.used.add(name)
        return name, TAGS.get(self.fields[name], "int")

    def read(self) -> Text:
        name, tag = self.field()
        if self.pointwise:
            return Text(name, tag)
        index = [
            self.loops[axis][0]
            if axis < len(self.loops) and self.chance(0.8)
            else str(self.rng.randint(*self.reach[axis]))
            for axis in range(self.ndim)
        ]
        if self.chance(0.1) and not any(part.isalpha() for part in index):
            return Text(f"{name}[{self.outside('(' + ', '.join(index) + ',)')}]", tag)
        if self.chance(0.1):
            index[0] = f"{index[0]} + {self.outside('0')}"
        return Text(f"{name}[{', '.join(index)}]", tag)

    # Types.

    def number(self, text: Text) -> Text:
        """An operand of arithmetic: a truth value becomes an integer."""
        return Text(f"int({text.text})", "int") if text.tag == "bool" else text

    def exact(self, text: Text) -> Text:
        """Something that may be compared or truncated."""
        return self.read() if text.approximate else text

    def whole(self, text: Text) -> Text:
        text = self.exact(text)
        return text if text.tag in ("int", "uint") else Text(f"int({text.text})", "int")

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
        known = tag in WHOLE or (_is_read(text) and not self.pointwise)
        return text if known else _cast(text, tag)

    def chosen(self, text: Text) -> Text:
        return _cast(text, text.tag) if text.literal else text

    def coerced(self, text: Text, tag: str) -> Text:
        if text.tag == tag and not text.literal:
            return text
        if tag in WHOLE:
            text = self.exact(text)
            if text.tag == tag:
                return text
        if tag[0] != "c" and text.tag[0] == "c":
            text = replace(text, text=f"{text.text}.real")
        return _cast(text, tag)

    # Expressions.

    def expression(self, depth: int) -> Text:
        if depth <= 0:
            return self.leaf()
        ways: list[Callable[[int], Text]] = [self.arithmetic] * 5
        ways += [self.choice, self.function, self.function, self.window, self.window]
        ways += [lambda depth: self.leaf()]
        if self.numbers != "complex":
            ways += [self.extreme, self.cast, self.helper]
        if self.numbers in ("int", "mixed"):
            ways += [self.bits, self.bits, self.counted]
        return self.rng.choice(ways)(depth)

    def arithmetic(self, depth: int) -> Text:
        left = self.number(self.expression(depth - 1))
        right = self.literal() if self.chance(0.3) else self.number(self.expression(depth - 1))
        more = ["/", "//", "%"] if self.numbers != "complex" else ["/"] * self.loose
        symbol = self.rng.choice(["+", "+", "-", "-", "*", "*", *more])
        if symbol in ("%", "/", "//") and self.chance(0.1):
            left = self.number(self.exact(left))
            right = self.large(left)
        if self.chance(0.1):
            return Text(f"(-{left.text})", _signed_tag(left.tag), left.approximate)
        if right.literal and symbol in "+-*" and self.chance(0.3):
            left, right = right, left
        return self.binary(symbol, left, right)

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
        left, way = self.whole(self.expression(depth - 1)), rng.randrange(10)
        if way < 5:
            divisor = rng.choice([3, -1, -7, 2**31])
            digits = rng.choice([-1, -1, -2, -3, 0, 2])
            text = [
                f"({left.text} << {rng.choice([*range(6), 31, 63, 64, 70])})",
                f"({left.text} >> {rng.choice([*range(6), 63, 64, 70])})",
                rng.choice([f"({left.text} ** {rng.randint(0, 3)})", f"(~{left.text})"]),
                f"{rng.choice(['round', 'np.round'])}({left.text}, {digits})",
                f"divmod({left.text}, {divisor})[{rng.randrange(2)}]",
            ][way]
            return Text(text, "int" if way == 4 and divisor < 0 else left.tag)
        right = self.whole(self.expression(depth - 1))
        if way == 5:
            return Text(f"({left.text} {rng.choice(['<<', '>>'])} {right.text})", left.tag)
        if way == 6:
            return Text(f"({left.text} << ({right.text} & 3))", left.tag)
        return Text(f"({left.text} {rng.choice('&|^')} {right.text})", _promoted(left, right))

    def counted(self, depth: int) -> Text:
        """Truth values count as 0 or 1."""
        pair = [f"({self.read_condition()})" for _ in range(2)]
        return Text(f"({pair[0]} {self.rng.choice('+-*')} {pair[1]})", "int")

    def choice(self, depth: int) -> Text:
        then, other = self.alike(self.expression(depth - 1), self.expression(depth - 1))
        tag, way = then.tag, self.rng.random()
        approximate = then.approximate or other.approximate
        if way < 0.15 and not approximate:
            text = f"({then.text} {self.rng.choice(['and', 'or'])} {other.text})"
        elif way < 0.4:
            tag, text = _strong(tag), f"np.where({self.condition(1)}, {then.text}, {other.text})"
        else:
            text = f"({then.text} if {self.condition(1)} else {other.text})"
        return Text(text, tag, approximate)

    def extreme(self, depth: int) -> Text:
        a, way = self.number(self.expression(depth - 1)), self.rng.random()
        if way < 0.15:
            a = self.chosen(a)
            return Text(f"np.clip({a.text}, -2, 9)", _strong(a.tag), a.approximate)
        b = self.number(self.expression(depth - 1))
        approximate = a.approximate or b.approximate
        if way < 0.45:
            name, tag = self.rng.choice(["minimum", "maximum"]), _strong(_promoted(a, b))
            if tag == "uint" and name == "minimum" and any(map(_signed, (a, b))):
                tag = "int"
            return Text(f"np.{name}({a.text}, {b.text})", tag, approximate)
        a, b = self.alike(a, b)
        third = [self.coerced(self.read(), a.tag).text] if self.chance(0.3) else []
        items = ", ".join([a.text, b.text, *third])
        return Text(f"{self.rng.choice(['min', 'max'])}({items})", a.tag, approximate)

    def cast(self, depth: int) -> Text:
        inner = self.chosen(self.expression(depth - 1))
        floats = ["np.float32", "np.float64", "np.float16"]
        if self.numbers == "float":
            ways = ["float", "abs", *floats]
        else:
            ways = ["int", "np.int8", "np.uint8", "np.int32", "np.int64", "round", "abs"]
            ways += floats if self.numbers == "mixed" else []
        way = self.rng.choice(ways)
        if way == "abs":
            inner = self.number(inner)
            return replace(inner, text=f"abs({inner.text})")
        if way == "np.float16":
            return Text(f"np.float16({self.exact(inner).text})", "f32")
        if way in floats or way == "float":
            tag = {"float": "weak", "np.float32": "f32"}.get(way, "f64")
            return Text(f"{way}({inner.text})", tag, inner.approximate)
        inner = self.exact(self.number(inner))
        if inner.tag == "uint" and way in ("int", "round"):
            return inner
        return Text(f"{way}({inner.text})", "int")

    def function(self, depth: int) -> Text:
        rng = self.rng
        inner = self.chosen(self.number(self.expression(depth - 1)))
        floating = "f64" if inner.tag in ("int", "uint", "weak") else inner.tag
        if self.numbers == "complex":
            return replace(inner, text=f"({inner.text}).conjugate()")
        way = rng.random()
        if way < 0.3:
            name = rng.choice(["np.sqrt", "math.sqrt"])
            tag = floating if name == "np.sqrt" else "weak"
            return Text(f"{name}(abs({inner.text}))", tag, inner.approximate)
        if way < 0.5 and not inner.approximate:
            name = rng.choice(["floor", "ceil", "trunc"])
            return Text(f"np.{name}({inner.text})", _strong(inner.tag))
        if 0.5 < way < 0.6 and not inner.approximate and self.numbers != "float":
            tag = "uint" if inner.tag == "uint" else "int"
            return Text(f"{rng.choice(['math.floor', 'math.ceil'])}({inner.text})", tag)
        if way < 0.7:
            return Text(f"np.abs({inner.text})", _strong(inner.tag), inner.approximate)
        if not self.loose:
            return inner
        name = rng.choice(["np.sin", "np.cos", "np.arctan", "np.tanh", "math.sin", "math.atan"])
        tag = floating if name.startswith("np") else "weak"
        return Text(f"{name}(np.clip({inner.text}, -50, 50))", tag, True)

    def helper(self, depth: int) -> Text:
        """A call of a plain function, or a lambda."""
        name, way = self.fresh("h"), self.rng.random()
        bodies = ["a + b", "a - 2 * b", "a * b + 1", "a if a > b else b", "abs(a - b)"]
        body = self.rng.choice(bodies)
        if way < 0.3:
            self.globals.append(f"{name} = lambda a, b: {body}")
        else:
            inner = ["    if a > b:", "        return a - b", f"    return {body}"]
            lines = inner if way < 0.5 else [f"    c = {body}", "    return c"]
            self.globals += [f"def {name}(a, b):", *lines]
        a, b = self.alike(self.exact(self.expression(depth - 1)), self.exact(self.leaf()))
        a, b = self.exact(a), self.exact(b)
        a, b = self.coerced(a, a.tag), self.coerced(b, a.tag)
        made = f"{name}({a.text}, {b.text})"
        # Of numbers of uint64 one branch is a uint64, and another an int64.
        return Text(f"int({made})", "int") if a.tag == "uint" else Text(made, a.tag)

    # Windows.

    def span(self, axis: int) -> str:
        """The offsets along one axis: a slice, or one number."""
        lo, hi = self.reach[axis]
        start = self.rng.randint(lo, hi)
        if self.chance(0.15):
            return str(start)
        return f"{start}:{min(hi, start + self.rng.randint(0, 3 if self.ndim < 3 else 2)) + 1}"

    def window(self, depth: int) -> Text:
        """A window, perhaps with arithmetic, and its reduction."""
        if self.pointwise:
            return self.leaf()
        rng = self.rng
        name, tag = self.field()
        spans = [self.span(axis) for axis in range(self.ndim)]
        if not any(":" in span for span in spans):
            spans[-1] = "0:2"
        ends = [tuple(map(int, span.split(":"))) for span in spans if ":" in span]
        shape = tuple(stop - start for start, stop in ends)
        size, index = math.prod(shape), f"[{', '.join(spans)}]"
        inner, plain, symbol = name + index, True, rng.choice("+-*")
        way = 1.0 if tag == "bool" else rng.random()
        other: Text | None = None
        if way < 0.25:
            symbol, flat = "*", [rng.choice([0, 0, 1, 2, -1, 4]) for _ in range(size)]
            flat[0] = flat[0] or int(not any(flat))
            whole = self.numbers == "int" or self.chance(0.5)
            dtype = "" if whole else ", np.float32" if tag in ("f32", "c64") else ", float"
            text = self.outside(f"np.array({np.reshape(flat, shape).tolist()}{dtype})")
            kind = "int" if whole else "f32" if "32" in dtype else "f64"
            other = Text(text, kind, literal=whole and min(flat) >= 0)
        elif way < 0.35:
            second, kind = self.field()
            other = Text(second + index, kind) if kind != "bool" else None
        elif way < 0.5:
            other = self.number(self.exact(self.leaf()))
        elif way < 0.6 and tag[0] != "c":
            name = rng.choice(["any", "all", "sum"])
            text = f"({inner} > {rng.randint(0, 4)}).{name}()"
            return Text(text, "int" if name == "sum" else "bool")
        elif way < 0.65 and self.standard.get("w", ("", ()))[1] == shape:
            symbol, other = "*", Text("w", TAGS.get(self.standard["w"][0], "int"))
        if other is not None:
            pair = [inner, other.text]
            if way < 0.25 and self.chance(0.5):
                pair.reverse()
            inner, plain = f"({pair[0]} {symbol} {pair[1]})", False
            sign = "" if way < 0.35 else other.text
            tag = _made(symbol, Text("", tag), replace(other, text=sign))
        if self.chance(0.2):
            mask = [self.chance(0.6) for _ in range(size)]
            mask[rng.randrange(size)] = True
            constant = self.outside(f"np.array({np.reshape(mask, shape).tolist()})")
            inner, size = f"{inner}[{constant}]", sum(mask)
        return self.reduced(inner, tag, plain, size)

    def reduced(self, inner: str, tag: str, plain: bool, size: int) -> Text:
        """A window's reduction: a function of NumPy's or of ours, or a method."""
        rng, whole, ordered = self.rng, tag in WHOLE, tag[0] != "c"
        given = ""
        if self.loose and self.chance(0.25):
            ways = ["nansum", "count_nonzero"] + ["nanmean"] * (plain or not whole)
            ways += ["nanmin", "nanmax"] * ordered + ["nanvar", "nanstd"] * (plain and ordered)
            ways += ["nanmedian", "nanquantile"] * (plain and ordered)
        elif self.loose and plain and not self.general and self.chance(0.1):
            ways = ["sum", "mean"] + ["min", "max", "var", "nansum", "nanmean"] * ordered
            test = f"({inner} > {rng.randint(0, 4)})" if ordered else f"({inner} == {inner})"
            given = f", where={self.read_condition() if self.chance(0.3) else test}"
        else:
            ways = ["min", "max", "ptp"] * ordered
            ways += ["argmin", "argmax", "mode"] * (plain and ordered)
            ways += ["sum", "sum"] * (whole or self.loose)
            ways += ["mean"] * (self.loose and (plain or not whole))
            if plain and ordered:
                ways += ["median"] * (size % 2 or self.loose)
                averages = ["mean", "std", "var", "percentile", "entropy", "trimmed_mean"]
                ways += averages * self.loose
        if not ways:
            return self.leaf()
        name, result = rng.choice(ways), tag
        if whole and name in _AVERAGES:
            result, self.averages = "f64", True
        elif name in _COUNTS or (tag == "bool" and (name in ("sum", "nansum", "ptp") or given)):
            result = "int"
        exact = name in (*_EXACT, "count_nonzero") or (whole and name in ("sum", "nansum"))
        exact = exact or (name == "median" and size % 2 == 1)
        if given and name in ("min", "max"):
            given += f", initial={rng.randint(0, 3)}"
        elif name == "trimmed_mean":
            given = f", {rng.choice([0, 0.1, 0.3])}"
        elif name == "percentile":
            given = f", {rng.choice([0, 10, 25, 50, 90, 100])}"
        elif name == "nanquantile":
            given = f", {rng.choice([0, 0.2, 0.75, 1])}"
        library = "npt" if name in ("mode", "entropy", "trimmed_mean") else "np"
        text = f"{library}.{name}({inner}{given})"
        if name in ("min", "max", "ptp", "argmin", "argmax", "sum", "mean", "std", "var"):
            text = f"{inner}.{name}()" if not given and self.chance(0.7) else text
        return Text(text, result, not exact)


def _cast(text: Text, tag: str) -> Text:
    return Text(f"{CASTS[tag]}({text.text})", tag, text.approximate)


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
    whole, floats = tags & {*WHOLE}, tags - {*WHOLE}
    if not floats:
        return "uint" if "uint" in whole else "int"
    if floats == {"weak"}:
        if not whole:
            return "weak"
        return "weak" if (left if left.tag != "weak" else right).literal else "f64"
    double = floats & {"f64", "c128"}
    if any(tag[0] == "c" for tag in floats):
        return "c128" if double else "c64"
    return "f64" if double else "f32"
