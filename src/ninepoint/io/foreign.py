"""Files that are no images of ours, and what opens them instead."""

from __future__ import annotations

import os

_VIDEO = "it is a video: imageio.v3.imread(path) reads its frames, or save them as PNG"
_ANIMATED = (
    "this format is not read here: take the frames with Pillow or imageio, "
    "np.stack(imageio.v3.imread(path)), or save them as PNG"
)
_HDF5 = "it is an HDF5 file, not an image: ninepoint.open(path) opens one of its datasets lazily"
_NETCDF = "it is a NetCDF file, not an image: ninepoint.open(path) opens a variable lazily"
_ZARR = "it is a Zarr store, not an image: ninepoint.open(path) opens it lazily"
_NUMPY = "it is an array of NumPy, not an image: ninepoint.open(path) opens it lazily"
_MICROSCOPE = "this format of a microscope is not read here: convert it to OME-TIFF or Zarr"

_CURES = {
    **dict.fromkeys((".gif", ".webp", ".apng", ".avif", ".heic", ".heif", ".jp2"), _ANIMATED),
    **dict.fromkeys((".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg"), _VIDEO),
    **dict.fromkeys((".npy", ".npz"), _NUMPY),
    **dict.fromkeys((".nc", ".nc4", ".cdf"), _NETCDF),
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), _HDF5),
    **dict.fromkeys((".zarr", ".n5"), _ZARR),
    **dict.fromkeys((".czi", ".nd2", ".lif", ".oib", ".oif", ".vsi"), _MICROSCOPE),
}

# The files by which a folder is known for a Zarr array or group, of version 2 or 3.
_ZARR_FILES = (".zarray", ".zgroup", "zarr.json")


def cure_for(path: str) -> str | None:
    """Say what a file or folder is and how to open it; None if it may be an image or hold some."""
    suffix = os.path.splitext(path.rstrip("/" + os.sep))[1].lower()
    if os.path.isdir(path):
        is_store = any(os.path.lexists(os.path.join(path, name)) for name in _ZARR_FILES)
        return _ZARR if is_store or suffix == ".zarr" else None
    return _CURES.get(suffix)
