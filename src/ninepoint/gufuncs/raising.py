"""What compiled functions of core arrays raise, in words for the user."""

from __future__ import annotations

from ..backends.outside import Outside
from ..language.errors import Diagnostic
from .definition import FROM_LAMBDA, GufuncDefinition, all_functions, whole_line


class WrongShape(ValueError):
    """Its arguments are the number of a result, counted from 1, and the shape that it has."""


def in_words(definition: GufuncDefinition, error: Outside | WrongShape) -> Exception:
    """The error that a user sees."""
    if isinstance(error, Outside):
        return _placed(definition, error)
    number, shape = error.args
    core = definition.signature.outputs[number - 1]
    several = len(definition.signature.outputs) > 1
    which = f"result {number}" if several else "the result"
    return ValueError(
        f"{which} of '{definition.name}' has the shape {shape}, which is not "
        f"({', '.join(core)}) of {definition.signature} for these arrays."
    )


def _placed(definition: GufuncDefinition, outside: Outside) -> IndexError:
    """The error that says at which of the user's lines an array was left."""
    name, row, array = outside.args
    for one in all_functions(definition.function):
        if one.name == name or (one.is_lambda and name == FROM_LAMBDA):
            span = whole_line(one, one.definition.lineno + row)
            break
    else:
        span = definition.function.place
    where = repr(array) if array else "an array"
    return IndexError(
        Diagnostic(
            "outside-array",
            f"'{definition.name}' reads or writes outside {where}.",
            span,
            "an index here is outside its array",
            f"{definition.name}.debug(...) computes in Python, and says which index it is.",
        )
    )
