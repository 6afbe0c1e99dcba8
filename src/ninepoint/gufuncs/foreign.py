"""Values of other compilers, on their way to other processes: `numba.stencil` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Stencil:
    """What `numba.stencil` was given."""

    function: Any
    mode: str
    options: Mapping[str, Any]


def packed(values: Mapping[tuple[str, str], Any]) -> bytes:
    """Values by the names that functions have for them, to be sent.

    Raises
    ------
    TypeError
        If one cannot be sent.
    """
    # Imported here, not above: `import ninepoint` must not import Numba.
    from numba import cloudpickle

    # Partly typed: Any, or mypy finds the gaps.
    theirs: Any = cloudpickle
    found: dict[tuple[str, str], bytes] = {}
    for (function, name), value in values.items():
        try:
            found[function, name] = theirs.dumps(_plain(value))
        except (TypeError, AttributeError, theirs.pickle.PicklingError) as error:
            raise TypeError(
                f"'{function}' uses '{name}', a value of type '{type(value).__name__}', which "
                "cannot be sent to another process; use a function of Python instead."
            ) from error
    made: bytes = theirs.dumps(found)
    return made


def unpacked(content: bytes) -> dict[tuple[str, str], Any]:
    """What `packed` was given."""
    from numba import cloudpickle, stencil

    found: dict[tuple[str, str], Any] = {}
    for names, one in cloudpickle.loads(content).items():
        value = cloudpickle.loads(one)
        if isinstance(value, _Stencil):
            value = stencil(value.mode, **value.options)(value.function)
        found[names] = value
    return found


def _plain(value: Any) -> Any:
    from numba.stencils.stencil import StencilFunc

    if isinstance(value, StencilFunc):
        return _Stencil(value.kernel_ir.func_id.func, value.mode, value.options)
    return value
