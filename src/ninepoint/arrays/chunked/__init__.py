"""Programs on Dask arrays, lazily.

No core axis is cut:  one symbolic layer, which Dask joins with what is before and after.
The fields are views of something that can be sliced: each task reads what it needs.
Else:                 each block is made of its chunk and of its neighbours' faces, of groups of
                      chunks where these are thin or lie otherwise; chunks of views are read twice,
                      so that only faces are held.

A program of many nodes has one halo for all of them.  Tasks hold the recipe (`blocks.Job`).
"""

from .computation import lazily, taken_to, takes_whole

__all__ = ["lazily", "taken_to", "takes_whole"]
