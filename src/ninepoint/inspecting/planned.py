"""`explain`: what it will take to compute lazy arrays, before anything of them is computed."""

from __future__ import annotations

from typing import Any

from ..arrays.accepted import is_dask, is_dataset, is_xarray
from ..base.tracebacks import door
from ..language.signature import Explanation, counted


@door
def explain(lazy: Any) -> str:
    """Tell what it will take to compute a lazy array, and compute nothing.

    Parameters
    ----------
    lazy : Dask array, DataArray or Dataset
        What stencils, filters or `Stencil.iterate` made, or what was made of that.

    Returns
    -------
    str
        Lines of text, a table in a notebook: in the first one what to see to. Then of each of our
        computations behind it, in their order, the plan; its tasks; the bytes that it reads, and
        how many times as much files decode for that; those of all faces of chunks, which may have
        to move from worker to worker; those that a thread holds; and, about, those of the chunks
        that wait for their neighbours, on all threads together. Tasks of Dask's own are among all
        tasks as they are before Dask makes several one. `save` tells more with ``dry=True``.

    Raises
    ------
    TypeError
        If it is no lazy array, or none of ours is behind it.

    Examples
    --------
    >>> import dask.array as da
    >>> import ninepoint as npt
    >>> volume = da.zeros((400, 400, 400), chunks=100, dtype="float32")
    >>> print(npt.explain(npt.filters.mean(volume, (3, 3, 3))))
    Give each thread 8.18 MB, and 134 MB to all for what waits for its neighbours.
      on Dask     mean: edges, 2 tasks a block, 128 in all
                    each block is made of its chunk and of its neighbours' faces
                    256 MB read, 11.5 MB of faces
                    8.18 MB held a thread
                    134 MB held together, in about two layers, for neighbours
      tasks       192 in all, 3 a chunk of the result
      result      256 MB, all of which compute() holds
    """
    arrays = dask_arrays(lazy)
    if not arrays:
        raise TypeError(
            f"explain takes a Dask array, or a DataArray or Dataset of some, not "
            f"{type(lazy).__name__}; of arrays in memory 'explain' of a stencil tells."
        )
    # Imported here: Dask is optional, and the caller has it.
    from ..arrays.chunked.costs import told

    page = told(arrays)
    if not page:
        raise TypeError(
            "no stencil, filter or iterate has made this Dask array, or what is behind it; give "
            "what one of them made, as it was before dask.persist or dask.optimize."
        )
    size = counted(sum(array.nbytes for array in arrays), "B")
    page.add("result", f"{size}, all of which compute() holds")
    return Explanation("\n".join(page))


def dask_arrays(value: Any) -> list[Any]:
    """The Dask arrays that a value is, or holds."""
    if is_xarray(value):
        value = value.variable._data
    if is_dataset(value):
        return [a for one in value.variables.values() for a in dask_arrays(one._data)]
    return [value] if is_dask(value) else []
