"""Files in, files out: lazily, and unit by unit.

    opening     imread and open: lazy arrays           saving      save, imsave: by units, frames
    opened      an array that is read when sliced      contents    what is saved, and what is meant
    formats     PNG, JPEG, TIFF: what they hold        whole       files written as a whole
    ome         axes, scales and names of channels     zarr        stores, written by many
    paths       files, and what is wrong with them     run         units, and their tasks
                                                       progress    a bar; clusters

Pillow, tifffile, Dask, zarr and the like are imported when they are first needed, so importing
this package costs nothing.
"""
