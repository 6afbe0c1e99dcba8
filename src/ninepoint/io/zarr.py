"""Zarr: arrays, groups of variables, and images of OME-Zarr.

an array                                 itself
a group that xarray wrote                a variable, with its coordinates
a group with "multiscales"               the image, of one of its levels (`ome`)
any other group                          the array that is named, or the only one

Zarr: a store that many processes write at once, and that says whether it is complete.

out.zarr/zarr.json           the attribute "incomplete" is there until the last unit is written
out.zarr/u/zarr.json         a variable; an array without names is the root itself
out.zarr/u/.ninepoint/       the journal

The store is laid out under a temporary name and renamed, so there is never half of its metadata,
and of several processes that begin it one is first.

not there                    laid out, then written
there, incomplete            with resume, or another part of it: if it means the same, gone on with
there, complete              with resume and the same meaning: nothing is done
there, anything else         an error, unless it is to be replaced
"""

from __future__ import annotations

import json
import os
import warnings
from functools import lru_cache, partial
from secrets import token_hex
from typing import Any

import numpy as np

from ..base.undisturbed import imported
from . import ome
from .contents import Contents, Cut, Variable, check_dims, layout, stored_by_xarray
from .opened import Found, Opened, labelled, listed, open_variable, opened, pick
from .paths import (
    ZARR_FILES,
    Stamp,
    is_zarr,
    make_folder,
    need,
    readable,
    removed,
    renamed,
    temporary_folder,
    write_whole,
)
from .resume import Journal, Meaning, check_same
from .run import How, Region, share


def open_zarr(path: str, variable: str | None, level: int | None) -> Found:
    """Look for an array."""
    zarr = need("Reading Zarr", "zarr")
    if "://" not in path and not is_zarr(path):
        raise ValueError(
            f"{path!r} is no Zarr store: it has none of the files {listed(ZARR_FILES)}."
        )
    for name in ZARR_FILES:
        # Raises by its own name what keeps one from reading.
        if "://" not in path and os.path.lexists(os.path.join(path, name)):
            readable(os.path.join(path, name))
    node = zarr.open(path, mode="r")
    if INCOMPLETE in node.attrs:
        raise ValueError(
            f"{path!r} is not finished: parts of it have not been written yet. Save it again with "
            "resume=True."
        )
    if isinstance(node, zarr.Array):
        if variable is not None:
            raise ValueError(f"{path!r} is one array, and holds no variable {variable!r}.")
        _refuse_level(path, level)
        return _plain(path, node)
    name = (variable or "").strip("/")
    if name and name in node:
        parent, _, variable = name.rpartition("/")
        if isinstance(node[name], zarr.Group):
            parent, variable = name, None
        node = node[parent] if parent else node
    return _from_group(path, node, variable, level)


def _from_group(path: str, group: Any, variable: str | None, level: int | None) -> Found:
    inside = group.path.strip("/")
    where = f"{path}/{inside}" if inside else path
    said = ome.said_of(dict(group.attrs))
    if said.get("multiscales") is not None and variable is None:
        image, size = ome.size_of(where, said, level)
        node = group[str(size["path"])]
        array = _array(path, node)
        return Found(array, node.shards, ome.with_axes(array, said, image, size))
    _refuse_level(where, level)
    arrays = {name: one for name, one in group.arrays() if one.ndim and one.dtype.kind in "biufc"}
    if variable is None and not arrays:
        below_here = [name for name, _ in group.groups()]
        hint = f" Open one of its groups: {listed(below_here)}." if below_here else ""
        raise ValueError(f"{where!r} is a group of Zarr that holds no array itself.{hint}")
    if arrays and all(_dims(one) for one in arrays.values()):
        return open_variable(lambda one: _stamp(path, arrays[one]), path, "zarr", inside, variable)
    return _plain(path, arrays[pick(where, list(arrays), variable)])


def _plain(store: str, node: Any) -> Found:
    """An array, with the names of its dimensions if it has them all."""
    array = _array(store, node)
    dims = _dims(node)
    attrs = {k: v for k, v in dict(node.attrs).items() if k != "_ARRAY_DIMENSIONS"}
    like = labelled(array, dims, None, attrs, None) if dims else None
    return Found(array, node.shards, like)


