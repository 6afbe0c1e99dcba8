"""Files in, files out: lazily, and unit by unit.

    images      imread: files of images, a stack       saving      save, imsave: by units, frames
    formats     PNG, JPEG; what a format holds         contents    what is saved, and how it lies
    tiff        TIFF, by pages and by tiles            whole       files written as a whole
    opening     open: any format, region by region     zarr        stores, written by many
    opened      an array that is read when sliced      resume      what is meant, and read
    ome         axes, scales and names of channels     run         units, and their tasks
    paths       files, and what is wrong with them     progress    a bar; clusters

Pillow, tifffile, Dask, zarr and the like are imported when they are first needed, so importing
this package costs nothing.
"""
