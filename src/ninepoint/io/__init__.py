"""Files in, files out: lazily, and unit by unit.

    images      imread: files of images, a stack       frames      imsave: a stack, image files
    formats     PNG, JPEG; what a format holds         tiff        TIFF, by pages and by tiles
    opening     open: any format, region by region     saving      save: any format, by units
    opened      an array that is read when sliced      contents    what is saved, and how it lies
    zarr        stores of Zarr and OME-Zarr, written   resume      what is meant, and read
    run         units, and their tasks                 progress    a bar; clusters
    paths       files, and what is wrong with them

Pillow, tifffile, Dask, zarr and the like are imported when they are first needed, so importing
this package costs nothing.
"""
