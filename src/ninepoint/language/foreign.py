"""Functions of other packages: where one cannot be compiled, the user's own line is shown.

    pd.isna(x[0])     ->     'pd.isna' cannot be compiled in a kernel: ... line 12 of the user's

not the line of pandas, which the user can neither read at a glance nor change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from . import errors
from .definitions import package
from .errors import Span, StencilError
from .source import Function


@contextmanager
def shown_at_home(function: Function) -> Iterator[None]:
    """Raise a mistake in a text of another package as one of the line that calls it."""
    try:
        yield
    except StencilError as error:
        at = error.diagnostic.span
        home = package(at.file)
        call = None if not home or package(function.file) else _call(function, at.file)
        if call is None:
            raise
        span, name = call
        reason = f"{error.diagnostic.message.rstrip('.')} (line {at.line})"
        raise errors.foreign_function(span, name, home, reason) from None


def _call(function: Function, file: str) -> tuple[Span, str] | None:
    """Where the user's own text first names a function that leads to a file."""
    for node in ast.walk(function.definition):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        name = ast.unparse(node)
        helper = function.constants.get(name)
        if isinstance(helper, Function) and _leads(helper, file):
            inside = None if package(helper.file) else _call(helper, file)
            return inside or (function.span(node), name)
    return None


def _leads(function: Function, file: str) -> bool:
    return function.file == file or any(
        isinstance(value, Function) and _leads(value, file)
        for value in function.constants.values()
    )
