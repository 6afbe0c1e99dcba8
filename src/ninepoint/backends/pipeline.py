"""The pipeline: from a function and the types of its arguments to something to run.

    read        the text becomes a kernel            language.parse
    passed      one pass after the other             lowering.passes
    fastest     or several rows are made at once     lowering.passes
    rolled      or where stages are kept             lowering.rolling
    text        what it compiles                     backends.numba.loops
    load        machine code, when it first runs

A function that `read` does not understand takes the general path instead.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..analysis.footprint import bounded, loops, reaches
from ..analysis.rewrite import How, Turn, simplify
from ..base.undisturbed import imported
from ..language.definitions import Function, array_uses, asks_position
from ..language.errors import Span, mistake
from ..language.ir import Argument, Box, Coefficients, Field, Kernel, Scalar, joined
from ..language.parse import read
from ..language.values import NotUnderstood
from ..lowering.chain import Edges, Link, chained
from ..lowering.passes import (
    ROWS,
    STORED,
    checked,
    fastest,
    passed,
)
from ..lowering.rolling import rolled
from ..lowering.schedule import Request
from ..lowering.sharing import hoisted, shared
from ..lowering.storage import natural_dtypes
from .cache import identifier
from .compiled import Compiled, Forms, Module
from .numba import cpu
from .numba.loops import Loops


def compile_kernel(
    function: Function, arguments: Mapping[str, Argument], request: Request
) -> Compiled:
    """Compile, on the first path or the general one.

    There are no forms on the general path; then its `reason` says why it was taken.

    Raises
    ------
    StencilError
        If it is not understood, and asks where it is, or how long arrays are.
    """
    try:
        return compile_understood(function, arguments, request)
    except NotUnderstood as error:
        reason, place = error.reason, error.span
    whole = [used for _, _, used in array_uses(function, _named(arguments, Field))]
    if any(whole) or asks_position(function):
        raise mistake("general-position", place, function.name, reason)
    # Imported here, not above: most programs have no such kernel.  Undisturbed: what interrupts a
    # class as it is made is a RuntimeError.
    general = imported(".numba.general", __package__)

    # Not inside `except`: the user's mistakes would show what they are no consequence of.
    compiled: Compiled = general.compile_general(function, arguments, request)
    return replace(compiled, unread=place, reason=reason)


def compile_understood(
    function: Function, arguments: Mapping[str, Argument], request: Request
) -> Compiled:
    """The first path: one form after the other."""
    kernel = read(function, arguments, request.neighborhood, request.upsample)
    kernel = bounded(kernel)
    count = math.prod(request.upsample)
    looks = _together(reaches(kernel), count)
    if request.neighborhood is not None:
        declared = Box(*(tuple(e) for e in zip(*request.neighborhood, strict=True)))
        if kernel.positions:
            # These are read at the point itself.
            declared = joined((declared, Box((0,) * kernel.ndim, (0,) * kernel.ndim)))
        looks = (declared,) * len(looks)
    reach = joined(looks)
    checked(kernel, reach)
    check_outputs(function.name, len(kernel.outputs) // count, request)
    simplified = checked(simplify(kernel), reach)
    dtypes = request.dtypes or natural_dtypes(simplified, request.kept, count)
    dtypes = tuple(dtypes) * count
    request = replace(request, dtypes=dtypes)
    forms = passed((*STORED, *ROWS), simplified, request, reach)
    kept = forms["shared"]
    if request.every:
        # Rows that are apart share nothing that they could be made together for.
        lowered = replace(kept, every=request.every)
    else:
        lowered = fastest(kept, forms, request.schedule)
    lowered = checked(lowered, reach)
    hoist = checked(hoisted(lowered), reach)
    module = Loops(hoist, reach, dtypes).module(function.name, fastmath=request.fastmath)
    return replace(
        compiled_of(kernel, function.name, module, looks, dtypes, request.fastmath),
        # The kernel has names of its own for the function's parameters, in the same order.
        fields=(*_named(arguments, Field), *(one.words for one in kernel.positions)),
        coefficients=_named(arguments, Coefficients),
        scalars=(*_named(arguments, Scalar), *kernel.lengths),
        phases=count,
        every=request.every,
        control=_control(kernel, function),
        lowering=Forms(
            function.name,
            simplified,
            forms["widened"],
            forms["wholesome"],
            kept,
            lowered,
            hoist,
            request,
            turned,
        ),
    )


def _control(kernel: Kernel, function: Function) -> Span | None:
    """Where the first loop stands that has other turns at each point, or what reads like one."""
    if not loops(kernel):
        return None
    for node in ast.walk(function.definition):
        if isinstance(node, ast.While | ast.For):
            return function.span(node)
    return function.place


def _together(looks: Sequence[Box], phases: int) -> tuple[Box, ...]:
    """Where each output looks, all phases of a result alike: all of them have the same border."""
    count = len(looks) // phases
    return tuple(joined(looks[k::count]) for k in range(count)) * phases


def compiled_of(
    kernel: Kernel,
    name: str,
    module: Module,
    reaches: tuple[Box, ...],
    out_dtypes: tuple[np.dtype, ...],
    fastmath: bool,
) -> Compiled:
    """What a kernel is compiled to, with its own names for its arguments."""
    fields, scalars = dict(kernel.fields), dict(kernel.scalars)
    return Compiled(
        name=identifier(name),
        fields=tuple(fields),
        coefficients=tuple(n for n, *_ in kernel.coefficients),
        scalars=tuple(scalars),
        reaches=reaches,
        field_dtypes=tuple(fields.values()),
        out_dtypes=out_dtypes,
        coefficient_types=tuple((d, len(s)) for _, d, s in kernel.coefficients),
        scalar_types=tuple(scalars.values()),
        fastmath=fastmath,
        module=module,
        load=cpu.load,
        positions=kernel.positions,
    )


def _named(arguments: Mapping[str, Argument], kind: type) -> tuple[str, ...]:
    """The arguments of one kind, by the names that the function has for them."""
    return tuple(name for name, value in arguments.items() if isinstance(value, kind))


@functools.lru_cache(maxsize=256)
def compile_chain(
    name: str,
    links: tuple[Link, ...],
    fields: tuple[tuple[str, np.dtype], ...],
    outputs: tuple[str, ...],
    reach: Box,
    request: Request,
) -> tuple[Kernel, Compiled, Edges]:
    """Calls as one kernel, and the ends of its arrays.

    They give what they make under the names `outputs`, and look as far as the `reach`, all
    together.  Scalars are those of the links, and after the coefficients come the tables of the
    borders.
    """
    schedule = request.schedule
    kernel, edges = chained(links, fields, outputs, schedule)
    pairs = [pair for one in links for pair in zip(one.made, one.types, strict=True)]
    dtypes = tuple(map(dict(pairs).__getitem__, outputs))
    kernel = checked(rolled(kernel, schedule), reach)
    module = Loops(kernel, reach, edges=edges).module(name, fastmath=request.fastmath)
    tables = ((name, dtype, (1,)) for name, dtype in edges.tables)
    given = replace(kernel, coefficients=(*kernel.coefficients, *tables))
    reaches = (reach,) * len(outputs)
    return kernel, compiled_of(given, name, module, reaches, dtypes, request.fastmath), edges


def turned(compiled: Compiled, how: How) -> Compiled | None:
    """What is compiled of a kernel for arrays that lie in another way (see `Compiled.turned`)."""
    forms, turn, every = compiled.lowering, Turn(how), compiled.every
    assert forms is not None
    found = turn.kernel(forms.wholesome if isinstance(how, tuple) else forms.hoisted)
    if found is None:
        return None
    if isinstance(how, tuple):
        if compiled.positions:
            return None
        every = turn.offset(every) if every else ()
        schedule = forms.request.schedule
        kernel = shared(found, Request(schedule=schedule))
        # Rows that are apart share nothing that they could be made together for.
        kernel = replace(kernel, every=every) if every else rolled(kernel, schedule)
        title = f"{forms.title}, transposed"
        lowering = replace(forms, title=title, wholesome=found, hoisted=kernel)
    else:
        kernel, title, lowering = found, f"{forms.title}, {how} lanes", None
    reaches = tuple(map(turn.box, compiled.reaches))
    reach, flags, dtypes = joined(reaches), compiled.fastmath, compiled.out_dtypes
    module = Loops(checked(kernel, reach), reach, dtypes).module(title, fastmath=flags)
    return replace(compiled, module=module, reaches=reaches, every=every, lowering=lowering)


def check_outputs(name: str, count: int, request: Request) -> None:
    """Raise where the number of outputs does not fit what was asked for."""
    if request.dtypes is not None and len(request.dtypes) != count:
        raise ValueError(f"'{name}' has {count} outputs, but dtype= names {len(request.dtypes)}.")
    if request.kept and count > request.kept:
        raise ValueError(
            f"boundary='keep' keeps a field for each output, but '{name}' has {count} outputs "
            f"and {request.kept} fields; use another boundary."
        )
