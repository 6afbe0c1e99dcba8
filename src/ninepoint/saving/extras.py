"""Packages that only stores need."""

from __future__ import annotations

from ..undisturbed import imported

# The name by which pip knows a module.
_PACKAGES = {
    "dask.array": "'dask[array]'",
    "zarr": "'zarr>=3'",
    "xarray": "xarray",
    "h5netcdf": "h5netcdf",
    "rioxarray": "rioxarray",
}


def need(what: str, *modules: str) -> None:
    """Import what one needs for `what`, or say which module is missing and how to get it."""
    for module in modules:
        try:
            imported(module)
        except ImportError as error:
            raise ImportError(
                f"{what} needs '{module}', which cannot be imported ({error}). "
                f"Install it, on every machine that computes, with: "
                f"pip install {_PACKAGES.get(module, module)}"
            ) from error


def need_zarr() -> None:
    """Raise unless there is a zarr that knows of shards."""
    need("Writing a .zarr store", "dask.array", "zarr")
    zarr = imported("zarr")
    if int(zarr.__version__.partition(".")[0]) < 3:
        raise ImportError(
            f"zarr {zarr.__version__} writes no shards; install a newer one: pip install 'zarr>=3'"
        )
