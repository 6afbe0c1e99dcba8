"""The parameters of a kernel as Python shows those of any function."""

from __future__ import annotations

import ast
from inspect import Parameter, Signature

import numpy as np

from .source import Function


def signature(function: Function) -> Signature:
    """Give the signature that the function was written with, in any process.

    Annotations are left out: what they say of a number at one point, arrays are not.
    """
    arguments, defaults = function.definition.args, function.defaults
    kinds = (
        (arguments.posonlyargs, Parameter.POSITIONAL_ONLY),
        (arguments.args, Parameter.POSITIONAL_OR_KEYWORD),
        (arguments.kwonlyargs, Parameter.KEYWORD_ONLY),
    )
    return Signature(
        [
            Parameter(one.arg, kind, default=defaults.get(one.arg, Parameter.empty))
            for some, kind in kinds
            for one in some
        ]
    )


class _Rest:
    """Stands for a value that is too long to be shown."""

    def __repr__(self) -> str:
        return "..."


def signature_text(function: Function) -> str:
    """Write the signature in one line: arrays among the defaults are left out."""
    found = signature(function)
    return str(
        found.replace(
            parameters=[
                one.replace(default=_Rest()) if isinstance(one.default, np.ndarray) else one
                for one in found.parameters.values()
            ]
        )
    )


def docstring(function: Function) -> str | None:
    """Give the text that describes the function, as far as it has one."""
    definition = function.definition
    return None if isinstance(definition, ast.Lambda) else ast.get_docstring(definition)
