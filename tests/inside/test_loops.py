"""The loop language: what text is read as, and what no module may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ninepoint.loops.nodes import (
    Array,
    Assign,
    Break,
    Call,
    For,
    Function,
    If,
    Let,
    Load,
    Module,
    Name,
    Number,
    Op,
    Return,
    Size,
    Store,
    Value,
    Variable,
    View,
)
from ninepoint.loops.reading import NotRead, functions_of, read
from ninepoint.loops.values import applied, chosen, compared, convert, cut, number, word
from verify_loops import verify

LIBRARY = """
def twice(a):
    return a + a

def first_above(a, limit):
    for i in range(a.shape[0]):
        if a[i] > limit:
            return i
    return -1
"""


def band(text: str, *types: tuple[str, int], **constants: float) -> Function:
    """The function `band` of a text, which is verified."""
    module = read(text, functions_of(LIBRARY), constants, types)
    verify(module)
    return module.function("band")


def loop(function: Function) -> For:
    return next(one for one in function.body if isinstance(one, For))


def named(name: str, machine: str) -> Name:
    return Name(machine, name)


def test_a_loop_over_elements() -> None:
    made = band(
        "def band(x, out):\n"
        "    for j in range(x.shape[0]):\n"
        "        t = x[j]\n"
        "        out[j] = i16(t + t)\n",
        ("int8", 1),
        ("int16", 1),
    )
    x, out, j = Array("int8", 1, "x"), Array("int16", 1, "out"), named("j", "int64")
    both = Op("int16", "to", (Op("int64", "to", (named("t", "int8"),)),))
    assert loop(made) == For(
        "j",
        word(0),
        Size(x, 0),
        (
            Let("t", Load(x, (j,))),
            Store(out, (j,), Op("int16", "+", (both, both))),
        ),
    )


def test_a_name_that_is_assigned_twice_is_a_variable() -> None:
    made = band(
        "def band(x, out):\n"
        "    total = 0.0\n"
        "    for j in range(x.shape[0]):\n"
        "        total += x[j]\n"
        "    out[0] = total\n",
        ("float32", 1),
        ("float64", 1),
    )
    assert made.body[0] == Variable("total", number("float64", 0))
    assert isinstance(loop(made).body[0], Assign)


def test_a_name_keeps_what_a_parameter_was_before_it_changes() -> None:
    text = (
        "def turned(a, b):\n    before = a\n    a, b = b, a\n    return before + b\n"
        "def band(out):\n    out[0] = turned(1, 2)\n"
    )
    module = read(text, {}, {}, [("int64", 1)])
    verify(module)
    _, _, before, *kept = module.function("turned").body
    assert before == Let("before", named("a.2", "int64"))
    assert [one.value for one in kept[:2]] == [named("b.2", "int64"), named("a.2", "int64")]


def test_a_name_of_two_types_in_a_loop_is_refused() -> None:
    text = (
        "def band(x, out):\n    t = 0\n    for j in range(2):\n        t = x[j]\n    out[0] = t\n"
    )
    with pytest.raises(NotRead, match="t is of two types: int64 and float32"):
        band(text, ("float32", 1), ("float32", 1))


def test_functions_are_read_for_the_types_that_they_are_called_with() -> None:
    text = "def band(x, y, out):\n    out[0] = twice(x[0]) + twice(y[0])\n"
    module = read(text, functions_of(LIBRARY), {}, [("int8", 1), ("float32", 1), ("float64", 1)])
    verify(module)
    results = {one.name: one.result for one in module.functions}
    assert results == {"twice": "int64", "twice.1": "float32", "band": ""}


def test_a_function_that_returns_in_a_loop() -> None:
    made = band("def band(x, out):\n    out[0] = first_above(x, 3)\n", ("uint8", 1), ("int64", 1))
    assert isinstance(made.body[-1], Store)


def test_constants_and_tables_are_known() -> None:
    module = read(
        "import numpy as np\nWEIGHTS = np.array([0.25, 0.5])\n"
        "def band(out):\n    out[0] = WEIGHTS[1] * scale\n",
        {},
        {"scale": 2.0},
        [("float64", 1)],
    )
    verify(module)
    ((name, table),) = module.tables
    assert name == "WEIGHTS"
    assert table.tolist() == [0.25, 0.5]


def test_the_second_operand_is_computed_only_if_it_is_needed() -> None:
    made = band(
        "def band(x, out, n):\n    if n > 0 and x[n - 1] > 0.0:\n        out[0] = 1.0\n",
        ("float64", 1),
        ("float64", 1),
        ("int64", 0),
    )
    later = next(one for one in made.body if isinstance(one, If))
    assert isinstance(later.then[0], Assign)


@pytest.mark.parametrize(
    "line", ["import os", "x.sort()", "out[0] = [1]", "del x", "out[0] = unknown"]
)
def test_other_text_is_refused(line: str) -> None:
    with pytest.raises(NotRead):
        band(f"def band(x, out):\n    {line}\n", ("float64", 1), ("float64", 1))


a8, b16 = named("a", "int8"), named("b", "int16")
u64, f32 = named("u", "uint64"), named("f", "float32")


@pytest.mark.parametrize(
    ("value", "machine"),
    [
        (applied("+", a8, b16), "int64"),
        (applied("/", a8, b16), "float64"),
        (applied("*", f32, a8), "float32"),
        (applied("*", f32, named("n", "int64")), "float64"),
        (applied("+", u64, number("int64", 3)), "uint64"),
        (compared("<", a8, b16), "bool"),
        (chosen(named("t", "bool"), a8, f32), "float32"),
    ],
)
def test_the_type_of_two_numbers(value: Value, machine: str) -> None:
    assert value.type == machine


def test_an_unsigned_word_beside_a_signed_number_has_no_type() -> None:
    for write in (lambda: applied("+", a8, u64), lambda: compared("<", a8, u64)):
        with pytest.raises(TypeError, match="unsigned integer of 64 bits beside a signed one"):
            write()


def test_a_sum_is_cut_to_the_bits_that_are_stored() -> None:
    whole = applied("+", a8, word(300))
    assert cut(whole, "int16") == Op(
        "int16", "+", (convert(convert(a8, "int64"), "int16"), number("int16", 300))
    )


def test_a_sum_is_never_made_wider() -> None:
    narrow = cut(applied("+", a8, b16), "uint16")
    assert cut(narrow, "uint64") == Op("uint64", "to", (narrow,))


def test_known_numbers_are_computed_at_once() -> None:
    assert applied("*", word(6), word(7)) == word(42)
    assert compared("<", word(6), word(7)) == Number("bool", True)
    assert applied("+", named("i", "int64"), word(0)) == named("i", "int64")
    assert convert(number("int64", 300), "uint8") == number("uint8", 44)


X = Array("float32", 1, "x")
OUT = Array("float32", 1, "out")
J = named("j", "int64")
MODULE = Module(
    (
        Function("half", (named("v", "float32"),), (Return(named("v", "float32")),), "float32"),
        Function("band", (X, OUT), (For("j", word(0), Size(X, 0), ()),)),
    )
)


def of(*statements: Any, inside: bool = True) -> Module:
    """The module, whose band does these, inside its loop or behind it."""
    half, whole = MODULE.functions
    (around,) = whole.body
    assert isinstance(around, For)
    body = (replace(around, body=statements),) if inside else (around, *statements)
    return replace(MODULE, functions=(half, replace(whole, body=body)))


element = Load(X, (J,))
GOOD = [
    of(Store(OUT, (J,), element)),
    of(Let("t", element), Store(OUT, (J,), Op("float32", "+", (named("t", "float32"),) * 2))),
    of(Variable("v", word(0)), Assign("v", word(1)), If(number("bool", True), (Break(),))),
    of(Store(OUT, (J,), Call("float32", "half", (element,)))),
    of(View(Array("int32", 1, "bits"), X)),
]
BAD = [
    (of(Store(OUT, (J,), Op("float64", "to", (element,)))), "out: float64, not float32"),
    (of(Store(OUT, (J, J), element)), "2 indices, 1 axes"),
    (of(Store(OUT, (J,), named("t", "float32"))), "t is not known"),
    (of(Store(OUT, (J,), element), inside=False), "j is not known"),
    (of(Let("j", word(0))), "bound twice"),
    (of(Let("t", word(0)), Assign("t", word(1))), "no variable"),
    (of(Variable("v", word(0)), Assign("v", element)), "v: float32, not int64"),
    (of(Let("t", Op("float32", "+", (element, word(1))))), r"\+ of float32, int64"),
    (of(Let("t", Op("int8", "<", (word(1), word(1))))), "< of int64, int64 is no int8"),
    (of(Let("t", Op("float32", "+", (element, element), exact=True))), "never exact"),
    (of(Let("t", Number("int8", 300))), "300 is no int8"),
    (of(Let("t", Number("float128", 1.0))), "no type 'float128'"),
    (of(If(word(1), ())), "a test: int64"),
    (of(Break(), inside=False), "no loop"),
    (of(Call("float32", "half", (word(1),))), "v of half: int64"),
    (of(Call("", "half", (element,))), "half: nothing, not float32"),
    (of(Return(element)), "band: float32, not nothing"),
    (of(View(Array("int64", 1, "bits"), X)), "another size"),
    (of(View(Array("float32", 1, "row"), X, (J,))), "0 axes are left"),
    (of(Store(Array("float32", 1, "y"), (J,), element)), "y is not known"),
    (replace(MODULE, functions=MODULE.functions * 2), "one name"),
]


@pytest.mark.parametrize("module", GOOD)
def test_these_modules_hold(module: Module) -> None:
    verify(module)


@pytest.mark.parametrize(("module", "words"), BAD)
def test_these_modules_do_not(module: Module, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        verify(module)


def test_numbers_may_be_named_like_types() -> None:
    text = "def band(b1, out):\n    out[0] = b1(out[1]) & (b1 > 2)"
    types = [("int64", 0), ("int64", 1)]
    body = read(text, {}, {}, types).function("band").body
    text = text.replace("b1 > 2", "b > 2").replace("(b1, ", "(b, ")
    other = read(text, {}, {}, types).function("band").body
    assert repr(body) == repr(other).replace("name='b'", "name='b1'")
