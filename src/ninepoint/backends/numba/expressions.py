"""The text of one operation, in the plain Python that Numba compiles.

    Assign t2 = t0 + t1, int16     ->     "i16(i16(t0) + i16(t1))"

Every integer is cast to the type it is computed in: Numba widens to 64 bits after each
operation, and the cast tells LLVM that it need not.  Which types these are is decided in
`lowering.typed`; here it is only printed.

Names that the user gave and those of the compiler are kept apart:

    stage band  ->  band_, its row function band__row        field x1  ->  x1_

What the compiler names by number ends in a digit: t0, v0_3, out1, and so do the copies that it
makes of what a user has named: u_0, r__2.  What it names after something ends in one of a few
words: v0_row, v0_in.  A name of the user's does neither here, nor is it a word of the text.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import assert_never

import numpy as np

from ...analysis.ranges import Interval
from ...language.dtypes import SHORT_FLOATS
from ...language.functions import FLOAT_FUNCTIONS
from ...language.ir import Atom, Expr, Kernel
from ...loops.nodes import SHORT
from ...lowering.fusion import by_number
from ...lowering.typed import (
    Apply,
    Choose,
    Function,
    Given,
    Node,
    Number,
    Part,
    To,
    Typed,
    Whole,
)
from ..generated import Tables, varies

# What generated text has of its own; other functions are NumPy's, or C's.
_SUPPORTED = frozenset(
    "integer_divide integer_modulo integer_power nearest_multiple round_to_half shift_left "
    "shift_right floor_divide_float32 floor_divide_float64 remainder saturate saturate_wide "
    "exp_float32 exp_float64 complex lesser greater".split()
)


class Expressions(Typed):
    """The texts of the operations of one kernel; `names` are those that scalars have in it."""

    def __init__(
        self, known: dict[str, Interval], types: dict[str, str], names: Mapping[str, str]
    ) -> None:
        super().__init__(known, types)
        self.names = names
        self.tables = Tables()

    def atom(self, atom: Atom, machine: str | None = None) -> str:
        """An operand, in a given machine type."""
        return self._print(self.operand(atom, machine))

    def text(self, name: str, expr: Expr) -> str:
        """The text of an operation that takes atoms only."""
        return self._print(self.operation(name, expr))

    def _print(self, node: Node) -> str:
        match node:
            case Given(name):
                return self.names.get(name, name)
            case Number(machine, value):
                return number(machine, value)
            case Whole(value):
                return str(value)
            case To(machine, arg):
                return f"{SHORT[machine]}({self._print(arg)})"
            case Function(name, args):
                listed = ", ".join(map(self._print, args))
                row = FLOAT_FUNCTIONS.get(name)
                room = "np." if row is None or row.numpy else "math."
                room = "" if name in _SUPPORTED else room
                return f"{room}{name}({listed})"
            case Part(which, arg):
                return f"{self._within(arg)}.{which}"
            case Choose(test, then, other):
                chosen, asked, last = (self._within(one, Choose) for one in (then, test, other))
                return f"{chosen} if {asked} else {last}"
            case Apply("not", (arg,)):
                return f"not {self._within(arg)}"
            case Apply(op, (arg,)):
                return f"{op}{self._within(arg)}"
            case Apply(op, (left, right)):
                if op in ("+", "-", "*", "/"):
                    left, right = self._fetched(left), self._fetched(right)
                return f"{self._within(left)} {op} {self._within(right)}"
            case Apply():
                raise AssertionError(node)
            case _:
                assert_never(node)

    def _fetched(self, node: Node) -> Node:
        """An operand, which is one of a table where it is a number that may be another."""
        if isinstance(node, Number) and varies(node.machine, node.value):
            return Given(self.tables.fetch(node.machine, float(node.value.real)))
        return node

    def _within(self, node: Node, *kinds: type) -> str:
        """The text, in parentheses if it is of some kinds, by default one that binds loosely."""
        text = self._print(node)
        return f"({text})" if isinstance(node, kinds or (Apply, Choose)) else text


def number(machine: str, value: bool | int | float | complex) -> str:
    """A number of a machine type."""
    if machine == "bool":
        return str(bool(value))
    if machine.startswith("complex"):
        whole = complex(value)
        return f"{SHORT[machine]}(complex({_float(whole.real)}, {_float(whole.imag)}))"
    assert not isinstance(value, complex)
    if machine.startswith("float"):
        text = _float(float(value))
        return text if machine == "float64" else f"f32({text})"
    bits = np.dtype(machine).itemsize * 8
    whole_value = int(value) % 2**bits
    if machine.startswith("int") and whole_value >= 2 ** (bits - 1):
        whole_value -= 2**bits
    return f"{SHORT[machine]}({whole_value})"


def _float(value: float) -> str:
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return repr(value)


# Names.

LIBRARY = (
    *(
        "row row_from row_function fetch padded integer_divide integer_modulo integer_power "
        "nearest_multiple round_to_half shift_left shift_right floor_divide_float32 "
        "floor_divide_float64 remainder saturate saturate_wide exp_float32 exp_float64 select "
        "keyed ordered same_bits slid absent_ends beyond_ends absent_row beyond_turn go_on note "
        "nan inf LONG_ROW"
    ).split(),
    *SHORT.values(),
    *(name for one in SHORT_FLOATS.values() for name in (one.load, one.store)),
)

# Modules, built-in functions, and what the loops call their own values.
_WORDS = (
    "np math band range min max int float bool complex abs len round pow divmod "
    "b d i j k n far many rest value whole notes turns"
)

RESERVED = frozenset(
    {
        *LIBRARY,
        *_WORDS.split(),
        *keyword.kwlist,
        *keyword.softkwlist,
        "__debug__",
    }
)

# How the names end of functions and values that belong to a stage or to an operation.
_DERIVED = ("_row", "_rows", "_add", "_move", "_in", "_out", "_next", "_sum")


def kernel_names(kernel: Kernel) -> dict[str, str]:
    """The names in generated text of all that a kernel is given, and of its stages."""
    stages = [name for stage in kernel.stages for name in stage.names]
    given = [name for name, _ in (*kernel.fields, *kernel.scalars)]
    given += [name for name, _, _ in kernel.coefficients]
    safe: dict[str, str] = {}
    for name in (*given, *stages):
        new = name
        # A stage of the compiler's own has a name that nothing else has.
        own = name in stages and by_number(name)
        while not own and (
            new in RESERVED or by_number(new) or new.endswith(_DERIVED) or new in safe.values()
        ):
            new += "_"
        safe[name] = new
    return safe


def as_tuple(items: list[str]) -> str:
    """The text of a tuple."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
