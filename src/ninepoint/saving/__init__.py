"""Results out, of any size: `save` writes an array to a store, unit by unit.

    writing     save, and what each format asks for   contents  what is saved, taken apart
    cutting     chunks, shards, units                 units     what one task writes whole
    running     begin, go on with, finish a store     tasks     a task for each unit
    journal     which units are written               meaning   what is being computed
    zarr, ome   stores of Zarr, images of OME-Zarr    npy       arrays of NumPy
    hdf5        NetCDF and HDF5                       raster    GeoTIFF
    whole_file  files that appear when complete       frames    images, by way of imsave

The libraries of the formats are imported when they are first needed.
"""

from __future__ import annotations

from .writing import save

__all__ = ["save"]
