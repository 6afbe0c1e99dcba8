"""Calls: one stencil, its scalars and its options, applied to NumPy, Dask or xarray."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from .arrays import numpy as on_numpy
from .arrays import prepared
from .arrays.borders import Boundary
from .arrays.channels import working_axes
from .arrays.recognise import is_dask, is_dataset, is_xarray, refuse_foreign
from .backends.numba.cpu import Bound, Compiled, readable
from .backends.pipeline import Stages
from .language import ir
from .language.dtypes import DType, value_type
from .language.parse import Argument
from .language.values import Coefficients, Value
from .lowering.schedule import Schedule

# Values of all parameters, out -> result, or None if the call must be done the ordinary way.
Prepared: TypeAlias = Callable[[Sequence[Any], Any], Any]


class Applied(Protocol):
    """A stencil, as far as a call knows it."""

    __name__: str

    @property
    def parameters(self) -> tuple[str, ...]: ...

    @property
    def fields(self) -> tuple[str, ...]: ...

    def __dask_tokenize__(self) -> str: ...

    def _compile(
        self,
        field_dtypes: Sequence[np.dtype],
        others: Mapping[str, Any],
        keep: bool = False,
        dtypes: tuple[np.dtype, ...] | None = None,
        overflow: str | None = None,
        schedule: Schedule | None = None,
    ) -> tuple[Compiled, Stages | None, str]: ...

    def _warn(self, compiled: Compiled, reason: str) -> None: ...

    def schedule(self) -> Schedule: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what is applied, without the fields.  Pickles, so that workers can have it."""

    stencil: Applied
    others: dict[str, Any]
    boundary: Boundary
    cval: Any
    dtypes: tuple[np.dtype, ...] | None
    overflow: str | None
    threads: int | None

    @property
    def token(self) -> str:
        """Names the meaning of the call: equal tokens, equal results."""
        return digest((self.stencil.__dask_tokenize__(), self.others, self.dtypes, self.overflow))

    def program(self, field_dtypes: Sequence[np.dtype]) -> Bound:
        compiled, _, reason = self.compiled(field_dtypes)
        self.stencil._warn(compiled, reason)
        return compiled.bind(self.others)

    def compiled(
        self, field_dtypes: Sequence[np.dtype], schedule: Schedule | None = None
    ) -> tuple[Compiled, Stages | None, str]:
        """What the stencil is compiled to, with a schedule of its own or another one."""
        return self.stencil._compile(
            field_dtypes, self.others, self.boundary.keeps, self.dtypes, self.overflow, schedule
        )

    def on_numpy(self, fields: Sequence[Any], axes: Any, out: Any) -> Any:
        names = self.stencil.fields
        arrays = [on_numpy.as_field(f, name) for f, name in zip(fields, names, strict=True)]
        program = self.program([on_numpy.native(array.dtype) for array in arrays])
        if axes is None:
            axes = working_axes(arrays, program.ndim, self.stencil.__name__)
        return on_numpy.apply(
            program,
            arrays,
            border=self.boundary.on(program.ndim),
            cval=self.cval,
            axes=axes,
            out=out,
            threads=self.threads,
        )

    def prepared(self, values: Sequence[Any], axes: Any, out: Any) -> Prepared:
        """How calls like this one, which went well, are done in short.

        They are given the values of all parameters, in the order of the function.
        """
        names = self.stencil.parameters
        at = [names.index(name) for name in self.stencil.fields]
        fields = [values[k] for k in at]
        program = self.program([on_numpy.native(field.dtype) for field in fields])
        compiled = program.compiled
        core = on_numpy.core_shape(fields, program.ndim, axes)
        taken: list[tuple[int, Callable[[Any], Any] | None]] = []
        for called, array in zip(compiled.module.coefficients, program.coefficients, strict=True):
            k = names.index(called)
            taken.append((k, _coefficients(values[k], array)))
        for name, dtype in zip(compiled.module.scalars, compiled.scalar_types, strict=True):
            if isinstance(name, ir.Length):
                taken.append((at[0], partial(_always, core[name.axis])))
                continue
            k = names.index(name)
            taken.append((k, _number(values[k], dtype)))
        # An array may change later.
        cval = np.array(self.cval)[()] if isinstance(self.cval, np.ndarray) else self.cval
        border = self.boundary.on(program.ndim)
        options = prepared.Options(border, cval, self.threads)
        run = prepared.prepare(program, compiled.entry, fields, options, out, axes)

        def call(values: Sequence[Any], out: Any) -> Any:
            numbers = [values[k] if to is None else to(values[k]) for k, to in taken]
            return run([values[k] for k in at], numbers, out)

        return call

    def settled(self) -> Call:
        """The call with the values as they are now: arrays may change before a task reads them."""
        others = {n: np.array(v) if np.ndim(v) else v for n, v in self.others.items()}
        return replace(self, others=others)

    def on_dask(self, fields: Sequence[Any], axes: Any) -> Any:
        # Imported here: Dask is optional, and the caller has it.
        from .arrays import dask as on_dask

        dtypes = []
        for one, name in zip(fields, self.stencil.fields, strict=True):
            dtype = one.dtype if is_dask(one) else on_numpy.as_field(one, name).dtype
            on_numpy.check_dtype(dtype, name)
            dtypes.append(on_numpy.native(dtype))
        call = self.settled()
        program = call.program(dtypes)
        if axes is None:
            axes = working_axes(fields, program.ndim, self.stencil.__name__)
        return on_dask.apply(
            call.program,
            fields,
            border=self.boundary.on(program.ndim),
            cval=self.cval,
            axes=axes,
            reaches=program.reaches,
            out_dtypes=program.out_dtypes,
            token=call.token,
            name=self.stencil.__name__.strip("<>"),
        )

    def on_xarray(self, fields: Sequence[Any], dims: Any, axes: Any) -> Any:
        # Imported here: xarray is optional, and the caller has it.
        from .arrays import xarray as on_xarray

        names = self.stencil.fields
        fields = [
            one if is_xarray(one) or is_dask(one) or is_dataset(one) else on_numpy.as_field(one, n)
            for one, n in zip(fields, names, strict=True)
        ]
        dtypes = []
        for one in fields:
            dtype = getattr(one, "dtype", None)
            dtypes.append(on_numpy.native(dtype) if dtype is not None else np.dtype("float64"))
        for dtype in dtypes:
            on_numpy.check_dtype(dtype)
        program = self.program(dtypes)
        if axes is None and dims is None:
            axes = working_axes(fields, program.ndim, self.stencil.__name__)

        def on_arrays(arrays: list[Any], core: tuple[int, ...]) -> Any:
            if any(is_dask(array) for array in arrays):
                return self.on_dask(arrays, core)
            return self.on_numpy(arrays, core, None)

        return on_xarray.apply(
            on_arrays,
            fields,
            border=self.boundary.on(program.ndim),
            reaches=program.reaches,
            dims=dims,
            axes=axes,
        )


