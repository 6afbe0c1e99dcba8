"""Gufuncs on arrays of NumPy: the stack is cut into parts, which threads share.

NumPy's own gufunc (see `compiled`) is called for each part.  The first part tells how long the
others take, and whether it is worth it to share them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays.accepted import check_writable, listed
from ..backends.numba.users import whole_line
from ..backends.outside import Outside
from ..backends.threads import run_parallel, thread_count
from ..base import limits
from ..language.definitions import with_helpers
from ..language.dtypes import castable
from ..language.errors import Diagnostic
from ..program.waiting import before_writing, waiting
from .calling import Arguments, Items, as_input, items, single_or_tuple
from .compiled import Compiled, Operand, WrongShape, compile_for
from .definition import GufuncDefinition

# The first part of a stack, by which the others are judged, is so small.
_FIRST = 64

# What a call of NumPy's function for a part takes, whatever it computes [s].
_CALL = 5e-6

# How many parts a thread is given, so that one that comes late takes fewer; and how long a part
# may take, so that an interrupt is heard, and what is copied stays in the caches [s].
_PARTS, _LONGEST = 4, 2e-3


def on_numpy(gufunc: Any, given: Arguments) -> Any:
    """What a call gives for arrays of NumPy."""
    definition: GufuncDefinition = gufunc.definition
    call = items(definition, list(map(as_input, given.inputs, definition.inputs)), given)
    compiled = compile_for(definition, call.types, given.options)
    outs = listed(given.options.get("out"))
    if "out" in given.options:
        targets = _targets(definition, compiled, call, outs)
        if waiting:
            before_writing(outs)
    else:
        targets = [np.empty(call.shape(k), one.dtype) for k, one in enumerate(compiled.outputs)]
    # NumPy takes an array that is input and result for one that is read element by element.
    apart = any(np.may_share_memory(one, value) for one in outs for value in call.inputs)
    made = [np.empty_like(one) for one in targets] if apart else targets
    inputs = [*call.inputs, *given.scalars.values()]
    try:
        _compute(compiled, inputs, made, given.options.get("threads"))
    except (Outside, WrongShape) as error:
        raise _in_words(definition, error) from None
    if apart:
        for target, one in zip(targets, made, strict=True):
            target[...] = one
    return single_or_tuple(outs or [call.placed(one, k) for k, one in enumerate(made)])


def _targets(
    definition: GufuncDefinition, compiled: Compiled, call: Items, outs: Sequence[Any]
) -> list[Any]:
    """Views of the arrays that take the results, core axes last, if they can."""
    if len(outs) != len(compiled.outputs):
        raise ValueError(
            f"out has {len(outs)} arrays, but '{definition.name}' has "
            f"{len(compiled.outputs)} results."
        )
    for k, (array, operand) in enumerate(zip(outs, compiled.outputs, strict=True)):
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"out must be a NumPy array, not {type(array).__name__}.")
        dtype = operand.dtype
        if not castable(dtype, array.dtype):
            raise TypeError(
                f"out has dtype {array.dtype}, but the result has {dtype}; give an array of "
                f"{dtype}."
            )
        wanted = call.placed(np.broadcast_to(False, call.shape(k)), k).shape
        # It may have more axes in front, along which the result is repeated.
        if array.shape[max(0, array.ndim - len(wanted)) :] != wanted:
            raise ValueError(f"out has shape {array.shape}, but the result has {wanted}.")
    check_writable(outs)
    return [call.last(array, k) for k, array in enumerate(outs)]


def _compute(
    compiled: Compiled, inputs: Sequence[Any], outs: Sequence[Any], threads: int | None
) -> None:
    """Compute the results for all items of the stack."""
    several = thread_count(threads)
    stack = outs[0].shape[: outs[0].ndim - len(compiled.outputs[0].core)]
    count = max(stack, default=1)
    # Counted from behind the stack, as in inputs; 0 if there is none.
    axis = stack.index(count) - len(stack) if stack else 0
    kinds = [*compiled.inputs, *compiled.outputs]

    def part(begin: int, end: int) -> float:
        """Compute the results for some items, and say how long it takes [s]."""
        pairs = zip((*inputs, *outs), kinds, strict=True)
        own = [_cut(one, kind, axis, begin, end) for one, kind in pairs]
        given = list(own)
        begun = time.perf_counter()
        for k, (one, kind) in enumerate(zip(own, kinds, strict=True)):
            if not _in_order(one, kind):
                given[k] = np.empty(one.shape, kind.dtype)
                if k < len(inputs):
                    given[k][...] = one
        compiled.call(*given)
        for target, one in zip(own[len(inputs) :], given[len(inputs) :], strict=True):
            if target is not one:
                target[...] = one
        return time.perf_counter() - begun

    size, short = inputs[0].size, limits.current.handoff_seconds
    first = count if size <= compiled.most else count // _FIRST or 1
    spent = part(0, first)
    left = max(0.0, spent - _CALL) / max(first, 1) * (count - first)
    compiled.most = size * short / (spent + left)
    parts = 1
    if left >= short:
        parts = max(_PARTS * several if several > 1 else 1, int(left / _LONGEST))
    step = -(-(count - first) // parts) or 1
    places = range(first, count, step)
    tasks = (functools.partial(part, k, min(k + step, count)) for k in places)
    run_parallel(tasks, several if parts > 1 else 1)


def _cut(array: Any, kind: Operand, axis: int, begin: int, end: int) -> Any:
    """Some items of an array along an axis of the stack; all if it is repeated there."""
    back = len(kind.core) - axis
    if not axis or array.ndim < back or array.shape[-back] == 1:
        return array
    return array[(..., slice(begin, end), *(slice(None),) * (back - 1))]


def _in_order(array: Any, kind: Operand) -> bool:
    """Whether compiled code reads an array where it lies: its core axes are in C's order."""
    if array.dtype != kind.dtype or not array.flags.aligned:
        return False
    if not kind.core or array.flags.c_contiguous or not array.size:
        return True
    return bool(array[(0,) * (array.ndim - len(kind.core))].flags.c_contiguous)


# What goes wrong meanwhile.


def _in_words(definition: GufuncDefinition, error: Outside | WrongShape) -> Exception:
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
    for one in with_helpers(definition.function):
        if one.name == name:
            span = whole_line(one, one.definition.lineno + row)
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