def _array(store: str, node: Any) -> Opened:
    return opened(_zarr, store, _stamp(store, node), node, node.chunks, node.path.strip("/"))


def _zarr(store: str, path: str) -> Any:
    """Open an array, of which the pieces that hold some elements are decoded, and no others."""
    return need("Reading Zarr", "zarr").open_array(store, path=path, mode="r")


def _dims(array: Any) -> tuple[str, ...]:
    """The names of its dimensions, if it has them all."""
    named = getattr(array.metadata, "dimension_names", None)
    named = named or array.attrs.get("_ARRAY_DIMENSIONS")
    if not named or len(named) != array.ndim or not all(named) or len(set(named)) < len(named):
        return ()
    return tuple(map(str, named))


def _stamp(store: str, node: Any) -> Stamp:
    """Take the stamp of the file that describes an array or a group, or what it says."""
    if "://" not in store:
        for name in ZARR_FILES:
            file = os.path.join(store, node.path.strip("/"), name)
            if os.path.isfile(file):
                return readable(file)
    return Stamp(store, sign=imported("dask.base").tokenize(node.metadata.to_dict()))


def _refuse_level(path: str, level: int | None) -> None:
    if level:
        raise ValueError(
            f"level={level} is for OME-Zarr, which holds an image in several sizes; {path!r} "
            "holds one."
        )


# The folder of a store in which the journal lies, beside the pieces of an array: readers of Zarr
# look for nested arrays in groups, and would wonder about it there.
FOLDER = ".ninepoint"

# What a reader finds among the attributes of a store that is being written.
INCOMPLETE = "incomplete"
DESCRIBED = "zarr.json"
UNFINISHED = "ninepoint.save has not finished this store: parts of it are missing"


def save_zarr(contents: Contents, path: str, chunks: Cut, shards: Cut, how: How) -> None:
    """Write what a store lacks: all of it, what an earlier run has left, or one part of many."""
    _need_zarr()
    check_dims(contents.dims, chunks=chunks, shards=shards)

    for one in contents.variables:
        _check_dtype(one)
    contents = contents.laid(lambda one: layout(one.array, one.dims, chunks, shards, one.lies))
    journal = _journal(path, contents)
    own = share(contents.count, how.part)
    if not _begun(path, contents, journal, own, how):
        return
    numbers = set(own) - (journal.done() if how.resume else set())
    # The store is told from another one that has had its name.
    put = partial(_write, path, token_hex(8))
    contents.write(numbers, put, path, how.progress, journal)
    if len(journal.done()) >= contents.count:
        _finish(path)
        journal.forget()


def _begun(path: str, contents: Contents, journal: Journal, own: range, how: How) -> bool:
    """Lay out the store, or find the one that is being written; false if that is complete."""
    means = contents.meaning
    fresh = not os.path.lexists(path)
    if not fresh and how.overwrite and not how.resume:
        contents.check_not_read(path)
        _remove(path)
        fresh = True
    if fresh:
        make_folder(os.path.dirname(path), "save")
        if _created(path, contents, means):
            return True
    old = journal.meaning() if os.path.isfile(os.path.join(path, DESCRIBED)) else None
    if not (how.resume or how.part):
        more = "resume=True goes on with it, " if old and _is_unfinished(path) else ""
        raise FileExistsError(f"{path!r} exists; {more}overwrite=True replaces it")
    check_same(path, old, means)
    unfinished = _is_unfinished(path)
    # There may be more parts than units, and this one empty.
    if not unfinished and own and not how.resume:
        raise FileExistsError(f"{path!r} exists and is complete; resume=True takes it as it is")
    return unfinished


def _write(path: str, once: str, name: str, block: np.ndarray, region: Region) -> None:
    """Write whole shards or chunks."""
    _opened(os.path.join(path, name), once)[region] = block


@lru_cache(maxsize=16)
def _opened(folder: str, once: str) -> Any:
    """Open an array for writing, once in a process and for each store that has had its name."""
    return _need_zarr().open_array(folder, mode="r+")


def _need_zarr() -> Any:
    """Raise unless there is a zarr that knows of shards."""
    zarr = need("Writing a .zarr store", "dask.array", "zarr")
    if int(zarr.__version__.partition(".")[0]) < 3:
        raise ImportError(
            f"zarr {zarr.__version__} writes no shards; install a newer one: pip install 'zarr>=3'"
        )
    return zarr