def _number(value: Any, dtype: DType) -> Callable[[Any], Any] | None:
    """How to give values like this one to machine code; None if they are taken as they are."""
    kind: type = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[dtype.numpy.kind]
    return None if type(value) is kind else kind


def _always(number: int, value: Any) -> int:
    """Give a number that calls with equal keys have in common, whatever the value."""
    return number


def _coefficients(value: Any, array: np.ndarray) -> Callable[[Any], Any] | None:
    """The same for arrays like this one, of which the program has `array`."""
    return None if value is array else partial(readable, dtype=array.dtype)


def steps_on_dask(calls: Sequence[Call], states: Sequence[Any]) -> Any:
    """Several steps at once: `calls` are those of the steps."""
    # Imported here: Dask is optional, and the caller has it.
    from .arrays import dask_iterating

    calls = [call.settled() for call in calls]
    fields = [state if is_dask(state) else on_numpy.as_field(state) for state in states]
    one = calls[0]
    program = one.program([on_numpy.native(field.dtype) for field in fields])
    made = dask_iterating.advance(
        [call.program for call in calls],
        fields,
        border=one.boundary.on(program.ndim),
        cval=one.cval,
        reaches=program.reaches,
        out_dtypes=program.out_dtypes,
        token=digest([call.token for call in calls]),
        name=one.stencil.__name__.strip("<>"),
    )
    return made[0] if len(made) == 1 else tuple(made)


def digest(value: Any) -> str:
    """A name for a value: the same in every process, whichever of its parts are one object."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written, protocol=5)
    # Without this a string that occurs twice is written as a reference or again, by identity.
    pickler.fast = True
    pickler.dump(value)
    return hashlib.sha256(written.getvalue()).hexdigest()


def argument(name: str, value: Any, standard: bool) -> Argument:
    """The type of a parameter that is no field, from its value."""
    if is_dask(value) or is_xarray(value):
        raise TypeError(f"'{name}' is a scalar or a small array; compute it first.")
    refuse_foreign(value, f"'{name}'")
    if standard and np.ndim(value) == 0:
        raise TypeError(
            f"'{name}' is indexed absolutely (standard_indexing), so it must be an array, "
            f"not {value!r}."
        )
    if isinstance(value, np.generic) and not standard:
        on_numpy.check_dtype(value.dtype, name)
        return Value(ir.Ref(value_type(value.dtype), name))
    if isinstance(value, bool):
        return Value(ir.Ref(DType.BOOL, name), True)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            cure = "pass np.uint64 of it, or" if 0 <= value < 2**64 else "pass"
            raise ValueError(f"'{name}'={value} does not fit into int64; {cure} a float.")
        return Value(ir.Ref(DType.INT, name), True)
    if isinstance(value, float):
        return Value(ir.Ref(DType.F64, name), True)
    if isinstance(value, complex):
        return Value(ir.Ref(DType.C128, name), True)
    if value is None or isinstance(value, str | bytes):
        raise TypeError(f"'{name}' must be a number or an array of numbers, not {value!r}.")
    array = on_numpy.as_field(value, name)
    if array.ndim == 0 and not standard:
        return Value(ir.Ref(value_type(array.dtype), name))
    return Coefficients(name, on_numpy.native(array.dtype), array.shape)
