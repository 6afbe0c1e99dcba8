"""What goes wrong in functions of core arrays, in words for the user, at a line of the text."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core.errors import NumbaError, NumbaWarning

from ..backends.numba import raised
from ..backends.numba.raised import Outside, plain, reason
from ..language import errors
from ..language.errors import Diagnostic, Span
from ..language.source import own_nodes
from .definition import GufuncDefinition

_NUMBER = r"(?:bool|u?int\d+|float\d+|complex\d+)"
_WRITES = re.compile(
    r"Cannot modify readonly array|(?:setitem|arr_fill|run_quicksort\d?)\(readonly array"
)
_INDEXED_NUMBER = re.compile(rf">>> (?:static_)?getitem\({_NUMBER},")
_ALGEBRA = re.compile(
    r">>> (?:v?dot|matmul)\([^\n]*array\((?:bool|u?int)"
    r"|only supported on (?:float|complex|float and complex) arrays|unsupported dtype for <BLAS"
)


@contextmanager
def explained(definition: GufuncDefinition) -> Iterator[None]:
    """Raise what Numba finds as a mistake at the user's line, without its traceback."""
    try:
        with warnings.catch_warnings():
            # What may be slow is told by a measurement.
            warnings.simplefilter("ignore", NumbaWarning)
            yield
    except (NumbaError, AssertionError, NotImplementedError, AttributeError) as error:
        # The others where Numba has begun something and finds that it lacks a part; the last one
        # of `x += 1` for an input, which may not be written to.
        text = plain(error)
        place = raised.place(definition.function, text, error)
        if isinstance(error, AttributeError) and (changed := _changed(definition)):
            raise errors.input_changed(changed) from None
        if _WRITES.search(text):
            raise errors.input_changed(place) from None
        if _INDEXED_NUMBER.search(text):
            raise errors.core_number(place) from None
        if _ALGEBRA.search(text):
            raise errors.core_integers(place) from None
        raise errors.body_not_compiled(place, reason(text)) from None


def _changed(definition: GufuncDefinition) -> Span | None:
    """Where an input is the target of `+=` and the like, if it is anywhere."""
    function = definition.function
    for node in own_nodes(function.definition):
        match node:
            case ast.AugAssign(target=ast.Name(name)) if name in definition.inputs:
                return function.span(node)
    return None


class WrongShape(ValueError):
    """Its arguments are the number of a result, counted from 1, and the shape that it has."""


def in_words(definition: GufuncDefinition, error: Outside | WrongShape) -> Exception:
    """The error that a user sees, for one that compiled code raised."""
    if isinstance(error, Outside):
        return _outside(definition, *error.args)
    number, shape = error.args
    signature = definition.signature
    which = f"result {number}" if len(signature.outputs) > 1 else "the result"
    return ValueError(
        f"{which} of '{definition.name}' has the shape {shape}, which is not "
        f"({', '.join(signature.outputs[number - 1])}) of {signature} for these arrays."
    )


def _outside(definition: GufuncDefinition, name: str, row: int, array: str) -> IndexError:
    """The error that says at which of the user's lines an array was left."""
    span = definition.function.place
    for one in raised.all_functions(definition.function):
        if one.name == name:
            span = raised.whole_line(one, one.definition.lineno + row)
            break
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
