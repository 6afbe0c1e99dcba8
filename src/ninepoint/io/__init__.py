"""Files in, files out: lazily, and unit by unit.

    images      imread: files of images, a stack       frames      imsave: a stack, image files
    pictures    PNG, JPEG     tiff      TIFF            formats     what a format holds, encoded
                                                       targets     which file a frame goes to
    opening     open: any format, region by region     saving      save: any format, by units
    opened      an array that is read when sliced      contents    what is saved, taken apart
    stored      .npy, HDF5, NetCDF, GeoTIFF            units       chunks, shards, units
    zarr, ome   stores of Zarr, images of OME-Zarr     zarr_saving, whole_files    the formats
                                                       resume      what is meant, what is written
    paths, errors, atomic, progress                    run, cluster                the tasks

Pillow, tifffile, Dask, zarr and the like are imported when they are first needed, so importing
this package costs nothing.
"""
