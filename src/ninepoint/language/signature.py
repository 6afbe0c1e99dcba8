"""What Python shows: the parameters of a kernel as those of any function, and texts as a page."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from html import escape
from inspect import Parameter, Signature
from typing import Any, TypeVar

import numpy as np

from .definitions import Definition, Function

_F = TypeVar("_F", bound=Callable[..., Any])

# The options that a call in a kernel may have.
OPTIONS = ("boundary", "cval", "dtype", "overflow", "every", "upsample")


def signature(definition: Definition, defaults: Mapping[str, Any]) -> Signature:
    """Give the signature that a function was written with, for values of its defaults.

    Annotations are left out: what they say of a number at one point, arrays are not.
    """
    arguments = definition.args
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


def give_defaults(made: Any, defaults: Mapping[str, Any]) -> None:
    """Let a function that was made without its defaults have these."""
    code = made.__code__
    positional = code.co_varnames[: code.co_argcount]
    made.__defaults__ = tuple(defaults[n] for n in positional if n in defaults) or None
    made.__kwdefaults__ = {n: defaults[n] for n in defaults if n not in positional} or None


def with_options(own: Signature, options: Mapping[str, Any]) -> Signature:
    """The signature with options behind its parameters, each with its default.

    Those who complete what is typed, and those who ask for help, find them there: without types,
    and without a default that stands for nothing.
    """
    parameters = [
        Parameter(p.name, p.kind, default=p.empty if type(p.default) is object else p.default)
        for p in own.parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=value)
        for name, value in options.items()
        if name not in own.parameters
    ]
    return Signature([*parameters, *more])


def as_read(options: Mapping[str, Any]) -> Callable[[_F], _F]:
    """The function with a signature for readers, in which these stand for its `**options`."""

    def decorate(function: _F) -> _F:
        shown = with_options(inspect.signature(function), options)
        function.__signature__ = shown  # type: ignore[attr-defined]
        return function

    return decorate


def filled(**parts: str | None) -> Callable[[_F], _F]:
    """The function with a docstring that shares parts with others.

    Each stands where the text has its name in braces; of a class it is what its attributes are.
    """

    def fill(function: _F) -> _F:
        text = inspect.cleandoc(function.__doc__ or "")
        for name, part in parts.items():
            own = inspect.cleandoc(part or "").rpartition("----------\n")[-1]
            text = text.replace(f"{{{name}}}", own)
        function.__doc__ = text
        return function

    return fill


def signature_text(function: Function) -> str:
    """Write the signature in one line: arrays among the defaults are left out."""
    defaults = {
        name: Page("...") if isinstance(value, np.ndarray) else value
        for name, value in function.defaults.items()
    }
    return str(signature(function.definition, defaults))


class Page(str):
    """A text of several lines: its `repr` is the text itself, without quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


WIDTH = 12  # of a label, which stands behind two blanks

_STYLE = "text-align:left;vertical-align:top;font-family:monospace;white-space:pre-wrap"


class Lines(list[str]):
    """A page, line by line, each with a label or under the last one."""

    def add(self, label: str, *texts: str) -> None:
        """Add lines, of which the first has a label."""
        for text in texts:
            self.append(f"  {label:<{WIDTH}}{text}")
            label = ""


class Explanation(Page):
    """Lines of text, each with a label; a table in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Give a table with a row for each label."""
        head, *rows = re.split(r"\n  (?=\S)", self)
        under = "\n" + " " * (2 + WIDTH)
        return table(
            head, [(row[:WIDTH].strip(), row[WIDTH:].replace(under, "\n")) for row in rows]
        )


def table(head: str, rows: Iterable[tuple[str, str]]) -> str:
    """Write a table of labels and texts, whose lines and blanks are kept."""
    body = "".join(
        f'<tr><th style="{_STYLE}">{escape(label)}</th>'
        f'<td style="{_STYLE}">{escape(text)}</td></tr>'
        for label, text in rows
    )
    return f"<table><caption><b>{escape(head)}</b></caption><tbody>{body}</tbody></table>"


def time_text(seconds: float) -> str:
    """A time with a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def counted(number: float, unit: str) -> str:
    """A number with its unit, and a prefix that suits it."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        # 999.9 M is written with three digits, and so is 1 G.
        if number >= 0.9995 * scale:
            return f"{number / scale:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def many(number: float, word: str) -> str:
    """A number with its word: 1 field, 2 fields, 3.7 loads."""
    return f"{number:g} {word}" if number == 1 else f"{round(number, 1):g} {word}s"
