"""Arrays on a GPU: which a call may be given, where it may write, and how they lie.

executable     what does calls on arrays that lie alike
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...backends.cuda import driver
from ...backends.cuda.driver import DeviceArray
from .. import accepted
from ..accepted import is_cupy, is_device
from ..arranging import standing
from ..layout import Shape


def as_fields(values: Sequence[Any], names: Sequence[str]) -> list[DeviceArray]:
    """Give the fields of a call, one of which lies on a GPU, as arrays of CuPy on one GPU.

    Numbers are taken there; arrays are never copied.

    Raises
    ------
    TypeError
        If a field is an array that does not lie on a GPU, or is none of numbers.
    ValueError
        If they lie on different GPUs.
    """
    found = [
        driver.as_array(value, name) if is_device(value) else None
        for value, name in zip(values, names, strict=True)
    ]
    first = next(k for k, array in enumerate(found) if array is not None)
    device = driver.device_of(found[first])
    fields = list[DeviceArray]()
    for value, array, name in zip(values, found, names, strict=True):
        if array is None:
            array = _number(value, name, names[first], device)
        accepted.check_dtype(array.dtype, name)
        if not array.dtype.isnative:
            raise TypeError(
                f"'{name}' lies on a GPU with the bytes of its numbers turned round; give "
                f"{name}.astype({name}.dtype.newbyteorder('='))."
            )
        if driver.device_of(array) != device:
            raise ValueError(
                f"'{names[first]}' lies on GPU {device} and '{name}' on GPU "
                f"{driver.device_of(array)}; take one to the other, as "
                f"'with cupy.cuda.Device({device}): {name} = cupy.asarray({name})' does."
            )
        fields.append(array)
    return fields


def _number(value: Any, name: str, other: str, device: int) -> DeviceArray:
    # Says what is wrong with anything that is no array of numbers.
    number = accepted.as_field(value, name)
    if isinstance(value, np.ndarray) or not isinstance(value, np.generic | int | float | complex):
        raise TypeError(
            f"'{other}' lies on a GPU and '{name}' in the memory of the CPU, and a stencil takes "
            f"neither to the other: give cupy.asarray({name}), or cupy.asnumpy({other})."
        )
    with driver.on(device):
        return driver.uploaded(number)


def checked_out(
    out: object, shapes: Sequence[Shape], dtypes: Sequence[np.dtype], device: int
) -> list[DeviceArray]:
    """Check that `out` holds an array on this GPU for each result, which share no memory."""
    given = accepted.each_out(out, len(shapes))
    found = [_target(one, device) for one in given]
    targets = list(map(lying, found))
    for one, lies in zip(given, targets, strict=True):
        # CuPy's own are never read only.
        own = type(one) is driver.cupy().ndarray
        shown = not own and getattr(one, "__cuda_array_interface__", None)
        lies.flags.writeable = not (shown and shown["data"][1])
        if any(step % lies.itemsize for step in lies.strides):
            raise accepted.shares_elements(lies)
    accepted.check_targets(targets, shapes, dtypes)
    return found


def _target(one: Any, device: int) -> DeviceArray:
    if not is_device(one):
        raise TypeError(
            f"out must be an array on a GPU, as the fields are, not {type(one).__name__} in "
            "the memory of the CPU."
        )
    array = driver.as_array(one, "out")
    if driver.device_of(array) != device:
        raise ValueError(
            f"out lies on GPU {driver.device_of(array)}, and the fields on GPU {device}; give "
            "an array of the same GPU."
        )
    return array


def lying(array: DeviceArray) -> np.ndarray:
    """Where an array lies, as one of NumPy's; one without elements may begin nowhere."""
    return standing(array.data.ptr or 1, array.shape, array.dtype, array.strides)


def are_apart(outs: Sequence[DeviceArray], fields: Sequence[DeviceArray]) -> bool:
    """Whether outputs can be written as they are, none of them sharing memory with a field."""
    return accepted.are_apart(list(map(lying, outs)), list(map(lying, fields)))


@contextmanager
def beside(fields: Sequence[Any]) -> Iterator[int]:
    """Make the GPU on which arrays lie the current one for a while; gives its number."""
    device = driver.device_of(next(filter(is_cupy, fields)))
    with driver.on(device):
        yield device
