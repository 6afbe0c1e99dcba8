"""The names in generated text, and what each operation of a kernel is there.

Names that the user gave and those of the compiler are kept apart:

    stage band  ->  band_, its row function band__row        field x1  ->  x1_

What the compiler names by number ends in a digit: t0, v0_3, out1, and so do the copies that it
makes of what a user has named: u_0, r__2.  What it names after something ends in one of a few
words: v0_row, v0_in.  A name of the user's does neither here, nor is it a word of the text.
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass, field

from ...language.dtypes import SHORT_FLOATS
from ...language.ir import Atom, Const, Kernel, by_number
from ...loops.nodes import SHORT
from ...loops.operations import Operations
from ..generated import Tables, varies


@dataclass(eq=False)
class Expressions(Operations):
    """The texts of the operations of one kernel, in which floats may stand in tables."""

    tables: Tables = field(default_factory=Tables, init=False)

    def fetched(self, atom: Atom, machine: str) -> str:
        """An operand, which is one of a table where it is a number that may be another."""
        if isinstance(atom, Const) and varies(machine, atom.value):
            return self.tables.fetch(machine, float(atom.value.real))
        return self.atom(atom, machine)


# Names.

# What the notes are called, which is no name of a kernel's, and in the text.
NOTES = "#notes"

LIBRARY = (
    *(
        "row row_from row_function fetch padded integer_divide integer_modulo integer_power "
        "nearest_multiple round_to_half shift_left shift_right floor_divide "
        "remainder saturate saturate_wide exp_float32 exp_float64 select "
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
