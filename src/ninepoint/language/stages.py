"""Stages: the stencils that a kernel calls on its fields, met while its text is read.

    def corners(x, k):             StageCall: xx is square of x, for the number 2 * k
        xx = square(x, 2 * k)  ->
        return xx[0, 1] - k        t0 = read xx 0 1;  t1 = t0 - k

A call is done once for whole arrays, before the kernel is done at any point.  So what it makes is
a field of the kernel from there on, and equal calls make the same one.

What looks at no neighbour may be called on numbers as well, as in `f(x[0], x[1])`.  That is no
stage, but a helper function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.frozen import frozen
from ..base.remembered import digest
from .definitions import Spacing
from .errors import Span, here, hint, mistake
from .functions import PYTHON, UNARY
from .ir import (
    Atom,
    Binary,
    Body,
    Call,
    Cast,
    Coefficients,
    Const,
    Element,
    Expr,
    Field,
    Ref,
    Select,
    Unary,
    atoms,
)
from .signature import OPTIONS, signature, with_options
from .values import Choice, Value, reading


@frozen
class Told:
    """A number that a kernel computes of its scalars, for all points alike."""

    atom: Atom
    weak: bool
    body: Body


@frozen
class StageCall:
    """One call: of what, on which arrays and numbers, and what its results are called.

    `callee` is the definition of a stencil.  `fields` names an array for each field of it: a
    parameter of the kernel, or what an earlier call made.  `scalars`, of which there are all, and
    `options` are known, or told by the kernel's scalars.
    """

    callee: Any
    span: Span
    fields: tuple[str, ...]
    scalars: Mapping[str, Any]
    options: Mapping[str, Any]
    made: tuple[str, ...]


def stage(callee: Any, args: Sequence[Any], named: Mapping[str, Any], names: Sequence[str]) -> Any:
    """What a stencil makes of fields: a field, or several where so many `names` wait for them."""
    wrong = partial(mistake, "stage-arguments", callee.name)
    own = signature(callee.function.definition, callee.defaults)
    whole = with_options(own, dict.fromkeys(OPTIONS))
    try:
        given = whole.bind(*args, **named).arguments
    except TypeError as error:
        hints = (hint(name, OPTIONS) for name in named if name not in whole.parameters)
        raise wrong(f"{error}{''.join(hints)}") from None
    for name, default in callee.defaults.items():
        if isinstance(default, Spacing) and name not in given:
            raise wrong(f"'{name}' is {default!r}, which only calls outside know")
    arrays = {
        name: given.pop(name, None)
        for name in callee.fields
        # A ufunc may be given numbers for arrays.
        if not callee.pointwise or isinstance(given.get(name), Field)
    }
    for name, value in arrays.items():
        if not isinstance(value, Field):
            raise mistake("stage-field", callee.name, name)
    if reading.body.depth:
        raise mistake("stage-place", callee.name)
    fields = tuple(one.name for one in arrays.values())
    given = {**callee.defaults, **given}
    told = {name: _told(callee.name, name, value) for name, value in given.items()}
    options = {name: told.pop(name) for name in OPTIONS if name in told}
    met, key = reading.stages, digest((callee, fields, told, options))
    made = met.known.get(key)
    if made is None:
        made = met.known[key] = tuple(map(met.label, names or (callee.name,)))
        met.calls.append(StageCall(callee, here.span, fields, told, options, made))
    found = tuple(Field(n, met.storages.get(n, met.any_one)) for n in made)
    return found if len(found) > 1 else found[0]


def _told(callee: str, parameter: str, value: Any) -> Any:
    """An argument that is the same at every point."""
    match value:
        case tuple():
            return tuple(_told(callee, parameter, one) for one in value)
        case Choice(test, then, other):
            return Choice(*(_told(callee, parameter, one) for one in (test, then, other)))
        case Value(atom, weak, shape=()):
            body = reading.body.assignments((atom,))
            used = [atom, *(part for one in body for part in atoms(one.value))]
            # Lengths of arrays are known where the calls are done only.
            length = any(isinstance(one, Ref) and one.name.startswith("length") for one in used)
            if not length and all(isinstance(one.value, _PLAIN) for one in body):
                return Told(atom, weak, body)
    if isinstance(value, Value | Field):
        raise mistake("stage-scalar", parameter, callee)
    return value


# Operations that give the same at every point.
_PLAIN = (Unary, Binary, Select, Cast, Call, Element)


def is_told(value: Any) -> bool:
    """Whether an argument depends on the kernel's scalars."""
    if isinstance(value, tuple):
        return any(map(is_told, value))
    return isinstance(value, Told | Coefficients | Choice)


def evaluated(value: Any, scalars: Mapping[str, Any]) -> Any:
    """The arguments of a call, or one of them, for values of the kernel's scalars."""
    match value:
        case dict():
            return {name: evaluated(one, scalars) for name, one in value.items()}
        case tuple():
            return tuple(evaluated(one, scalars) for one in value)
        case Choice(test, then, other):
            return evaluated(then if evaluated(test, scalars) else other, scalars)
        case Coefficients(name=name):
            return scalars[name]
    if not isinstance(value, Told):
        return value
    # By their names in the kernel, those of arrays as well.
    known = {f"{name}{end}": one for name, one in scalars.items() for end in ("", "_")}

    def number(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Const) else known[atom.name]

    if not value.body:
        return number(value.atom)
    with np.errstate(all="ignore"):
        for assign in value.body:
            expr = assign.value
            made = _done(expr, [*map(number, atoms(expr))], known)
            known[assign.name] = expr.dtype.numpy.type(made)
    found = number(value.atom)
    return found.item() if value.weak else found


def _done(expr: Expr, args: Sequence[Any], arrays: Mapping[str, Any]) -> Any:
    """A plain operation on numbers."""
    match expr:
        case Binary(op="round"):
            return np.rint(args[0] / args[1]) * args[1]
        case Unary(op=name) | Binary(op=name) | Call(function=name):
            known = UNARY if len(args) == 1 else PYTHON
            return (known.get(name) or getattr(np if hasattr(np, name) else math, name))(*args)
        case Select():
            return args[1] if args[0] else args[2]
        case Cast(storage=storage):
            return np.asarray(args[0]).astype(storage or expr.dtype.numpy)
        case Element(array=array, index=index):
            return arrays[array][index]
        case _:
            raise AssertionError(expr)