def _check_dtype(one: Variable) -> None:
    """Raise where Zarr has no type for these numbers."""
    dtype = one.array.dtype
    if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise TypeError(
            f"a .zarr store cannot hold the {dtype} values{one.of}: convert them first, "
            "such as array.astype('float64')"
        )


def _journal(path: str, contents: Contents) -> Journal:
    """The journal; readers of Zarr look for nested arrays in groups, not in arrays."""
    names = [variable.name for variable in contents.variables]
    if not names and contents.dataset is not None:
        names = list(map(str, contents.dataset.variables))
    return Journal(os.path.join(path, *names[:1], FOLDER))


def _is_unfinished(path: str) -> bool:
    """Whether a store says that it is not complete."""
    return INCOMPLETE in _need_zarr().open(path, mode="r").attrs


def _finish(path: str) -> None:
    """Take away what says that it is not complete; to do it twice does no harm."""
    name = os.path.join(path, DESCRIBED)
    with open(name, encoding="utf-8") as file:
        described = json.load(file)
    if described.get("attributes", {}).pop(INCOMPLETE, None) is not None:
        write_whole(name, json.dumps(described, indent=2).encode())


def _created(path: str, contents: Contents, means: Meaning) -> bool:
    """Lay the store out, without its values; false if there is one by now."""
    lay_out = _lay_out_arrays if contents.dataset is None else _lay_out_group
    with temporary_folder(path) as name:
        lay_out(name, contents)
        _journal(name, contents).begin(means)
        return renamed(name, path)


def _remove(path: str) -> None:
    """Remove a store, and nothing else."""
    if os.path.islink(path):
        raise FileExistsError(
            f"{path!r} is a link, which save does not replace; save to {os.path.realpath(path)!r}"
        )
    if not os.path.isdir(path):
        raise FileExistsError(f"{path!r} is no folder; save replaces stores of Zarr only")
    if os.listdir(path) and not is_zarr(path):
        raise FileExistsError(
            f"{path!r} is a folder that is no store of Zarr, which save does not remove"
        )
    removed(path)


def _lay_out_arrays(path: str, contents: Contents) -> None:
    zarr = imported("zarr")
    said: dict[str, Any] = {INCOMPLETE: UNFINISHED, **contents.attributes}
    (variable,) = contents.variables
    if variable.name:
        zarr.create_group(path, zarr_format=3, attributes=said, overwrite=True)
    zarr.create_array(
        path,
        name=variable.name or None,
        shape=variable.array.shape,
        dtype=variable.array.dtype.newbyteorder("="),
        chunks=variable.lies.chunks,
        shards=variable.lies.shards,
        zarr_format=3,
        dimension_names=list(map(str, variable.dims)) or None,
        attributes=dict(variable.attrs) if variable.name else said,
    )


def _lay_out_group(path: str, contents: Contents) -> None:
    """Let xarray write all but the values: it knows how it wants to read them."""
    encoding: dict[str, Any] = {}
    for variable in contents.variables:
        # It takes the place of all that the variable says of how it is stored.
        said = {"chunks": variable.lies.chunks, "shards": variable.lies.shards}
        said = {name: lengths for name, lengths in said.items() if lengths is not None}
        encoding[variable.name] = contents.dataset[variable.name].encoding | said
    zarr = imported("zarr")
    with warnings.catch_warnings():
        # That consolidated metadata, which xarray looks for, and the types of texts are no part of
        # the format yet.
        warnings.filterwarnings("ignore", "Consolidated metadata")
        warnings.filterwarnings("ignore", "The data type")
        with stored_by_xarray():
            contents.dataset.to_zarr(
                path,
                mode="w-",
                zarr_format=3,
                compute=False,
                consolidated=False,
                safe_chunks=False,
                encoding=encoding,
            )
        root = zarr.open_group(path, mode="r+")
        root.attrs[INCOMPLETE] = UNFINISHED
        zarr.consolidate_metadata(path)
    for variable in contents.variables:
        stored = root[variable.name]
        assert stored.dtype == variable.array.dtype.newbyteorder("="), (stored, variable)
