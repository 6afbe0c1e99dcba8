"""Files in, files out: `imread` and `open` read lazily, `imsave` and `save` write unit by unit.

Pillow, tifffile, Dask, zarr and the like are imported when they are first needed, so importing
this package costs nothing.
"""
