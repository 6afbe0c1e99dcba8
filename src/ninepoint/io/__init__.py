"""Files in, files out: lazily, and unit by unit.

    opening     imread and open: lazy arrays           saving      save, imsave: by units, frames
    opened      an array that is read when sliced      targets     Zarr, and files as a whole
    formats     PNG, JPEG, TIFF: what they hold        contents    what is saved, and what is meant
    ome         axes, scales and names of channels     run         units, and their tasks
    paths       files, and what is wrong with them     progress    a bar; clusters

Pillow, tifffile, Dask, zarr and the like are imported when they are first needed, so importing
this package costs nothing.
"""
