"""Stencils that call others: what these make are stages, done together with the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .api import Stencil, restored
from .arrays import numpy as on_numpy
from .backends.cpu import Compiled
from .calls import Call
from .graph import Graph
from .language import errors
from .language.source import Function
from .language.stages import Stages, split
from .options import Options
from .running import evaluate


def _restored(token: str, function: Function, options: Options) -> Stencil:
    return restored(token, lambda: Staged(function, options))


class _Remainder(Stencil):
    """What remains of a kernel without its calls; its fields are the kernel's and the stages."""

    def __init__(self, outer: Staged, fields: set[str]) -> None:
        self._outer = outer
        self._read = fields
        super().__init__(outer._stages.remainder, outer._options)

    def _indexed(self) -> set[str]:
        return super()._indexed() | self._read

    def __reduce__(self) -> Any:
        return getattr, (self._outer, "_remainder")


class Staged(Stencil):
    """A stencil whose function calls other stencils on its fields.

    Each call gives the array that it would give by itself, border and all; where it can, it
    is done together with the kernel, row by row, so that it is never stored whole.  Otherwise
    like any `Stencil`.
    """

    def __init__(self, function: Function, options: Options, live: Any = None) -> None:
        found = split(function)
        assert found is not None
        self._stages: Stages = found
        super().__init__(function, options, live)

    def __reduce__(self) -> Any:
        return _restored, (self._token, self._function, self._options)

    def _indexed(self) -> set[str]:
        given = {name for call in self._stages.calls for name in call.fields}
        return (super()._indexed() | given) & set(self._function.parameters)

    def _check(self) -> None:
        made = {name for call in self._stages.calls for name in call.made}
        parameters = set(self._stages.remainder.parameters)
        self._remainder = _Remainder(self, (set(self._fields) | made) & parameters)

    # Calling.

    def __call__(
        self,
        /,
        *args: Any,
        boundary: Any = None,
        cval: Any = None,
        axes: Sequence[int] | None = None,
        dims: Sequence[Any] | None = None,
        out: Any = None,
        dtype: Any = None,
        overflow: str | None = None,
        threads: int | None = None,
        **named: Any,
    ) -> Any:
        """Apply the stencil to whole arrays; see `Stencil.__call__`."""
        values = self._bound(args, named)
        fields = [values[name] for name in self._fields]
        options = {"boundary": boundary, "cval": cval, "dtype": dtype, "overflow": overflow}
        graph, wanted = self._graph(fields, values, options)
        made = evaluate(
            graph, fields, wanted, self._options.schedule,
            axes=axes, dims=dims, out=out, threads=threads,
        )  # fmt: skip
        return made[0] if len(made) == 1 else tuple(made)

    def _graph(
        self, fields: Sequence[Any], values: Mapping[str, Any], options: Mapping[str, Any]
    ) -> tuple[Graph, tuple[int, ...]]:
        """The calls on fields of given types, and which of its values are the results."""
        dtypes = []
        for field, name in zip(fields, self._fields, strict=True):
            dtype = getattr(field, "dtype", None)
            if dtype is None:
                dtype = on_numpy.as_field(field, name).dtype
            on_numpy.check_dtype(np.dtype(dtype), name)
            dtypes.append(on_numpy.native(np.dtype(dtype)))
        graph = Graph(self._fields, dtypes)
        return graph, self._record(graph, range(len(fields)), values, options, ())

    def _record(
        self,
        graph: Graph,
        fields: Sequence[int],
        values: Mapping[str, Any],
        options: Mapping[str, Any],
        labels: Sequence[str],
    ) -> tuple[int, ...]:
        known = dict(zip(self._fields, fields, strict=True))
        scalars = {name: values[name] for name in self._others}
        inside = f"{labels[0]}." if labels else ""
        for call in self._stages.calls:
            callee = call.callee
            assert isinstance(callee, Stencil)
            given = {**callee.defaults, **self._stages.values(call.scalars, scalars)}
            made = callee._record(
                graph,
                [known[name] for name in call.fields],
                given,
                self._stages.values(call.options, scalars),
                [inside + name for name in call.made],
            )
            if len(made) != len(call.made):
                wanted = len(call.made)
                raise errors.stage_outputs(call.span, callee.__name__, len(made), wanted)
            known |= zip(call.made, made, strict=True)
        rest = self._remainder
        named = [known[name] for name in rest.fields]
        return rest._record(graph, named, scalars, options, labels or [self.__name__])

    def _last(self, fields: Sequence[np.ndarray], call: Call) -> Compiled:
        options = {
            "boundary": call.boundary,
            "cval": call.cval,
            "dtype": call.dtypes,
            "overflow": call.overflow,
        }
        graph, _ = self._graph(fields, call.others, options)
        return graph.nodes[-1].compiled
