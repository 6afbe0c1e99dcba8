"""Scratch stores: the states of a long chain lie in files where memory is too small for them.

    x -> 16 steps -> a -> 16 steps -> b -> 16 steps -> what is saved

A block of `b` needs the blocks of `a` around it.  Of a volume these are two of its layers, which
grow with the volume.  Where all that waits so takes more memory than there is, `a` is written to
a store beside the target, read from there as any source is, and removed once `b` is written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from ..arrays.chunked.computation import Computation, cut_anew, lazily
from ..arrays.chunked.layer import Origin, known
from .formats import storable


def scratched(
    array: Any,
    folder: str,
    most: int,
    stored: Callable[[str], list[Any] | None],
    store: Callable[[Sequence[Any], str], None],
) -> Any:
    """The same array, made from stores in a folder where more bytes than `most` would wait.

    Parameters
    ----------
    array : dask.array.Array
    folder : str
        Where stores are made; those that an earlier run has left there are gone on with.
    most : int
        How many bytes may wait for their neighbours.
    stored : function
        Gives the arrays of a store, or None where it is not there or not complete.
    store : function
        Writes arrays to a store, or goes on with it.
    """
    origin = _maker(array)
    chain = [] if origin is None else _chain(origin.computation)
    types = [output.dtype for one in chain[:-1] for output in one.outputs]
    # What a store has no type for stays in memory.
    if origin is None or sum(map(_waiting, chain)) <= most or not all(map(storable, types)):
        return array
    last, anew = origin.computation, dict[Computation, list[Any]]()

    def path(one: Computation) -> str:
        return os.path.join(folder, f"{one.identity}.zarr")

    def computed(one: Computation) -> list[Any]:
        fields = [
            cut_anew(anew[made.computation][made.which], field.chunks)
            if (made := _maker(field))
            else field
            for field in one.arrays
        ]
        return lazily(one.program, fields)

    chain = _chain(last, lambda one: stored(path(one)) is not None)
    for number, one in enumerate(chain[:-1], 1):
        if stored(path(one)) is None:
            store(computed(one), path(one))
        anew[one] = stored(path(one)) or []
        fields = [field for later in chain[number:] for field in later.arrays]
        needed = {made.computation for made in map(_maker, fields) if made}
        for done in anew.keys() - needed:
            shutil.rmtree(path(done), ignore_errors=True)
    return computed(last)[origin.which]


def _maker(array: Any) -> Origin | None:
    """What makes an array, as far up as nobody else asks for what is between."""
    found: Origin | None = known(array, "origin")
    return found and Origin(found.computation.further or found.computation, found.which)


def _chain(
    last: Computation, there: Callable[[Computation], bool] = lambda one: False
) -> list[Computation]:
    """What is to be done for the last one, each after what it is made from.

    Those of which the results are `there` begin it.
    """
    order: dict[Computation, None] = {}
    asked = [last]
    while asked:
        one = asked[-1]
        makers = (
            [] if there(one) else [made.computation for made in map(_maker, one.arrays) if made]
        )
        before = [maker for maker in makers if maker not in order]
        asked += before
        if not before:
            order[asked.pop()] = None
    return list(order)


def _waiting(one: Computation) -> int:
    """How many bytes of what others have made wait until the blocks around them are there."""
    return one.waiting([field.nbytes for field in one.arrays if known(field, "source") is None])
